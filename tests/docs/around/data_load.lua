-- docs/guides/data.md: run.tables.words:load("vectors.npy", {keys = 0})                             -- row i is key i, from 0
-- by tide run
local tide = require "tide"
local job = tide.job {
  name = "words", tables = {words = tide.table {keys = tide.dense(10), width = 4, init = tide.zero()}},
  worker = function(w) w:report {examples = 1} end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run <close> = cluster:start(job)
  run:wait()
  local rows <const>, ids <const> = tide.tensor.zeros("f32", 10, 4):fill(3), tide.tensor.zeros("i64", 10)
  for i = 1, 10 do ids[i] = 10 - i end
  tide.tensor.save("vectors.npy", rows)
  tide.tensor.save("vectors.safetensors", {emb = rows, ids = ids})
  @block@
  print("sum", run.tables.words:pull(tide.range(0, 9)):sum()) --> sum 120.0
end)
