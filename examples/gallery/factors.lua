-- Matrix factorisation: blocks of ratings of which no two share a row or a column at the same time (Gemulla et al.,
-- KDD 2011); columns move to the worker that needs them next.
--   tide run examples/gallery/factors.lua
local tide = require "tide"

local opt = tide.options {
  data   = {"ratings: user item value a line; without it: generated", type = "file"},
  rank   = {"latent dimensions", default = 8},
  epochs = {"passes over the ratings", default = 10},
  nodes  = {"worker nodes", default = 2},
}

local function table_of(count, technique)
  return tide.table {keys = tide.dense(count), width = opt.rank, update = "add", slots = "range", technique = technique,
                     init = tide.normal {std = opt.rank ^ -0.25}}
end

local job = tide.job {
  name = "factors",
  data = tide.data.ratings(opt.data or tide.data.generate "small", {split = {test = 0.1, seed = 1}}),
  tables = function(d) return {rows = table_of(d.rows, "static"), columns = table_of(d.cols, "relocate")} end,
  worker = function(w)
    local sgd <const>, t <const> = tide.kernel "mf_sgd_block", w.tables
    local rotation <const> = w.data:rotation(w, {epochs = opt.epochs, columns = t.columns})
    for epoch = 1, opt.epochs do
      local loss, examples = 0, 0
      for block in rotation:epoch(epoch) do
        local r <const> = sgd {rows = t.rows, columns = t.columns, cells = block.cells, values = block.values,
                               row_counts = w.data.row_counts, column_counts = w.data.column_counts, eps = 0.01,
                               seed = block.seed}
        loss, examples = loss + r.loss, examples + block.values:rows()
      end
      w:report {loss = loss, examples = examples}
    end
  end,
  evaluate = {rmse = function(w)
    local sum, count = 0, 0
    for strip in w.data:strips "test" do
      local r <const> = tide.kernel "mf_error" {rows = w.tables.rows, columns = w.tables.columns, cells = strip.cells,
                                                values = strip.values}
      sum, count = sum + r.sum, count + r.count
    end
    return sum, count
  end},
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for r in run:events "report" do
    if r.n == 1 or r.n % 5 == 0 then print(("epoch %2d  squared error %.4f"):format(r.n, r.loss / r.examples)) end
  end
  print(("held out: root of the mean squared error %.4f"):format(math.sqrt(run:evaluate "rmse")))
  print(run:wait():table {"relocated", "local_share"})
end)
