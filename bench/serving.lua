-- What increments cost training, and how long lookups of a reader take beside it: phases with and without increments
-- take turns, and a reader in this process looks up keys at a fixed rate, each lookup timed from when it was due. On a
-- machine that others use, pushes for each second of the worker's processor time say more than those for each second.
--
--   tide run bench/serving.lua --rounds 5 --phase 5
local tide, core = require "tide", require "tide.core"
local opt = tide.options {
  rounds = {"of a phase with and one without increments", default = 5},
  phase = {"seconds", default = 5.0},
  every = {"seconds between increments", default = 1.0},
  keys = {"different ones", default = 200000},
  rate = {"keys a second that the reader looks up; 0: no reader, what publishing alone costs", default = 100000},
}
local WIDTH <const>, BATCH <const>, LOOKUP <const> = 64, 256, 100
local job = tide.job {
  name = "serving",
  tables = {rows = tide.table {keys = tide.hashed {limit = opt.keys, evict = "lfu"}, width = WIDTH,
    update = {"adagrad", lr = 0.1}}},
  worker = function(w)
    local keys <const>, step <const> = tide.tensor.zeros("u64", BATCH), tide.tensor.zeros("f32", BATCH, WIDTH)
    step:fill(0.01)
    while not w:stopping() do
      for i = 1, BATCH do keys[i] = math.floor((4 * opt.keys) ^ w.rng:uniform()) end
      w.tables.rows:pull(keys)
      w.tables.rows:push(keys, step)
    end
  end,
}

local function pushes(name)
  local sum = 0
  for _, m in ipairs(core.members()) do
    local agent <const> = core.whereis(m.name .. "/agent")
    local answer <const> = agent and core.call(agent, {op = "status"}, 30)
    local s <const> = answer and answer.tables[name]
    sum = sum + (s and s.pushes_local + s.pushes_remote or 0)
  end
  return sum
end

-- Processor time of the threads of the node whose names begin so, in seconds.
local function processor_s(name)
  local ticks = 0
  for _, m in ipairs(core.members()) do
    for _, task in ipairs(m.workers > 0 and core.file_list(("/proc/%d/task"):format(m.pid)) or {}) do
      local file <close> = io.open(("/proc/%d/task/%s/stat"):format(m.pid, task))
      local comm, rest = (file and file:read "a" or ""):match "%((.-)%) (.*)"
      if comm and comm:find(name, 1, true) == 1 then
        local user <const>, system <const> = rest:match(("%S+ "):rep(11) .. "(%d+) (%d+)")
        ticks = ticks + user + system
      end
    end
  end
  return ticks / 100
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1, workers = 1}
  local run = cluster:start(job)
  local dir <const> = os.tmpname()
  os.remove(dir)
  while pushes(run.tables.rows.name) == 0 do
    assert(run:state() ~= "failed", select(2, run:state()))
    tide.sleep(0.1)
  end
  tide.sleep(2)
  cluster:checkpoint(dir)
  local reader <const> = opt.rate > 0 and tide.reader {dir = dir, table = "rows"} or nil
  local waits, running, rng = {}, true, tide.random(1)
  local lookups <const> = core.fiber(function()
    local due, keys = core.now(), tide.tensor.zeros("u64", LOOKUP)
    while reader and running do
      due = due + LOOKUP / opt.rate
      core.sleep(math.max(0, due - core.now()))
      for i = 1, LOOKUP do keys[i] = math.floor((4 * opt.keys) ^ rng:uniform()) end
      reader:pull(keys)
      waits[#waits + 1] = core.now() - due
    end
  end)
  local with, without, bytes, count = {}, {}, 0, 0
  local work, disk_s = {[with] = {0, 0}, [without] = {0, 0}}, 0
  for _ = 1, opt.rounds do
    for _, phase in ipairs {without, with} do
      local from <const>, at = pushes(run.tables.rows.name), core.now()
      local worked, wrote = processor_s "tide-compute", processor_s "tide-disk"
      local until_s <const> = at + opt.phase
      while core.now() < until_s do
        if phase == with then
          bytes, count = bytes + cluster:checkpoint(dir).bytes, count + 1
          if reader then reader:refresh() end
        end
        core.sleep(math.max(0, math.min(opt.every, until_s - core.now())))
      end
      local made <const> = pushes(run.tables.rows.name) - from
      phase[#phase + 1] = made / (core.now() - at)
      work[phase] = {work[phase][1] + made, work[phase][2] + processor_s "tide-compute" - worked}
      disk_s = disk_s + processor_s "tide-disk" - wrote
    end
  end
  running = false
  core.fiber_wait(lookups)
  table.sort(waits)
  local a <const>, b <const> = median(without), median(with)
  print(("pushes (keys/s): %.0f without increments, %.0f with, %.1f %% less"):format(a, b, 100 * (1 - b / a)))
  local c <const>, d <const> = work[without][1] / work[without][2], work[with][1] / work[with][2]
  print(("pushes of a processor second of the worker: %.0f without increments, %.0f with, %.1f %% less"):format(c, d,
    100 * (1 - d / c)))
  print(("%d increments of %.1f MB, each %.3f s of processor time of the disk's thread"):format(count,
    bytes / count / 1e6, disk_s / count))
  if reader then
    print(("reader behind by %.1f s at the end"):format(reader:behind()))
    print(("%d lookups of %d keys: p50 %.3f ms, p99 %.3f ms"):format(#waits, LOOKUP, 1e3 * waits[#waits // 2],
      1e3 * waits[#waits * 99 // 100]))
    reader:close()
  end
  run:stop()
  os.execute("rm -rf " .. dir)
end)
