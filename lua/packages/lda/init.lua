-- tide.lda: topic models. A job draws topics for the tokens of a corpus (tide.data.bow); a model is what comes of it.
--
--   local job = tide.lda.job {name = "nips", corpus = tide.data.bow "docword.nips.txt.gz", topics = 100, passes = 100}
--   local run = cluster:start(job)
--   for r in run:events "report" do print(r.pass, r.ll, tide.lda.perplexity(r)) end
--   local model = tide.lda.model(run)
--   print(table.concat(model:top_words(7, 10), " "))
--
-- docs/guides/topics.md describes samplers and modes.
local package = require "tide.package"
local tide = require "tide"

local lda = {}

local KNOWN <const> = {
  name = "string", corpus = "table", topics = "number", passes = "number", alpha = {"number", "table"}, beta = "number",
  sampler = "string", mode = "string", parts = "number", steps = "number", doc_move = "string", eval_every = "number",
  keep = "number", memory = {"string", "number"}, spill = "string", seed = "number", consistency = "string",
  checkpoint = "table", optimize = "string", check = "boolean",
}
local MODES <const> = {gibbs = {"rotate"}, xy = {"rotate"}, light = {"store", "rotate"}, warp = {"exchange"}}
local GIBBS_TOPICS_MOST <const> = 512
local TOPICS_MOST <const> = 1 << 20
local ROTATE_TOPICS_MOST <const> = 1 << 16
local FITTED_TOPICS_MOST <const> = 50000
local PAUSE <const> = 110 -- of the workers' collector: dead tensors are a tenth of the living at most
local COUNT_MOST <const> = 1 << 24 -- whole numbers in f32

local fail <const> = package.fail

local function whole(o, key, least, most)
  local v <const> = o[key]
  if v ~= nil and not (math.tointeger(v) and v >= least and v <= most) then
    fail(("%s = %s of tide.lda.job is not a whole number from %d to %d"):format(key, v, least, most))
  end
end

local function above_zero(key, v)
  if not (v > 0 and v < 1e12) then fail(("%s = %s of tide.lda.job is not above 0"):format(key, v)) end
end

local function contains(list, value)
  for _, v in ipairs(list) do
    if v == value then return true end
  end
  return false
end

local function check_types(o)
  if type(o) ~= "table" then fail "tide.lda.job requires a table of options" end
  for key, value in pairs(o) do
    local want = KNOWN[key]
    if not want then
      fail(("tide.lda.job has no option `%s`"):format(tostring(key)),
           package.did_you_mean(tostring(key), KNOWN))
    end
    want = type(want) == "table" and want or {want}
    if not contains(want, type(value)) then
      fail(("option `%s` of tide.lda.job is a %s, not a %s"):format(key, type(value), table.concat(want, " or a ")))
    end
  end
  for _, key in ipairs {"name", "corpus", "topics", "passes"} do
    if o[key] == nil then fail(("tide.lda.job requires `%s`"):format(key)) end
  end
end

