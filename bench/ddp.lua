-- A training step beside PyTorch's DistributedDataParallel: Tide's side of bench/ddp.sh, on nodes that are running.
--   tide run --cluster lab ddp.lua --net mlp --policies comm/hybrid,comm/always-ps
-- One object of JSON a policy: ms of a step, bytes that left a node's interfaces in it, with and without the heads of
-- packets, and what the formulas of docs/guides/exchange.md say of the ways that were taken.
local tide, nn = require "tide", require "tide.nn"
local exchange = require "tide.nn.exchange"
local summary = require "tide.run.summary"

local opt = tide.options {
  net      = {"the net", default = "mlp", choices = {"mlp", "vgg", "mlr"}},
  policies = {"which, one after the other", default = "comm/hybrid"},
  workers  = {"nodes with a worker each", default = 4},
  batch    = {"examples of a worker in a step", default = 32},
  warm     = {"steps before those that count", default = 2},
  steps    = {"steps that count", default = 5},
}

local nets = {}

function nets.mlp()
  return 784, 10, nn.sequential {
    input = {784}, loss = nn.xent(),
    nn.linear(4096), nn.relu(), nn.linear(4096), nn.relu(), nn.linear(10),
  }
end

function nets.vgg()
  return 32 * 32 * 3, 100, nn.sequential {
    input = {32, 32, 3}, loss = nn.xent(),
    nn.conv(16, 3), nn.relu(), nn.maxpool(2), nn.conv(32, 3), nn.relu(), nn.maxpool(2), nn.conv(32, 3), nn.relu(),
    nn.maxpool(2), nn.flatten(), nn.linear(4096), nn.relu(), nn.linear(4096), nn.relu(), nn.linear(100),
  }
end

function nets.mlr()
  return 4096, 10000, nn.sequential {input = {4096}, loss = nn.xent(), nn.linear(10000)}
end

local columns <const>, classes <const>, program <const> = nets[opt.net]()

local function batch_of(rng)
  local x, y = tide.tensor.zeros("f32", opt.batch, columns), tide.tensor.zeros("i32", opt.batch, 1)
  for i = 1, opt.batch do
    local row = x:slice(i, 1)
    for j = 1, columns do row[j] = rng:uniform() - 0.5 end
    y[i] = rng:below(classes)
  end
  return {x = x, y = y, first = 1, rows = opt.batch}
end

-- Bytes that have left through the interfaces of this process's network namespace, and those of them that were no heads
-- of packets (Ethernet, IP, TCP with time stamps).
local HEAD <const> = 14 + 20 + 32
local function left()
  local bytes, content = 0, 0
  for line in io.lines "/proc/net/dev" do
    local name, figures = line:match "^%s*(%S+):(.*)$"
    local out, packets
    if name and name ~= "lo" then out, packets = figures:match(("%s+%d+"):rep(8) .. "%s+(%d+)%s+(%d+)") end
    if out then bytes, content = bytes + tonumber(out), content + tonumber(out) - HEAD * tonumber(packets) end
  end
  return bytes, content
end

local function train(w)
  local model <const> = program:compile {seed = w.seed, optimizer = nn.sgd {lr = 1e-4}}
  local ranks <const> = {}
  for rank = 1, w.workers do ranks[rank] = rank end
  local x <const>, batch <const> = exchange.new(w, model, ranks), batch_of(w.rng)
  for step = 1, opt.warm do x:step(batch, step) end
  x:settle()
  x:figures()
  w:barrier "warm"
  local bytes <const>, content <const> = left()
  local began <const>, formula = tide.now(), 0
  for step = opt.warm + 1, opt.warm + opt.steps do
    x:step(batch, step)
    for l, t in ipairs(x.tensors) do
      formula = formula + 4 * exchange.values_out(t, x.plan.paths[l], w.workers, opt.batch * t.positions)
    end
  end
  x:settle()
  w:barrier "done"
  local each <const> = 1 / (opt.steps * w.workers)
  local took <const>, bytes_now <const>, content_now <const> = tide.now() - began, left()
  local report <const> = x:figures()
  for key, value in pairs(report) do report[key] = value * each end
  report.step_s, report.formula_bytes = took * each, formula * each
  report.out_bytes, report.content_bytes = (bytes_now - bytes) * each, (content_now - content) * each
  w:report(report)
end

local jobs = {}
for policy in opt.policies:gmatch "[^,]+" do
  jobs[#jobs + 1] = {policy = policy, job = tide.job {
    name = ("ddp-%d"):format(#jobs + 1), worker = train, policies = {comm = policy},
    comm = {tensors = function() return exchange.describe(program) end, batch = opt.batch * opt.workers},
  }}
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.workers}
  for _, each in ipairs(jobs) do
    local run = cluster:start(each.job)
    local report
    for r in run:events "report" do report = r end
    run:wait()
    print(tide.json.encode {
      schema = "tide.ddp/1", peer = "tide", method = each.policy, net = opt.net, workers = opt.workers,
      step_ms = 1000 * report.step_s, out_bytes = report.out_bytes, content_bytes = report.content_bytes,
      formula_bytes = report.formula_bytes, overlap = summary.overlap_of(report),
    })
  end
end)
