-- Classes of vertices by sampled neighbours (GraphSAGE, Hamilton 2017): a step sees some vertices, of each at most so
-- many neighbours, and of these as many again; the graph is as large as memory, a step is not.
--   tide run sage.lua                       a generated graph of communities
--   tide run sage.lua --fanout 3
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  vertices = {"of the graph", default = 2000},
  classes  = {"communities", default = 4},
  degree   = {"neighbours of a vertex, about", default = 12},
  mixed    = {"share of the neighbours that are of any community", default = 0.3},
  features = {"numbers a vertex, of which most are noise", default = 16},
  labels   = {"vertices whose class is known", default = 400},
  fanout   = {"neighbours that are drawn of a vertex", default = 6},
  batch    = {"vertices of a step", default = 50},
  lr       = {"rate, of adam", default = 0.01},
  epochs   = {"passes over the labelled vertices", default = 8},
  seed     = {"of graph, initial values and draws", default = 1},
}
local N <const>, K <const>, D <const>, S <const>, H <const> = opt.vertices, opt.classes, opt.features, opt.fanout, 16

---The graph by rows (CSR): the neighbours of vertex v are `list[starts[v + 1] + 1 .. starts[v + 2]]`, all from 0.
local function graph(rng)
  local near = {}
  for v = 1, N do near[v] = {} end
  for v = 0, N - 1 do
    for _ = 1, opt.degree // 2 do
      local u = rng:below(N)
      if rng:uniform() >= opt.mixed then u = math.min(u // K * K + v % K, N - 1) end
      table.insert(near[v + 1], u)
      table.insert(near[u + 1], v)
    end
  end
  local starts, list = tide.tensor.zeros("i32", 1, N + 1), {}
  for v = 1, N do
    table.move(near[v], 1, #near[v], #list + 1, list)
    starts[v + 1] = #list
  end
  local neighbours <const> = tide.tensor.zeros("i32", 1, #list)
  for i, u in ipairs(list) do neighbours[i] = u end
  return starts, neighbours
end

local rng <const> = tide.random(opt.seed)
local starts <const>, neighbours <const> = graph(rng)
local features <const> = tide.tensor.zeros("f32", N, D)
for v = 0, N - 1 do
  for j = 0, D - 1 do features[v * D + j + 1] = rng:uniform() - 0.5 + (j == v % K and 0.2 or 0) end
end

---Of each vertex of a list S neighbours, drawn with repetition; -1, of which nothing is read, where it has none.
local function drawn(draw, list)
  local all <const> = {}
  for _, v in ipairs(list) do
    local first <const>, count <const> = v < 0 and 0 or starts[v + 1], v < 0 and 0 or starts[v + 2] - starts[v + 1]
    for _ = 1, S do all[#all + 1] = count == 0 and -1 or neighbours[first + draw:below(count) + 1] end
  end
  return all
end

local function rows(list, columns)
  local t <const> = tide.tensor.zeros("i32", #list // columns, columns)
  for i, x in ipairs(list) do t[i] = x end
  return t
end

---A batch of vertices: themselves, their neighbours, and the neighbours of these.
local function batch_of(draw, own)
  local y <const>, near <const> = {}, drawn(draw, own)
  for i, v in ipairs(own) do y[i] = v % K end
  return {own = rows(own, 1), near = rows(near, S), far = rows(drawn(draw, near), S * S), y = rows(y, 1)}
end

local net <const> = nn.program("sage", function(p)
  local x <const> = p:constant(features)
  local own <const>, near <const>, far <const> = p:index("own", 1), p:index("near", S), p:index("far", S * S)
  local function layer(n)
    local of_self <const>, of_others <const> = nn.linear(n), nn.linear(n, {bias = false})
    return function(self, others) return of_self(self) + of_others(others) end
  end
  local first <const>, second <const> = layer(H), layer(K)
  local x1 <const> = x:gather(near)
  local h0 <const> = nn.relu(first(x:gather(own), x1:mean(1):reshape(1, D)))
  local h1 <const> = nn.relu(first(x1, x:gather(far):reshape(S, S, D):mean(2):reshape(S, D)))
  p:loss(nn.xent(second(h0, h1:mean(1):reshape(1, H)), p:index("y", 1)))
end)

---Vertices first .. last, so many at a time, in an order that `draw` makes.
local function batches(draw, first, last)
  local list <const> = {}
  for v = first, last do list[#list + 1] = v end
  for i = #list, 2, -1 do
    local k <const> = draw:below(i) + 1
    list[i], list[k] = list[k], list[i]
  end
  local at = 1
  return function()
    if at > #list then return nil end
    local own <const> = table.move(list, at, math.min(at + opt.batch - 1, #list), 1, {})
    at = at + opt.batch
    return batch_of(draw, own)
  end
end

tide.main(function()
  local m <const> = net:compile {optimizer = nn.adam {lr = opt.lr}, seed = opt.seed}
  print(("%d vertices, %d edges, %d labels"):format(N, #neighbours, opt.labels))
  for epoch = 1, opt.epochs do
    local loss, count, correct, others = 0, 0, 0, 0
    for batch in batches(rng, 0, opt.labels - 1) do
      local r <const> = m:step(batch)
      loss, count = loss + r.loss, count + r.count
    end
    for batch in batches(rng, opt.labels, N - 1) do
      local r <const> = m:evaluate(batch)
      correct, others = correct + r.correct, others + r.count
    end
    print(("epoch %2d  loss %.4f  other vertices: %.1f %% right"):format(epoch, loss / count, 100 * correct / others))
  end
end)
