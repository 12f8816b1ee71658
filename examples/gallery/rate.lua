-- A learning rate that falls while the job runs: a line is fitted with momentum where its row lives, and when the error
-- has stopped falling one worker halves the table's rate, for all nodes.
--
--   tide run examples/gallery/rate.lua
--   tide table set line rate=0.01      # by hand, while such a job runs
local tide = require "tide"

local POINTS <const>, BATCH <const>, STEPS <const>, LOOK <const> = 4000, 40, 200, 20
local TRUE <const> = tide.tensor.from("f32", {2, -1, 0.5, 3})
local D <const> = #TRUE

local best, sum, reports = math.huge, 0, 0

local job = tide.job {
  name = "rate",
  params = {halve = false},
  tables = {line = tide.table {keys = tide.dense(1), width = D, update = {"momentum", lr = 0.05, momentum = 0.9}}},

  worker = function(w)
    local line <const> = w.tables.line
    local count <const> = POINTS // w.workers
    local x = tide.tensor.zeros("f32", count, D):normal(2 * w.rank)
    local y = tide.tensor.zeros("f32", count):normal(2 * w.rank + 1, 0, 2)             -- the noise
    y:add(tide.tensor.zeros("f32", count):matmul(x, TRUE))
    for step = 1, STEPS do
      local first <const> = (step - 1) * BATCH % count + 1
      local some <const>, row <const> = x:slice(first, BATCH), line:pull {0}
      local off = tide.tensor.zeros("f32", BATCH):matmul(some, row, {transpose_b = true}):sub(y:slice(first, BATCH))
      local gradient = tide.tensor.zeros("f32", 1, D):matmul(off, some, {transpose_a = true, scale = 1 / BATCH})
      w:barrier "pulled"
      line:push({0}, gradient)
      w:report {loss = off:dot(off), examples = BATCH}
      if w.params.halve then
        w:barrier "still"                          -- no worker pushes between these two
        if w.rank == 1 then line:rate(line:rate() / 2) end
        w:barrier "on"
      end
    end
  end,

  on_report = function(_, report)                  -- once a step, on the driver
    sum = sum + report.loss / report.examples / LOOK
    reports = reports + 1
    if reports % LOOK ~= 0 then return {halve = false} end
    local error <const> = sum
    local still <const> = error > 0.98 * best
    print(("step %3d  squared error %.2f%s"):format(reports, error, still and ", half the rate" or ""))
    best, sum = math.min(best, error), 0
    return {halve = still}
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  run:wait()
  local line <const> = run.tables.line
  local off <const> = line:pull({0}):sub(TRUE:view(1, 1, D)):norm()
  print(("off the true line %.3f, rate %g"):format(off, line:rate()))
end)
