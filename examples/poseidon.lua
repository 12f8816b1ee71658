-- How gradients travel between workers: the same training once with each policy, and what it cost.
--   tide run poseidon.lua                              a generated task, four node processes
--   tide run poseidon.lua --net vgg --data mnist/      convolutions below, wide layers on top; MNIST's files
--   tide run poseidon.lua --policies comm/hybrid       one policy; --format bf16 halves the bytes
-- Bytes are those out of a worker in a step, beside what the formulas of docs/guides/exchange.md say.
local tide, nn = require "tide", require "tide.nn"
local exchange = require "tide.nn.exchange"

local ALL <const> = "comm/always-ps,comm/always-ring,comm/always-sfb,comm/hybrid,comm/measured"
local opt = tide.options {
  data     = {"directory with MNIST's files; without it: generated", type = "string"},
  count    = {"number of generated images", default = 2000},
  net      = {"the net", default = "mlp", choices = {"mlp", "vgg", "mlr"}},
  width    = {"of the wide layers", default = 1024},
  batch    = {"images of a step, of all workers together", default = 128},
  epochs   = {"passes over the images", default = 3},
  lr       = {"rate", default = 0.05},
  momentum = {"momentum in place of plain descent", default = false},
  format   = {"of values on the wire", default = "f32", choices = {"f32", "bf16", "f16"}},
  policies = {"which, one after the other", default = ALL},
  nodes    = {"node processes on this machine, a worker each", default = 4},
  seed     = {"of initial values and orders", default = 1},
  json     = {"one JSON object a policy instead of text", default = false},
}

local nets = {}

function nets.mlp()
  return nn.sequential {
    input = {28, 28, 1}, loss = nn.xent(),
    nn.flatten(), nn.linear(opt.width), nn.relu(), nn.linear(opt.width), nn.relu(), nn.linear(10),
  }
end

function nets.vgg()
  return nn.sequential {
    input = {28, 28, 1}, loss = nn.xent(),
    nn.conv(16, 3), nn.relu(), nn.maxpool(2), nn.conv(32, 3), nn.relu(), nn.maxpool(2), nn.conv(32, 3), nn.relu(),
    nn.maxpool(2), nn.flatten(), nn.linear(opt.width), nn.relu(), nn.linear(opt.width), nn.relu(), nn.linear(10),
  }
end

function nets.mlr()
  return nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(10)}
end

local program <const> = nets[opt.net]()
local data <const> = tide.data.images(opt.data, {seed = opt.seed, count = opt.count})

-- A policy's name is the job's, so that every one has a job of its own: workers load this script, too.
local jobs = {}
for policy in opt.policies:gmatch "[^,]+" do
  jobs[#jobs + 1] = {policy = policy, job = nn.job {
    name = "poseidon-" .. #jobs + 1, program = program, data = data, batch = opt.batch, epochs = opt.epochs,
    seed = opt.seed, optimizer = nn[opt.momentum and "momentum" or "sgd"] {lr = opt.lr},
    comm = {policy = policy, params = policy ~= "comm/servers" and {format = opt.format} or nil},
  }}
end

---Bytes of values out of a worker in a step, by policy; nil: the policy changes its mind.
---@param rank number examples of a worker in a step
local function formula(policy, workers, rank)
  local dense <const> = policy:find "ps$" or policy:find "ring" or policy:find "servers"
  local path <const> = policy:find "sfb" and "factor" or dense and "ps"
  if not path then return nil end
  local sum = 0
  for _, t in ipairs(exchange.describe(program)) do
    sum = sum + (opt.format == "f32" and 4 or 2) * exchange.values_out(t, path, workers, rank)
  end
  return sum
end

---Milliseconds of a step: the middle one of the epochs, but for the first.
local function step_ms(reports)
  local each = {}
  for i = 2, #reports do
    each[#each + 1] = 1000 * (reports[i].elapsed_s - reports[i - 1].elapsed_s) * opt.nodes / reports[i].steps
  end
  table.sort(each)
  return each[(#each + 1) // 2] or 1000 * reports[1].elapsed_s * opt.nodes / reports[1].steps
end

tide.main(function()
  local function say(...) if not opt.json and not tide.output.json then print(string.format(...)) end end
  say("data: %s; %s", data.note, opt.net)
  say("%-18s %12s %12s %8s %9s %8s %9s", "policy", "bytes/step", "formula", "apart", "step ms", "overlap", "loss")
  for _, each in ipairs(jobs) do
    local cluster <close> = tide.cluster {nodes = opt.nodes}
    local run = cluster:start(each.job)
    local reports = {}
    for r in run:events "report" do reports[#reports + 1] = r end
    local summary = run:wait()
    local row = {policy = each.policy, net = opt.net, workers = opt.nodes, step_ms = step_ms(reports),
                 loss = summary.loss, bytes_step = summary.comm_bytes_step, overlap = summary.overlap,
                 path_bytes = {ps = summary.comm_ps_bytes, factor = summary.comm_factor_bytes,
                               ring = summary.comm_ring_bytes},
                 formula_bytes = formula(each.policy, opt.nodes, reports[1].examples / reports[1].steps),
                 schema = "tide.poseidon/1"}
    if opt.json or tide.output.json then
      print(tide.json.encode(row))
    else
      local apart = row.formula_bytes and row.bytes_step
        and ("%.2f %%"):format(100 * (row.bytes_step / row.formula_bytes - 1)) or "-"
      say("%-18s %12.0f %12s %8s %9.2f %8s %9.5f", row.policy, row.bytes_step or 0,
        row.formula_bytes and ("%.0f"):format(row.formula_bytes) or "-", apart, row.step_ms,
        row.overlap and ("%.0f %%"):format(100 * row.overlap) or "-", row.loss)
    end
  end
end)
