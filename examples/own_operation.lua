-- An operation of a program written in C (huber.c beside this file): a regression that outliers do not pull away.
--   cc -O3 -shared -fPIC huber.c $(pkg-config --cflags tide) -o huber.so
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  module = {"the shared object", default = "huber.so"},
  steps  = {"of gradient descent", default = 300},
}
local own <const> = tide.kernel.load(opt.module) -- on every node; all have to have the same file

local function net(loss)
  return nn.program("line", function(p)
    p:loss(loss(nn.linear(1, {name = "line"})(p:input("x", 1)) - p:input("y", 1)))
  end)
end

tide.main(function()
  local n <const>, rng = 200, tide.random(1)
  local x <const>, y <const> = tide.tensor.zeros("f32", n, 1), tide.tensor.zeros("f32", n, 1)
  for i = 1, n do
    x[i] = 2 * rng:uniform() - 1
    y[i] = 3 * x[i] + 0.1 * (rng:uniform() - 0.5) + (i % 10 == 0 and 20 or 0) -- one in ten is far off
  end
  local worst <const> = nn.check_gradient(function(v) return own.huber(v, {bound = 0.5}) end, {x}).worst
  print(("backward agrees with differences: %s"):format(worst < 1e-6))
  for name, loss in pairs {huber = function(v) return own.huber(v, {bound = 0.5}) end,
                           squares = function(v) return v:sqr() / 2 end} do
    local m <const> = net(loss):compile {optimizer = nn.sgd {lr = 0.5}}
    for _ = 1, opt.steps do m:step {x = x, y = y} end
    print(("%-8s slope %.2f of 3, offset %.2f of 0"):format(name, m:parameter "line.w"[1], m:parameter "line.b"[1]))
  end
end)
