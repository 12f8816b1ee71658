-- A recommender like DLRM (Naumov et al., arXiv 1906.00091): three categories with rows in a hashed table, four
-- numbers, and a net that sees the products of each two. Its net lies in a table, too: workers pull both and push
-- gradients.
--
--   tide run examples/recommender.lua
--
-- The data follow a formula, as initial values do, so losses can be compared: PyTorch's of the last 20 steps, in
-- float64, is 0.209249.
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {
  nodes = {"of a worker each", default = 2, min = 1},
  steps = {"of all workers", default = 200},
  batch = {"of all workers", default = 64, min = 1},
}
local WIDTH <const>, CATEGORIES <const> = 8, {100, 50, 20}

-- Sixteen bits of a hash, and the number in -0.1 .. 0.1 that they stand for.
local function hash(i, s)
  local x = (i * 2654435761 + s * 40503) & 0xffffffff
  x = (x ~ x >> 15) * 2246822519 & 0xffffffff
  return (x ~ x >> 13) >> 8 & 0xffff
end
local function number(i, s, scale) return scale * (hash(i, s) / 65536 * 0.2 - 0.1) end

local net = nn.program("recommender", function(p)
  local function mlp(x, widths, names)
    for l, width in ipairs(widths) do x = nn.linear(width, {name = names[l]})(x) end
    return x
  end
  local rows, v = p:input("vectors", WIDTH * #CATEGORIES), {}
  v[1] = nn.relu(mlp(nn.relu(mlp(p:input("numbers", 4), {16}, {"below1"})), {WIDTH}, {"below2"}))
  for k = 1, #CATEGORIES do v[k + 1] = rows:slice((k - 1) * WIDTH + 1, WIDTH) end
  local seen = v[1]
  for i = 2, #v do
    for j = 1, i - 1 do seen = seen:concat((v[i] * v[j]):sum "rows") end
  end
  p:loss(nn.sigmoid_xent(mlp(nn.relu(mlp(seen, {16}, {"above1"})), {1}, {"above2"}), p:input("clicked", 1)))
end, {inputs = true}) -- gradients of inputs, too: those of `vectors` go to the table

-- Examples first .. first + count - 1: keys of their rows, and the batch.
local function examples(first, count)
  local keys <const> = tide.tensor.zeros("u64", count * #CATEGORIES)
  local batch <const> = {numbers = tide.tensor.zeros("f32", count, 4), clicked = tide.tensor.zeros("f32", count, 1)}
  for b = 1, count do
    local n <const>, score = first + b - 1, number(4 * (first + b - 1), 50, 1)
    for j = 1, 4 do batch.numbers[4 * (b - 1) + j] = number(4 * n + j - 1, 50, 10) end
    for k, size in ipairs(CATEGORIES) do
      local id <const> = hash(n, 50 + k) % size
      keys[(b - 1) * #CATEGORIES + k] = k << 32 | id -- any 64 bits are a key of a hashed table
      score = score + number(id, 60 + k, 1)
    end
    batch.clicked[b] = score > 0 and 1 or 0
  end
  return keys, batch
end

-- Where training begins, by the formula.
local function begin(w, m, all)
  for s, name in ipairs {"below1.w", "below2.w", "above1.w", "above2.w"} do
    local weights <const> = m:parameter(name)
    local from <const>, to <const> = weights:rows(), weights:columns()
    for i = 1, from do
      for o = 1, to do weights[(i - 1) * to + o] = number((o - 1) * from + i - 1, s, 4) end
    end
  end
  w.tables.net:assign(all, m.parameters)
  for k, size in ipairs(CATEGORIES) do
    local keys <const>, rows = tide.tensor.zeros("u64", size):fill(k << 32, 1), tide.tensor.zeros("f32", size, WIDTH)
    for i = 1, #rows do rows[i] = number(i - 1, 39 + k, 1) end
    w.tables.rows:assign(keys, rows)
  end
end

local job = tide.job {
  name = "recommender",
  tables = {
    rows = tide.table {keys = tide.hashed(), width = WIDTH, update = {"adagrad", lr = 0.1}, consistency = "bsp"},
    net = tide.table {keys = tide.dense(net:layout().keys), width = 1024, update = {"sgd", lr = 0.1},
                      consistency = "bsp"},
  },
  worker = function(w)
    local m <const>, all <const> = net:compile {}, tide.range(0, net:layout().keys - 1)
    if w.rank == 1 then begin(w, m, all) end
    w:barrier "begun"
    local share <const>, loss, seen = opt.batch // w.workers, 0, 0
    for step = 0, opt.steps - 1 do
      local keys <const>, batch <const> = examples(step * opt.batch + (w.rank - 1) * share, share)
      w.tables.net:pull(all, {into = m.parameters})
      batch.vectors = w.tables.rows:pull(keys):view(1, share, WIDTH * #CATEGORIES)
      local g <const> = m:gradients(batch)
      g:scale(1 / opt.batch)
      w.tables.net:push(all, g.flat)
      w.tables.rows:push(keys, g:input("vectors"):view(1, #keys, WIDTH))
      w:clock()
      loss, seen = loss + g.loss, seen + g.count
      if step % 20 == 19 then
        w:report {loss = loss, examples = seen}
        loss, seen = 0, 0
      end
    end
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for r in run:events "report" do print(("steps %3d  loss %.6f"):format(r.n * 20, r.loss / r.examples)) end
  run:wait()
end)
