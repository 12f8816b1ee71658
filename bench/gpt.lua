-- Times a GPT's step, or attention alone, forward and backward: milliseconds of processor time, the median of --times.
-- bench/gpt.py runs it in turn with PyTorch.
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  what   = {"gpt or attention", default = "gpt"},
  layers = {"of the GPT", default = 6},
  width  = {"numbers a character", default = 256},
  heads  = {"of attention", default = 4},
  length = {"characters of an example", default = 256},
  batch  = {"examples", default = 8},
  times  = {"steps that are timed, behind one that is not", default = 5},
}
local T <const>, C <const>, V <const> = opt.length, opt.width, 65

local function gpt()
  return nn.program("gpt", function(p)
    local wte <const> = p:param("wte", {V, C}, tide.normal {std = 0.02})
    local x = wte:gather(p:index("x", T)) + p:param("wpe", {T, C}, tide.normal {std = 0.02})
    for _ = 1, opt.layers do
      local q <const>, k <const>, v <const> = nn.split(nn.linear(3 * C, {bias = false})(nn.layernorm()(x)), 3)
      x = x + nn.linear(C, {bias = false})(nn.attention(q, k, v, {heads = opt.heads, causal = true}))
      x = x + nn.linear(C, {bias = false})(nn.gelu(nn.linear(4 * C, {bias = false})(nn.layernorm()(x))))
    end
    p:loss(nn.xent(nn.layernorm()(x):mm(wte, {tb = true}), p:index("y", T)))
  end)
end

local function attention()
  return nn.program("attention", function(p)
    local q <const>, k <const>, v <const> = p:input("q", T, C), p:input("k", T, C), p:input("v", T, C)
    p:loss(nn.attention(q, k, v, {heads = opt.heads, causal = true}))
  end, {inputs = true})
end

tide.main(function()
  local batch, m, step = {}
  if opt.what == "gpt" then
    m = gpt():compile {optimizer = nn.adamw {lr = 1e-3}}
    for _, name in ipairs {"x", "y"} do
      batch[name] = tide.tensor.zeros("i32", opt.batch, T)
      for i = 1, opt.batch * T do batch[name][i] = i * 7 % V end
    end
    step = function() m:step(batch) end
  else
    m = attention():compile {}
    for _, name in ipairs {"q", "k", "v"} do batch[name] = tide.tensor.zeros("f32", opt.batch, T * C):normal(1) end
    step = function() m:backward(batch) end
  end
  local times = {}
  for i = 0, opt.times do
    local began <const> = os.clock()
    step()
    times[i] = (os.clock() - began) * 1000
  end
  table.sort(times)
  print(("%.2f"):format(times[(opt.times + 1) // 2]))
end)
