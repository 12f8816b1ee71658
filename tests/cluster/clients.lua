-- Tables for clients, which a run leaves behind: tide submit --keep.
local tide = require "tide"
local job = tide.job {
  name = "fill",
  tables = {
    factors = tide.table {keys = tide.dense(100000), width = 64, update = "add"},
    sums = tide.table {keys = tide.dense(1000), width = 4, update = "add"},
    moving = tide.table {keys = tide.dense(1000), width = 4, update = "add", technique = "relocate"},
    embedded = tide.table {keys = tide.dense(50), width = 4, update = {"sgd", lr = 0.1}, init = tide.normal {std = 1}},
    kept = tide.table {keys = tide.dense(100), width = 1, update = "add", replicas = 1},
    shown = tide.table {keys = tide.dense(10), width = 1, clients = "read"},
    closed = tide.table {keys = tide.dense(10), width = 1, clients = "none"},
    words = tide.table {keys = tide.hashed(), width = 2, update = "add", refuse_nan = true},
  },
  worker = function(w)
    w.tables.sums:push({7}, {{1, 2, 3, 4}})
    w:report {examples = 1, loss = 0.5}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run = cluster:start(job)
  run:wait()
end)
