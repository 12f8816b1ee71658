-- Times a step of a model, forward, backward and update, or attention alone: milliseconds of processor time, the median
-- of --times.
-- bench/gpt.py runs it in turn with PyTorch.
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  what   = {"gpt, attention, gcn, sage, dlrm, own or silu", default = "gpt"},
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

local GRAPH <const> = {vertices = 2708, edges = 10556, features = 1433, classes = 7, hidden = 16} -- Cora's sizes

-- The k-th edge goes from and to these vertices; for gcn each vertex has one to itself, too.
local function ends(k)
  local n <const> = GRAPH.vertices
  if k >= GRAPH.edges then return k - GRAPH.edges, k - GRAPH.edges end
  return k * 7919 % n, (k * 104729 + k // 3) % n
end

local function graph(kind)
  local n <const>, wide <const> = GRAPH.vertices, GRAPH.features
  local e <const> = GRAPH.edges + (kind == "gcn" and n or 0)
  local program <const> = nn.program(kind, function(p)
    local x <const>, share <const> = p:input("x", n, wide), p:input("share", e, 1)
    local from <const>, to <const> = p:index("from", e), p:index("to", e)
    local function layer(h, columns)
      if kind == "gcn" then return (nn.linear(columns)(h):gather(from) * share):scatter_add(to, n) end
      return nn.linear(columns)(h)
        + nn.segment_mean(nn.linear(columns, {bias = false})(h):gather(from), to, n)
    end
    p:loss(nn.xent(layer(nn.relu(layer(x, GRAPH.hidden)), GRAPH.classes), p:index("y", n)))
  end)
  local batch <const> = {x = tide.tensor.zeros("f32", 1, n * wide):normal(1),
                         share = tide.tensor.zeros("f32", 1, e):fill(0.2), y = tide.tensor.zeros("i32", 1, n),
                         from = tide.tensor.zeros("i32", 1, e), to = tide.tensor.zeros("i32", 1, e)}
  for k = 0, e - 1 do batch.from[k + 1], batch.to[k + 1] = ends(k) end
  for i = 1, n do batch.y[i] = i <= 140 and i % GRAPH.classes or -1 end
  return program, batch, nn.adam {lr = 0.01}
end

-- Eight tables of 1,000 rows, 13 numbers, and a net that sees the products of each two vectors.
local function dlrm()
  local tables <const>, rows <const>, width <const>, count <const> = 8, 1000, 16, 128
  local program <const> = nn.program("dlrm", function(p)
    local below <const> = nn.relu(nn.linear(width)(nn.relu(nn.linear(64)(p:input("numbers", 13)))))
    local all = below:reshape(1, width)
    local own <const> = p:param("rows", {tables * rows, width}, tide.normal {std = 0.1}):gather(p:index("ids", tables))
    local pairs_ <const> = nn.einsum("ic,jc->ij", own, own):reshape(tables * tables)
    local with_own <const> = nn.einsum("ic,jc->ij", own, all):reshape(tables)
    local seen <const> = below:concat(pairs_):concat(with_own)
    p:loss(nn.sigmoid_xent(nn.linear(1)(nn.relu(nn.linear(64)(seen))), p:input("clicked", 1)))
  end)
  local batch <const> = {numbers = tide.tensor.zeros("f32", count, 13):normal(2),
                         clicked = tide.tensor.zeros("f32", count, 1), ids = tide.tensor.zeros("i32", count, tables)}
  for i = 0, count * tables - 1 do batch.ids[i + 1] = i % tables * rows + i * 37 % rows end
  return program, batch, nn.sgd {lr = 0.1}
end

-- An operation written in Lua, or the built-in one.
local function activation(kind)
  local swish <const> = nn.operation {
    name = "swish",
    forward = function(x)
      local s <const> = x:sigmoid()
      return x * s, {s = s}
    end,
    backward = function(g, saved, _, y) return g * (saved.s + y * (1 - saved.s)) end,
  }
  local act <const> = kind == "own" and swish or nn.silu
  local program <const> = nn.program(kind, function(p)
    local x = p:input("x", 256)
    for _ = 1, 4 do x = act(nn.linear(256)(x)) end
    p:loss(nn.xent(nn.linear(10)(x), p:index "y"))
  end)
  return program, {x = tide.tensor.zeros("f32", 1024, 256):normal(1), y = tide.tensor.zeros("i32", 1024, 1)},
    nn.sgd {lr = 0.01}
end

local MADE <const> = {gcn = graph, sage = graph, dlrm = dlrm, own = activation, silu = activation}

tide.main(function()
  local batch, m, step = {}
  if MADE[opt.what] then
    local program, given, rule = MADE[opt.what](opt.what)
    m = program:compile {optimizer = rule}
    step = function() m:step(given) end
  elseif opt.what == "gpt" then
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
