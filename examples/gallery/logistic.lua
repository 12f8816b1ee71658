-- Sparse logistic regression: examples in LibSVM's form, weights in a table, gradient steps written with tensors.
--   tide run examples/gallery/logistic.lua
local tide = require "tide"

local opt = tide.options {
  data  = {"a file in LibSVM's form with labels of two classes; without it: generated", type = "file"},
  steps = {"gradient steps", default = 20},
  lr    = {"step size", default = 10.0},
  nodes = {"worker nodes", default = 2},
}

local data = tide.data.libsvm(opt.data or {generate = {train = 4000, test = 0, columns = 300, nonzeros = 20,
  classes = 2, seed = 1}}, {labels = "class"})

-- The number of each entry's row, from 0.
local function rows_of(part)
  local rows <const>, first <const> = tide.tensor.zeros("u32", part:entries()), part.offsets[1]
  for i = 1, part:rows() do
    local from <const>, to <const> = part.offsets[i] - first, part.offsets[i + 1] - first
    if to > from then rows:view(from + 1, to - from, 1):fill(i - 1) end
  end
  return rows
end

local job = tide.job {
  name = "logistic", data = data,
  tables = function(d)
    return {weights = tide.table {keys = tide.dense(d.columns), width = 1, update = {"sgd", lr = opt.lr}}}
  end,
  worker = function(w)
    local part <const> = w.data:part "train"
    local n <const>, columns <const> = part:rows(), w.data.columns
    local first <const>, count <const> = part.offsets[1] + 1, part:entries() -- of the worker's piece
    local values <const>, indices <const> = part.values:slice(first, count), part.indices:slice(first, count)
    local of_row <const> = rows_of(part)
    local labels <const> = part.labels:convert "f32"
    local keys <const> = tide.tensor.zeros("u64", columns):fill(0, 1)
    for _ = 1, opt.steps do
      local weights <const> = w.tables.weights:pull(keys)
      local margins <const> = tide.tensor.zeros("f32", n, 1)
        :scatter_add(of_row, weights:gather(indices):mul(values))
      local loss <const> = margins:copy():map("log(1 + exp(x)) - y * x", {y = labels}):sum()
      local errors <const> = margins:map("sigmoid(x) - y", {y = labels})
      local gradient <const> = tide.tensor.zeros("f32", columns, 1)
        :scatter_add(indices, errors:gather(of_row):mul(values))
      w:barrier "read" -- all have the weights of this step
      w.tables.weights:push(keys, gradient:mul(1 / data.count))
      w:report {loss = loss, examples = n, wrong = errors:map("abs(x) >= 0.5"):sum()}
    end
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for r in run:events "report" do
    if r.n == 1 or r.n % 5 == 0 then
      print(("step %2d  loss %.4f  right %.1f %%"):format(r.n, r.loss / r.examples, 100 - 100 * r.wrong / r.examples))
    end
  end
  run:wait()
end)
