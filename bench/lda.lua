-- Figures of topic models, one at a time; bench/lda.py asks for them and adds what processes took.
--   tide run bench/lda.lua --sampler gibbs --data "generated A" --topics 100 --passes 16
--   tide sim bench/lda.lua --data "generated B" --nodes 8
local tide = require "tide"
local opt = tide.options {
  data = {"corpus", default = "generated A"}, sampler = {"how", default = "auto"}, mode = {"where", default = "auto"},
  topics = {"how many", default = 100}, passes = {"over the documents", default = 16},
  parts = {"of documents", type = "integer"}, memory = {"limit of a worker", type = "string"},
  doc_move = {"of light", default = "other"}, eval_every = {"passes", type = "integer"},
  test_last = {"documents for the perplexity", default = 0}, nodes = {"nodes", default = 1},
  workers = {"workers of each", default = 1}, seed = {"of all draws", default = 1},
}
local corpus = tide.data.bow(opt.data, {test_last = opt.test_last})
local job = tide.lda.job {
  name = "bench", corpus = corpus, topics = opt.topics, passes = opt.passes, sampler = opt.sampler, mode = opt.mode,
  parts = opt.parts, memory = opt.memory, doc_move = opt.doc_move, eval_every = opt.eval_every or opt.passes,
  keep = opt.passes, seed = opt.seed,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
  local run = cluster:start(job)
  local bytes, began, ended = 0, nil, 0
  for r in run:events "report" do
    bytes, ended = bytes + (r.peers_bytes or 0), r.elapsed_s
    began = began or r.elapsed_s
    if r.ll then
      print(tide.json.encode {pass = r.pass, ll = r.ll, perplexity = tide.lda.perplexity(r), s_error = r.s_error})
    end
  end
  run:wait()
  print(tide.json.encode {tokens = corpus.tokens, vocabulary = corpus.vocabulary, bytes = bytes,
                          seconds_a_pass = opt.passes > 1 and (ended - began) / (opt.passes - 1) or nil})
end)
