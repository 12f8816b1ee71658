-- Topics of documents by latent Dirichlet allocation, on WordNet's glosses or a corpus of your own.
--   tide run examples/lda.lua                                        a document a synset, 100 topics, two workers
--   tide run examples/lda.lua --data docword.nips.txt.gz --vocabulary vocab.nips.txt --topics 200
--   tide run examples/lda.lua --data text.txt --min-count 5 --stop english    a document a line
--   tide run examples/lda.lua --data "generated B" --topics 20 --test-last 1000
--   tide run examples/lda.lua --sampler warp --topics 2000 --memory 64MiB     out of memory, in files
local tide = require "tide"

local opt = tide.options {
  data       = {"a file (UCI, LDA-C, LibSVM, text; gzip or not), \"glosses\", \"generated A\", \"generated B\"",
                default = "glosses"},
  vocabulary = {"a file with a word a line, for data of numbers", type = "string"},
  stop       = {"a file of words that are left out, or \"english\"; with --data glosses \"english\"", type = "string"},
  min_count  = {"of text: rarer words are left out; without it 5", type = "integer"},
  max_share  = {"of text: words of a larger share of the documents are left out", default = 0.1},
  test       = {"share of the documents whose words are predicted", default = 0.05},
  test_last  = {"as many of the last documents instead", default = 0},
  topics     = {"how many", default = 100, min = 1},
  passes     = {"over the documents", default = 50, min = 1},
  alpha      = {"prior of a document's topics", default = 0.1},
  beta       = {"prior of a topic's words", default = 0.01},
  sampler    = {"how topics are drawn", default = "auto", choices = {"auto", "gibbs", "warp", "light", "xy"}},
  mode       = {"how workers share the work", default = "auto", choices = {"auto", "rotate", "exchange", "store"}},
  parts      = {"of the documents; without it one a worker (rotate) or 16 (exchange)", type = "integer"},
  memory     = {"limit of a worker for topics of tokens, or for rows of words", type = "string"},
  eval_every = {"passes from one evaluation to the next", default = 10},
  words      = {"of a topic that are printed", default = 10},
  show       = {"topics that are printed, the largest first", default = 12},
  text       = {"topics of this text at the end", default = "a musician who plays the violin in an orchestra"},
  save       = {"directory for the model", type = "string"},
  nodes      = {"node processes on this machine", default = 2, min = 1},
  workers    = {"workers of each node", default = 1, min = 1},
  seed       = {"of all draws", default = 1},
}

local glosses <const> = opt.data == "glosses"
local corpus = tide.data.bow(opt.data, {
  vocabulary = opt.vocabulary, stop = opt.stop or (glosses and "english" or nil), min_count = opt.min_count or 5,
  max_share = opt.max_share, test = opt.test, test_last = opt.test_last, seed = opt.seed,
})

local job = tide.lda.job {
  name = "lda", corpus = corpus, topics = opt.topics, passes = opt.passes, alpha = opt.alpha, beta = opt.beta,
  sampler = opt.sampler, mode = opt.mode, parts = opt.parts, memory = opt.memory, eval_every = opt.eval_every,
  keep = opt.passes, seed = opt.seed,
}

tide.main(function()
  print(corpus.note)
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
  local unigram <const> = corpus:unigram(opt.beta)
  local run = cluster:start(job)
  print "pass   log-likelihood   a token  perplexity  M tokens/s"
  local tokens, began = 0, nil
  for r in run:events "report" do
    tokens = began and tokens + r.examples or 0
    began = began or r.elapsed_s
    if r.ll then
      local perplexity <const> = tide.lda.perplexity(r)
      print(("%4d  %15.6e  %8.4f  %10s  %10s"):format(r.pass, r.ll, r.ll / corpus.tokens,
        perplexity and ("%.1f"):format(perplexity) or "-",
        tokens > 0 and ("%.2f"):format(tokens / (r.elapsed_s - began) / 1e6) or "-"))
    end
  end
  run:wait()
  local model = tide.lda.model(run)
  local coherence <const> = model:coherence()
  print(("coherence of the %d best words: UMass %.3f, NPMI %.3f%s"):format(10, coherence.umass_mean,
    coherence.npmi_mean, unigram and ("; perplexity without topics %.1f"):format(unigram) or ""))
  for i, k in ipairs(model:by_size()) do
    if i > opt.show then break end
    print(("%5d %7d  %s"):format(k, model.totals[k] // 1, table.concat(model:top_words(k, opt.words), " ")))
  end
  if corpus.names and opt.text ~= "" then
    local theta <const>, unknown = model:theta(opt.text)
    local best = {}
    for k = 1, opt.topics do best[k] = k end
    table.sort(best, function(a, b) return theta[a] > theta[b] end)
    print(("\"%s\" (%d words unknown):"):format(opt.text, unknown))
    for i = 1, math.min(3, opt.topics) do
      print(("  %3.0f%%  topic %d: %s"):format(100 * theta[best[i]], best[i],
        table.concat(model:top_words(best[i], 6), " ")))
    end
  end
  if opt.save then
    model:save(opt.save)
    print("saved", opt.save)
  end
end)
