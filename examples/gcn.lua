-- Classes of a graph's vertices from few labels: a graph convolution (Kipf, Welling 2017) or GraphSAGE (Hamilton 2017).
-- The graph is one example; edges are two lists of vertices, along which rows are gathered and added up.
--   tide run gcn.lua                       a generated graph of communities
--   tide run gcn.lua --net sage --epochs 100
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  net      = {"gcn, or sage: the mean of the neighbours beside the vertex itself", default = "gcn"},
  vertices = {"of the graph", default = 400},
  classes  = {"communities", default = 4},
  features = {"numbers a vertex, of which most are noise", default = 16},
  inside   = {"share of the pairs in a community that are joined", default = 0.06},
  between  = {"share of all other pairs that are joined", default = 0.01},
  labels   = {"vertices whose class is known", default = 40},
  hidden   = {"width", default = 16},
  lr       = {"rate, of adam", default = 0.01},
  epochs   = {"steps: each sees the whole graph", default = 60},
  seed     = {"of graph and initial values", default = 1},
}
local N <const>, K <const>, D <const> = opt.vertices, opt.classes, opt.features

---Edges in both directions, and for gcn of each vertex to itself; `share` is 1 / sqrt(degree degree).
local function edges(rng)
  local from, to, degree = {}, {}, {}
  local function edge(i, j)
    from[#from + 1], to[#to + 1] = i, j
    degree[j] = (degree[j] or 0) + 1
  end
  for i = 0, N - 1 do
    for j = i + 1, N - 1 do
      if rng:uniform() < (i % K == j % K and opt.inside or opt.between) then
        edge(i, j)
        edge(j, i)
      end
    end
    if opt.net == "gcn" then edge(i, i) end
  end
  local share = {}
  for e = 1, #from do share[e] = 1 / math.sqrt(degree[from[e]] * degree[to[e]]) end
  return from, to, share
end

local rng <const> = tide.random(opt.seed)
local from <const>, to <const>, share <const> = edges(rng)
local E <const> = #from

local function row(kind, list)
  local t = tide.tensor.zeros(kind, 1, #list)
  for i, x in ipairs(list) do t[i] = x end
  return t
end

local data <const> = tide.data.lazy(function()
  local x, known, rest = {}, {}, {}
  for n = 0, N - 1 do
    for j = 0, D - 1 do x[n * D + j + 1] = rng:uniform() - 0.5 + (j == n % K and 0.3 or 0) end
    known[n + 1], rest[n + 1] = n < opt.labels and n % K or -1, n < opt.labels and -1 or n % K
  end
  local parts = {}
  for part, labels in pairs {train = known, test = rest} do
    parts[part .. ".x"], parts[part .. ".share"] = row("f32", x), row("f32", share)
    parts[part .. ".from"], parts[part .. ".to"] = row("i32", from), row("i32", to)
    parts[part .. ".y"] = row("i32", labels)
  end
  return {parts = parts, note = ("%d vertices, %d edges, %d labels"):format(N, E, opt.labels)}
end)

local net <const> = nn.program(opt.net, function(p)
  local x <const>, weight <const> = p:input("x", N, D), p:input("share", E, 1)
  local source <const>, target <const> = p:index("from", E), p:index("to", E)
  local layers <const> = {
    gcn = function(h, n) return (nn.linear(n)(h):gather(source) * weight):scatter_add(target, N) end,
    sage = function(h, n)
      return nn.linear(n)(h) + nn.linear(n, {bias = false})(nn.segment_mean(h:gather(source), target, N))
    end,
  }
  local layer <const> = layers[opt.net] or error("--net is gcn or sage", 0)
  p:loss(nn.xent(layer(nn.relu(layer(x, opt.hidden)), K), p:index("y", N)))
end)

local job <const> = nn.job {name = opt.net, program = net, data = data, batch = 1, epochs = opt.epochs, seed = opt.seed,
                            optimizer = nn.adam {lr = opt.lr}}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local run <const> = cluster:start(job)
  print(data.note)
  for r in run:events "report" do
    if r.n % math.max(1, opt.epochs // 6) == 0 then
      print(("step %3d  loss %.4f  other vertices: %.1f %% right"):format(r.n, r.loss / r.examples,
        100 * run:evaluate("test").correct))
    end
  end
  run:wait()
end)
