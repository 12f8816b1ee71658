-- All that one server holds moves to another while workers go on: how long the longest pull or push of any worker takes
-- before, during and after, and how fast the rows move. In the end every push counts once.
--   tide run bench/migrate.lua [--mb 256] [--json]
local tide = require "tide"
local opt = tide.options {
  mb = {"megabytes of the table", default = 256}, json = {"rows as JSON", default = false},
  rows = {"rows of a pull or push", default = 64},
}
local WIDTH <const> = 64
local KEYS <const> = opt.mb * 1000000 // (4 * WIDTH)

local job = tide.job {
  name = "migrate", tables = {model = {keys = {"dense", KEYS}, width = WIDTH, slots = "range"}},
  worker = function(w)
    local ones <const> = tide.tensor.zeros("f32", opt.rows, WIDTH)
    ones:fill(1)
    while not w:stopping() do
      local longest, sum, count, pushed = 0, 0, 0, 0
      local until_ <const> = tide.now() + 0.1
      repeat
        local keys, first = {}, w.rng:below(KEYS - opt.rows)
        for i = 1, opt.rows do keys[i] = first + i - 1 end -- of one slot or two neighbours, as tensors are
        for _, f in ipairs {function() w.tables.model:pull(keys) end, function() w.tables.model:push(keys, ones) end} do
          local began <const> = tide.now()
          f()
          local took <const> = tide.now() - began
          longest, sum, count = math.max(longest, took), sum + took, count + 1
        end
        pushed = pushed + opt.rows
      until tide.now() >= until_
      w:report {longest = longest, sum = sum, operations = count, pushed = pushed}
    end
  end,
}

local function row(what, unit, value)
  if opt.json then
    print(('{"schema":"tide.bench/1","bench":"migrate","row":"%s","unit":"%s","value":%.6g}'):format(what, unit, value))
  else
    print(("%-10s %-48s %12.4g %s"):format("migrate", what, value, unit))
  end
end

tide.main(function()
  local cluster <close> = tide.cluster {servers = 1, nodes = 2}
  local run = cluster:start(job)
  cluster:add_node "s2"
  local to
  for _, node in ipairs(cluster:agents()) do
    if node.name == "s2" then to = node.id end
  end
  local model, slots = run.tables.model, {}
  for s = 0, 4095 do slots[#slots + 1] = s end
  local phase, steps, took = "before", 0, nil
  local figures = {}
  for _, p in ipairs {"before", "while it moves", "after"} do figures[p] = {longest = 0, sum = 0, count = 0} end
  local mover = tide.spawn(function()
    while steps < 20 do tide.sleep(0.01) end
    phase = "while it moves"
    local began <const> = tide.now()
    assert(model:move(slots, to))
    took = tide.now() - began
    steps = 0
    phase = "after"
    while steps < 20 do tide.sleep(0.01) end
    run:stop()
  end)
  local pushed = 0
  for r in run:events "report" do
    local f <const> = figures[phase]
    pushed, steps = pushed + r.pushed, steps + 1
    for _, w in ipairs(r.workers) do
      f.longest, f.sum, f.count = math.max(f.longest, w.longest), f.sum + w.sum, f.count + w.operations
    end
  end
  mover:wait()
  run:wait()
  local sum, all = 0, {}
  for first = 0, KEYS - 1, 50000 do
    for k = first, math.min(first + 49999, KEYS - 1) do all[k - first + 1] = k end
    for i = #all, math.min(50000, KEYS - first) + 1, -1 do all[i] = nil end
    sum = sum + model:pull(all):sum()
  end
  assert(math.abs(sum / WIDTH - pushed) < 0.5, ("rows lost or doubled: %.0f of %d"):format(sum / WIDTH, pushed))
  assert(model:homes()[to] == 4096, "not all has moved")
  row(("%d MB to another server"):format(opt.mb), "MB/s", opt.mb / took)
  for _, p in ipairs {"before", "while it moves", "after"} do
    row(("longest pull or push %s"):format(p), "ms", 1e3 * figures[p].longest)
    row(("mean pull or push %s"):format(p), "ms", 1e3 * figures[p].sum / figures[p].count)
  end
end)
