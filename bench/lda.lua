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
  tables = {"tell what the counts take", default = false},
}
local corpus = tide.data.bow(opt.data, {test_last = opt.test_last})
local job = tide.lda.job {
  name = "bench", corpus = corpus, topics = opt.topics, passes = opt.passes, sampler = opt.sampler, mode = opt.mode,
  parts = opt.parts, memory = opt.memory, doc_move = opt.doc_move, eval_every = opt.eval_every or opt.passes,
  keep = opt.passes, seed = opt.seed,
}
-- MiB of the counts that a run ends with: as rows, as blocks of 16 topics in a hash table (72 bytes each), and what the
-- run's own tables take on all nodes (rows of frequent words, lists of rare ones, n_k).
local function sizes(cluster, run)
  local base <const>, blocks, tables, seen = require "tide.lda.base", 0, 0, {}
  local b <const> = base.new({tables = run.tables, state = {pass = 1}, seed = 1}, job.lda)
  local part <const> = b:part(0, 1)
  b:begin(part)
  for i = 1, part.tokens do
    local block <const> = part.words[i] << 20 | part.z[i] >> 4
    if not seen[block] then seen[block], blocks = true, blocks + 1 end
  end
  for _, node in ipairs(cluster:snapshot().nodes) do
    for _, t in ipairs(node.tables or {}) do
      if not t.name:find "%.z$" then tables = tables + t.memory_bytes end
    end
  end
  return {rows_MiB = corpus.vocabulary * 4 * opt.topics / 2 ^ 20, blocks_MiB = blocks * 72 / 2 ^ 20,
          tables_MiB = tables / 2 ^ 20}
end

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
  if opt.tables then print(tide.json.encode(sizes(cluster, run))) end
  print(tide.json.encode {tokens = corpus.tokens, vocabulary = corpus.vocabulary, bytes = bytes,
                          seconds_a_pass = opt.passes > 1 and (ended - began) / (opt.passes - 1) or nil})
end)
