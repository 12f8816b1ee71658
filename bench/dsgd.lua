-- Matrix factorisation as examples/mf.lua trains it, and nothing else: no loss, no test, no step size that changes.
--   tide run bench/dsgd.lua --nodes 4 --epochs 20
--   tide run bench/dsgd.lua --share 8            an eighth of mf1m's rows, as each of eight that do not talk has it
local tide = require "tide"

local opt = tide.options {
  nodes = {"node processes on this machine", default = 1},
  workers = {"workers on each node", default = 1},
  epochs = {"passes over the cells", default = 20},
  generate = {"size of the generated matrix", default = "mf1m", choices = {"mf100k", "mf1m"}},
  share = {"the n-th part of the rows and cells of mf1m alone; 0: all of --generate", default = 0},
  rank = {"latent dimensions", default = 100},
  technique = {"where rows live", default = "relocate", choices = {"static", "relocate"}},
}
local part = opt.share > 0 and {rows = 10000 // opt.share, columns = 10000, train = 1000000 // opt.share,
                                test = 0, rank = 100, seed = 1}
local data = tide.data.ratings(tide.data.generate(part or opt.generate), {
  split = {test = part and 0 or 0.1, seed = 1}, partition = "rows", row_bytes = 4 * opt.rank})

local job = tide.job {
  name = "dsgd", data = data,
  tables = function(d)
    local function side(keys)
      return tide.table {keys = tide.dense(keys), width = opt.rank, slots = "range", update = "add",
                         init = tide.uniform {low = 0, high = 1}, technique = opt.technique}
    end
    return {rows = side(d.rows), columns = side(d.cols)}
  end,
  worker = function(w)
    local sgd <const>, moves <const> = tide.kernel "mf_sgd_block", opt.technique == "relocate"
    if moves then w.tables.rows:localize(w.data:row_keys()) end
    local rotation <const> = w.data:rotation(w, {epochs = opt.epochs, columns = moves and w.tables.columns or nil})
    w:barrier "start"
    local began <const> = tide.now()
    for epoch = 1, opt.epochs do
      for block in rotation:epoch(epoch) do
        sgd {rows = w.tables.rows, columns = w.tables.columns, cells = block.cells, values = block.values,
             row_counts = w.data.row_counts, column_counts = w.data.column_counts, eps = 0.001, lambda = 0.05,
             seed = block.seed}
      end
    end
    w:barrier "end"
    w:report {train_s = tide.now() - began}
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
  local run = cluster:start(job)
  for r in run:events "report" do print(("%.4f s an epoch"):format(r.workers[1].train_s / opt.epochs)) end
  run:wait()
end)