---@return table settings with defaults, checked
local function settings_of(given)
  check_types(given)
  local o <const> = {}
  for key, value in pairs(given) do o[key] = value end
  whole(o, "topics", 1, TOPICS_MOST)
  whole(o, "passes", 1, 1 << 30)
  whole(o, "parts", 1, 256)
  whole(o, "steps", 1, 64)
  whole(o, "eval_every", 1, 1 << 30)
  whole(o, "keep", 1, 1 << 30)
  o.alpha, o.beta, o.steps, o.doc_move = o.alpha or 0.1, o.beta or 0.01, o.steps or 2, o.doc_move or "other"
  o.eval_every, o.keep = o.eval_every or 10, o.keep or 10
  above_zero("beta", o.beta)
  if type(o.alpha) == "table" then
    if #o.alpha ~= o.topics then
      fail(("alpha of tide.lda.job has %d numbers for %d topics"):format(#o.alpha, o.topics))
    end
    for _, a in ipairs(o.alpha) do above_zero("alpha", a) end
  else
    above_zero("alpha", o.alpha)
  end
  o.sampler = (o.sampler or "auto") == "auto" and (o.topics <= GIBBS_TOPICS_MOST and "gibbs" or "warp") or o.sampler
  local modes <const> = MODES[o.sampler]
  if not modes then fail(("sampler `%s` is none of auto, gibbs, light, warp, xy"):format(o.sampler)) end
  o.mode = (o.mode or "auto") == "auto" and modes[1] or o.mode
  if not contains(modes, o.mode) then
    fail(("sampler `%s` runs in mode %s, not in `%s`"):format(o.sampler, table.concat(modes, " and "), o.mode))
  end
  if o.mode == "rotate" and o.topics > ROTATE_TOPICS_MOST then
    fail(("topics = %d in mode `rotate`: rows of words have at most %d"):format(o.topics, ROTATE_TOPICS_MOST),
         "sampler = \"warp\", and mode = \"store\" of sampler = \"light\", have no such rows")
  end
  if not contains({"other", "lightlda"}, o.doc_move) then
    fail(("doc_move `%s` is neither other nor lightlda"):format(o.doc_move))
  end
  if o.optimize and o.optimize ~= "alpha" then fail(("optimize = `%s`: only alpha is fitted"):format(o.optimize)) end
  if o.optimize and (o.mode == "store" or o.topics > FITTED_TOPICS_MOST) then
    fail(("optimize runs in modes rotate and exchange with up to %d topics"):format(FITTED_TOPICS_MOST))
  end
  if o.memory then
    local bytes <const>, why = tide.units.parse_size(o.memory)
    if not bytes then fail(why) end
    o.memory_bytes = bytes
  end
  o.survives = o.mode == "exchange"
  return o
end

---Checks what only the corpus shows; on the driver, before anything starts.
local function check_corpus(o)
  if o.mode ~= "exchange" and #o.corpus.counts > 0 and o.corpus.counts:max() >= COUNT_MOST then
    fail(("a word occurs %d times: mode `%s` counts to %d"):format(o.corpus.counts:max(), o.mode, COUNT_MOST),
         "sampler = \"warp\" has no such limit")
  end
end

---A job that draws topics.
---@param given {name: string, corpus: tide.data.bow_set, topics: integer, passes: integer, alpha?: number|number[],
---  beta?: number, sampler?: "auto"|"gibbs"|"warp"|"light"|"xy", mode?: "auto"|"rotate"|"exchange"|"store",
---  parts?: integer, steps?: integer, doc_move?: "other"|"lightlda", eval_every?: integer, keep?: integer,
---  memory?: string, spill?: string, seed?: integer, consistency?: string, checkpoint?: table, optimize?: "alpha",
---  check?: boolean}
---  alpha: of a document's topics, 0.1; beta: of a topic's words, 0.01; parts: of the documents, into which work is
---  cut; steps: cycles of `light`; eval_every: passes between log-likelihoods, 10; keep: passes between writes of the
---  topics to table `z`, 10; memory: limit of a worker; spill: directory for what is beyond it; optimize: the prior
---  of each topic is fitted every 20 passes from the 50th on; check: test aid, counts
---  are checked
---@return tide.job
function lda.job(given)
  local o <const> = settings_of(given)
  local base <const> = require "tide.lda.base"
  o.corpus = base.corpus_of(o)
  local train <const> = require("tide.lda." .. o.mode).train
  local job <const> = tide.job {
    name = o.name, seed = o.seed or 1, checkpoint = o.checkpoint,
    on_worker_loss = o.survives and "replay" or "stop",
    tables = function()
      check_corpus(o)
      local tables <const> = o.mode == "store" and require("tide.lda.store").tables(o) or {}
      local rows <const> = base.z_rows(o.corpus.tokens) + base.prior_rows(o)
      tables.z = tide.table {keys = tide.dense(rows), width = base.z_width(o.topics), slots = "range",
                             update = {"assign"}, replicas = package.copies()}
      return tables
    end,
    worker = function(w)
      collectgarbage("setpause", PAUSE)
      train(w, o)
    end,
  }
  job.lda = o
  return job
end

---Perplexity of the test documents of a report: nil if it has none.
---@param report table
function lda.perplexity(report)
  return report.test_tokens and report.test_tokens > 0 and math.exp(-report.test_log / report.test_tokens) or nil
end

---The topics that a run has learnt.
---@param run table of a job of tide.lda
---@return tide.lda.model
function lda.model(run) return require("tide.lda.model").of_run(run) end

---A model that model:save has written.
---@param path string file
---@return tide.lda.model
function lda.load(path) return require("tide.lda.model").load(path) end

return lda
