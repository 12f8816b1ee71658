-- What it costs a net to get a worker more or less while it trains: seconds from asking until the new set of workers
-- makes steps, and the pause of those that stay; against what a checkpoint, a new start and a restore would take here.
--   tide run bench/resize.lua --mib 64
local tide, nn = require "tide", require "tide.nn"
local core = require "tide.core"

local opt = tide.options {
  mib   = {"MiB of parameters", default = 64},
  times = {"changes each way", default = 3},
  json  = {"one JSON object a row", default = false},
}

local WIDTH <const> = math.max(opt.mib * 262144 // 1024, 1)
local data = tide.data.images(nil, {count = 100, seed = 3})
local job = nn.job {
  name = "resize", data = data, batch = 40, epochs = 100000, optimizer = nn.sgd {lr = 0.001},
  program = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(WIDTH), nn.relu(),
                           nn.linear(240), nn.relu(), nn.linear(10)},
}

local function row(what, value)
  if opt.json then
    print(tide.json.encode {what = what, seconds = value})
  else
    print(("%-44s %.3f s"):format(what, value))
  end
end

local function middle(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- Waits until reports come from so many workers; seconds since `began`.
local function until_workers(run, count, began)
  for r in run:events "report" do
    if #r.workers == count then return core.now() - began end
  end
end

tide.main(function()
  local cold <const> = core.now()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  until_workers(run, 2, cold)
  row("cluster, load, first epoch of 2 workers", core.now() - cold)
  local epoch = core.now()
  until_workers(run, 2, epoch)
  row("an epoch of 2 workers", core.now() - epoch)
  local more, less = {}, {}
  for i = 1, opt.times do
    local began = core.now()
    run:set_workers(3)
    more[i] = until_workers(run, 3, began)
    began = core.now()
    run:set_workers(2)
    less[i] = until_workers(run, 2, began)
  end
  row("2 to 3 workers, to the end of that epoch", middle(more))
  row("3 to 2 workers, to the end of that epoch", middle(less))
  run:stop()
  run:wait()
end)
