-- What a resize by the scheduling policy of a cluster costs a run, as the run itself measures it and its policy sees it
-- (docs/guides/scheduling.md, "The cost of a resize"): a job on rows goes from 4 to 5 to 3 workers and back.
--   tide run bench/live_resize.lua --mib 64
local tide = require "tide"

local opt = tide.options {
  mib   = {"MiB of rows in the job's table", default = 64},
  times = {"rounds of 4, 5, 3 workers", default = 4},
  chunk = {"milliseconds of a chunk", default = 20},
}
local ROWS <const>, WIDTH <const> = opt.mib * 1024, 256

local policy = {path = "sizes.lua", text = [[
return {api = 1, kind = "scheduling", name = "sizes", version = 1, params = {size = 4}, needs = {}, every = 0.1,
  min_gap = 0.02,
  init = function(params) return params end,
  decide = function(s, view)
    local alloc = {}
    for _, job in ipairs(view.jobs) do alloc[job.id] = {slots = s.size} end
    return {alloc = alloc}
  end}]]}

local job = tide.job {
  name = "rows", data = 60, chunks = 60,
  tables = {t = tide.table {keys = tide.dense(ROWS), width = WIDTH, update = "add"}},
  worker = function(w)
    local keys <const> = tide.range(0, 999)
    while not w:stopping() do
      for c in w:chunks() do
        local rows <const> = w.tables.t:pull(keys)
        tide.sleep(opt.chunk / 1000)
        w.tables.t:push(keys, rows:mul(1e-3))
        c:report {examples = c.count}
      end
      w:report {}
    end
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 5}
  cluster:schedule(policy)
  local run = cluster:start(job, nil, {min = 1, max = 5})
  local reports = 0
  tide.spawn(function()
    for _ in run:events "report" do reports = reports + 1 end
  end)
  local function settle()
    local until_ <const> = reports + 4
    while reports < until_ do tide.sleep(0.02) end
  end
  settle()
  local asked <const> = {}
  for _ = 1, opt.times do
    for _, size in ipairs {5, 3, 4} do
      local began <const> = tide.now()
      assert(cluster.scheduling().set("scheduling", {size = size}))
      while cluster:runs()[1].workers ~= size do tide.sleep(0.01) end
      asked[#asked + 1] = tide.now() - began
      settle()
    end
  end
  table.sort(asked)
  local row <const> = cluster:runs()[1]
  print(("%d resizes of a run with %d MiB of rows: %.3f s each lost (mean), %.3f s from asking to the new workers "
    .. "(median; the least %.3f)"):format(#asked, opt.mib, row.resize_s, asked[(#asked + 1) // 2], asked[1]))
  run:cancel()
end)
