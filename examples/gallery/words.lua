-- Word vectors: skip-gram with negative sampling (Mikolov et al., NIPS 2013).
--   tide run examples/gallery/words.lua
local tide = require "tide"

local opt = tide.options {
  data   = {"text, a sentence a line; without it: generated, with known topics", type = "file"},
  dim    = {"numbers of a vector", default = 16},
  epochs = {"passes over the text", default = 3},
  nodes  = {"worker nodes", default = 2},
  seed   = {"of the draws", default = 1},
}
local CALL <const> = 5000 -- tokens

local function vectors(count, init)
  return tide.table {keys = tide.dense(count), width = opt.dim, update = "add", init = init}
end

local job = tide.job {
  name = "words",
  data = tide.data.text(opt.data or {generate = {vocabulary = 1000, words = 60000, seed = 3}}, {min_count = 5}),
  tables = function(d)
    return {input = vectors(d.vocabulary, tide.uniform {low = -0.5 / opt.dim, high = 0.5 / opt.dim}),
            output = vectors(d.vocabulary)}
  end,
  worker = function(w)
    local t <const>, tokens <const> = w.tables, w.data.tokens
    for epoch = 1, opt.epochs do
      local loss, pairs_seen = 0, 0
      for first = 0, #tokens - 1, CALL do
        local r <const> = tide.kernel "sgns_train" {
          input = t.input, output = t.output, tokens = tokens, first = first, count = math.min(CALL, #tokens - first),
          counts = w.data.counts, alpha = 0.05, subsample = 0, batch = 64,
          seed = (epoch * 100 + w.rank) * 10000 + first // CALL}
        loss, pairs_seen = loss + r.loss, pairs_seen + r.pairs
      end
      w:report {loss = loss, examples = pairs_seen}
    end
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for r in run:events "report" do print(("epoch %d  loss of a pair %.3f"):format(r.n, r.loss / r.examples)) end
  run:wait()
  if opt.data then return end
  local last <const>, topics, same = job.data.vocabulary - 1, 50, 0
  local function topic(key) return tonumber(job.data.words[key + 1]:match "%d+") % topics end
  for key = last - 99, last do -- the rarer words: of the generated text each has a topic
    local r <const> = tide.kernel "nearest_rows" {rows = run.tables.input, key = key, count = last + 1, limit = 1}
    if topic(key) == topic(math.tointeger(r.key1)) then same = same + 1 end
  end
  print(("nearest word of the same topic: %d %%"):format(same))
end)
