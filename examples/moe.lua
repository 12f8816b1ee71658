-- A mixture of experts (Shazeer et al. 2017): a gate chooses two nets for each example; what the chosen ones give is
-- gathered and weighted. A second loss keeps the choices even (Fedus et al. 2021).
--   tide run moe.lua
--   tide run moe.lua --experts 1 --top 1      one expert alone
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  experts = {"nets of two layers", default = 4},
  top     = {"experts of an example", default = 2},
  hidden  = {"width of an expert", default = 32},
  columns = {"numbers an example", default = 16},
  classes = {"of the examples", default = 10},
  count   = {"generated examples", default = 4000},
  even    = {"weight of the loss that keeps choices even", default = 0.01},
  batch   = {"examples of a step", default = 64},
  epochs  = {"passes over the examples", default = 10},
  lr      = {"rate, of adam", default = 0.003},
  nodes   = {"node processes on this machine", default = 1},
  seed    = {"of examples and initial values", default = 1},
}
local D <const>, K <const> = opt.columns, opt.experts

---Classes are regions around three centres each.
local data <const> = tide.data.lazy(function()
  local rng <const>, centres, parts = tide.random(opt.seed), {}, {}
  for i = 1, 3 * opt.classes * D do centres[i] = 2 * rng:uniform() - 1 end
  for part, count in pairs {train = opt.count, test = opt.count // 4} do
    local x <const>, y <const> = tide.tensor.zeros("f32", count, D), tide.tensor.zeros("i32", count)
    for n = 1, count do
      local centre <const> = rng:below(3 * opt.classes)
      y[n] = centre % opt.classes
      for j = 1, D do x[(n - 1) * D + j] = centres[centre * D + j] + 1.2 * (rng:uniform() - 0.5) end
    end
    parts[part .. ".x"], parts[part .. ".y"] = x, y
  end
  return {parts = parts}
end)

local net <const> = nn.program("moe", function(p)
  local x <const> = p:input("x", D)
  local share <const> = nn.linear(K, {bias = false, name = "gate"})(x):softmax()
  local values <const>, chosen <const> = share:topk(opt.top)
  local all
  for e = 1, K do
    local own <const> = nn.linear(D, {name = "out" .. e})(nn.relu(nn.linear(opt.hidden, {name = "in" .. e})(x)))
    all = all and all:concat(own) or own
  end
  local taken <const> = all:reshape(K, D):gather(chosen)
  local h <const> = x + (taken * (values / values:sum "rows"):reshape(opt.top, 1)):sum(1)
  p:loss(nn.xent(nn.linear(opt.classes)(h), p:index "y"))
  local routed <const> = nn.one_hot(chosen, K):sum(1):sum "columns" / (opt.top * opt.batch)
  p:loss(opt.even * K * (routed * share:sum "columns"))
end)

local job <const> = nn.job {name = "moe", program = net, data = data, batch = opt.batch, epochs = opt.epochs,
                            seed = opt.seed, optimizer = nn.adam {lr = opt.lr}}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run <const> = cluster:start(job)
  for r in run:events "report" do
    print(("epoch %2d  loss %.4f  test %.1f %% right"):format(r.n, r.loss / r.examples,
      100 * run:evaluate("test").correct))
  end
  run:wait()
end)
