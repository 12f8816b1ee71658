-- What the ways to train topics share: a worker's documents, priors, topics of tokens in the table `z`, evaluation.
--
-- Documents lie on *shelves*: at most 256 runs of about as many tokens, the same for a corpus whatever the number of
-- workers and parts. A part is a run of shelves. In table `z` a shelf begins a row of its own, so that what one set
-- of workers has kept another one finds. A number of `z` has two topics where K admits it.
local kernels = require("tide.package").kernels
local package = require "tide.package"
local tensor = require "tide.tensor"

local SHELVES_MOST <const> = 256
local ROW <const> = 1024 -- tokens
local PAIRED_TOPICS_MOST <const> = 0x7f80
local FIT_FROM <const>, FIT_EVERY <const>, FIT_STEPS <const>, ALPHA_LEAST <const> = 50, 20, 5, 1e-4
local TEST_CELLS_MOST <const> = 1 << 28

---@class tide.lda.base
---@field w tide.worker
---@field o table settings of the job, whole
---@field corpus tide.data.bow_set
---@field topics integer K
---@field width integer K padded to 16
local base = {}
base.__index = base

---@param offsets table u64 tensor
---@return integer[] first document of each shelf, from 0, and the number of documents
function base.shelves(offsets)
  local documents <const> = #offsets - 1
  local count <const> = math.max(1, math.min(SHELVES_MOST, documents))
  local tokens <const>, bounds = offsets[documents + 1], {0}
  local d = 0
  for s = 1, count - 1 do
    while d < documents - (count - s) and offsets[d + 1] < tokens * s // count do d = d + 1 end
    d = math.max(d, bounds[s] + 1)
    bounds[s + 1] = d
  end
  bounds[count + 1] = documents
  return bounds
end

local function is_paired(topics) return topics <= PAIRED_TOPICS_MOST end

---@return integer numbers of a row of table `z`
function base.z_width(topics) return is_paired(topics) and ROW // 2 or ROW end

---@return integer rows of table `z` for a corpus of so many tokens, at most: then come those of the prior, if it is
---fitted
function base.z_rows(tokens) return tokens // ROW + SHELVES_MOST + 1 end

---@return integer rows of the prior behind them
function base.prior_rows(o)
  local width <const> = base.z_width(o.topics)
  return o.optimize and (o.topics + width - 1) // width or 0
end

---Where an actor of a job keeps what is beyond its memory.
function base.directory(o)
  local path <const> = o.spill or ("/tmp/tide-%s-%s"):format(o.name, package.node())
  package.make_directory(path)
  return path
end

---Under a limit of memory: the corpus with its words on the disk.
function base.corpus_of(o)
  if not o.memory_bytes then return o.corpus end
  return o.corpus:spooled(function()
    return ("%s/%s-%s"):format(base.directory(o), o.name, package.own_name())
  end)
end

---@param w tide.worker
---@param o table
---@return tide.lda.base
function base.new(w, o)
  local corpus <const> = o.corpus
  local self = setmetatable({w = w, o = o, corpus = corpus, topics = o.topics, width = (o.topics + 15) // 16 * 16,
                             type = o.topics <= 65536 and "u16" or "u32"}, base)
  self.alpha = tensor.zeros("f32", o.topics)
  if type(o.alpha) == "table" then
    for k, a in ipairs(o.alpha) do self.alpha[k] = a end
  else
    self.alpha:fill(o.alpha)
  end
  for k, a in ipairs(w.state.alpha or {}) do self.alpha[k] = a end
  self.bounds = base.shelves(corpus.train.offsets)
  return self
end

---Arguments that most kernels have.
---@param more table
function base:arguments(more)
  more.alpha, more.beta, more.vocabulary = self.alpha, self.o.beta, self.corpus.vocabulary
  return more
end

function base:zeros(type, rows) return tensor.zeros(type or "f64", rows or self.width) end

---@return table f32 tensor: rows of n_kw
function base:rows(count) return tensor.zeros("f32", count, self.width) end

---Part `p` (from 0) of `parts`: its documents, without topics.
---@return {number: integer, document: integer, documents: integer, offsets: table, words: table, tokens: integer,
---  shelf: integer, shelves: integer}
function base:part(p, parts)
  local count <const> = #self.bounds - 1
  local shelf <const>, stop <const> = count * p // parts, count * (p + 1) // parts
  local first <const>, last <const> = self.bounds[shelf + 1], self.bounds[stop + 1]
  local all <const> = self.corpus.train
  local begin <const>, finish <const> = all.offsets[first + 1], all.offsets[last + 1]
  local offsets <const> = tensor.zeros("u64", last - first + 1)
  for i = 0, last - first do offsets[i + 1] = all.offsets[first + i + 1] - begin end
  return {number = p, document = first, documents = last - first, offsets = offsets,
          words = all.words:slice(begin + 1, finish - begin), tokens = finish - begin, shelf = shelf,
          shelves = stop - shelf}
end

---- topics of tokens ----------------------------------------------------------------------------------------------

---First topics of a part, in the order of documents: drawn, or what the table has of a run that is resumed.
function base:begin(part)
  part.z = tensor.zeros(self.type, part.tokens)
  if self.w.state.pass then return self:fetch(part) end
  kernels.lda_begin {offsets = part.offsets, topics = part.z, topic_count = self.topics, document = part.document,
                    seed = self.w.seed}
end

---The shelves of a part: rows of table `z`, and tokens of the part.
local function shelves_of(self, part)
  local offsets <const>, own = self.corpus.train.offsets, part.shelf
  if not self.first_row then
    self.first_row = {0}
    for s = 1, #self.bounds - 1 do
      local tokens <const> = offsets[self.bounds[s + 1] + 1] - offsets[self.bounds[s] + 1]
      self.first_row[s + 1] = self.first_row[s] + (tokens + ROW - 1) // ROW
    end
  end
  local at = 0
  return function()
    if own == part.shelf + part.shelves then return nil end
    own = own + 1
    local tokens <const> = offsets[self.bounds[own + 1] + 1] - offsets[self.bounds[own] + 1]
    local first <const> = at
    at = at + tokens
    return first, tokens, self.first_row[own], self.first_row[own + 1] - self.first_row[own]
  end
end

local function keys_of(first, count)
  local keys <const> = tensor.zeros("u64", count)
  keys:fill(first, 1)
  return keys
end

local function kept(self, part, places, first, tokens, numbers, back)
  kernels.lda_keep {topics = places and part.z or part.z:slice(first + 1, tokens), rows = numbers,
                   places = places and places:slice(first + 1, tokens), back = back, paired = is_paired(self.topics),
                   topic_count = self.topics}
end

---Writes the topics of a part to table `z`, a shelf after the other.
---@param places? table u32 tensor: where the tokens of the documents lie in part.z
function base:keep(part, places)
  for first, tokens, row, rows in shelves_of(self, part) do
    if tokens > 0 then
      local shelf <const> = tensor.zeros("f32", rows, base.z_width(self.topics))
      kept(self, part, places, first, tokens, shelf, false)
      self.w.tables.z:push(keys_of(row, rows), shelf)
    end
  end
end

---Reads the topics of a part from table `z`.
function base:fetch(part, places)
  for first, tokens, row, rows in shelves_of(self, part) do
    if tokens > 0 then kept(self, part, places, first, tokens, self.w.tables.z:pull(keys_of(row, rows)), true) end
  end
end

---- the documents' prior -----------------------------------------------------------------------------------------

---Whether the prior is fitted after this pass.
function base:is_fitted(pass) return self.o.optimize ~= nil and pass >= FIT_FROM and pass % FIT_EVERY == 0 end

---Fits the prior to the topics that there are: the same on all workers, whatever their number.
---@param each fun(f: fun(offsets: table, z: table)) calls f with the own documents
---@param sum fun(t: table): table of all workers
function base:fit(each, sum)
  for _ = 1, FIT_STEPS do
    local own <const> = tensor.zeros("i64", self.topics + 1)
    each(function(offsets, z)
      kernels.lda_alpha {offsets = offsets, topics = z, alpha = self.alpha, sums = own}
    end)
    local all <const> = sum(own)
    local fitted <const> = {}
    for k = 1, self.topics do
      fitted[k] = math.max(self.alpha[k] * all[k] / all[self.topics + 1], ALPHA_LEAST)
    end
    self:set_alpha(fitted)
  end
end

---@param list number[]
function base:set_alpha(list)
  for k, a in ipairs(list) do self.alpha[k] = a end
  local exact <const> = {}
  for k = 1, self.topics do exact[k] = self.alpha[k] end -- as f32 has them
  self.w.state.alpha = exact
end

function base:keep_alpha()
  local rows <const> = base.prior_rows(self.o)
  if rows == 0 then return end
  local values <const> = tensor.zeros("f32", rows, base.z_width(self.topics))
  values:view(1, self.topics, 1):put(1, self.alpha)
  self.w.tables.z:push(keys_of(base.z_rows(self.corpus.tokens), rows), values)
end

---What table `z` has of it.
function base:fetch_alpha()
  local rows <const> = base.prior_rows(self.o)
  if rows == 0 then return end
  local values <const> = self.w.tables.z:pull(keys_of(base.z_rows(self.corpus.tokens), rows))
  self.alpha:put(1, values:view(1, self.topics, 1))
end

---- how good they are -----------------------------------------------------------------------------------------------

---The documents' part of the log-likelihood.
function base:documents_score(offsets, z)
  return kernels.lda_likelihood(self:arguments {offsets = offsets, topics = z}).sum
end

function base:words_score(counts) return kernels.lda_likelihood(self:arguments {counts = counts}).sum end

function base:totals_score(totals) return kernels.lda_likelihood(self:arguments {totals = totals}).sum end

---Words of the test documents, rising, as a u32 tensor; and which row each word of the dictionary has among them.
function base:test_words()
  if not self.tested then
    local test <const> = self.corpus.test
    local row, list = {}, {}
    for _, w in pairs(test.words) do
      if not row[w] then row[w], list[#list + 1] = true, w end
    end
    table.sort(list)
    for i, w in ipairs(list) do row[w] = i - 1 end
    self.tested = {words = tensor.from("u32", list), row = row, count = #list}
  end
  return self.tested
end

---Whether topics of test documents are worth their memory here: rows of all their words are on all workers.
function base:can_test()
  return #self.corpus.test.words > 0 and self:test_words().count * self.width <= TEST_CELLS_MOST
end

---What the test documents of this worker (the i-th of n) say of topics.
---@param counts table rows of n_kw of the test words, whole: becomes phi
---@return table {test_log=, test_tokens=}
function base:test(counts, totals, i, n)
  local test <const>, known <const> = self.corpus.test, self:test_words()
  local documents <const> = #test.offsets - 1
  kernels.lda_phi {counts = counts, totals = totals, topic_count = self.topics, beta = self.o.beta,
                  vocabulary = self.corpus.vocabulary}
  local first <const>, last <const> = documents * (i - 1) // n, documents * i // n
  local begin <const>, finish <const> = test.offsets[first + 1], test.offsets[last + 1]
  if not self.test_rows then
    local rows <const> = tensor.zeros("u32", finish - begin)
    for j = 1, finish - begin do rows[j] = known.row[test.words[begin + j]] end
    local offsets <const> = tensor.zeros("u64", last - first + 1)
    for j = 0, last - first do offsets[j + 1] = test.offsets[first + j + 1] - begin end
    self.test_rows = {words = rows, offsets = offsets, range = first .. " " .. last}
  end
  local said <const> = kernels.lda_infer {offsets = self.test_rows.offsets, words = self.test_rows.words, phi = counts,
                                         alpha = self.alpha, score = true, document = first, seed = self.w.seed}
  return {test_log = said.log, test_tokens = said.scored}
end

---Whether this pass is evaluated, and whether topics go to table `z` after it.
function base:is_evaluated(pass) return pass % self.o.eval_every == 0 or pass == self.o.passes end
function base:is_kept(pass) return pass == 1 or pass % self.o.keep == 0 or pass == self.o.passes end

---All workers report a pass. Topics are in table `z` first, if it is their turn.
function base:report(pass, fields, store)
  local w <const> = self.w
  if self:is_kept(pass) then
    store()
    if self.leads then self:keep_alpha() end
    w:barrier "topics are kept"
    w.state.pass = pass
  end
  fields.loss = fields.ll and -fields.ll or nil
  fields.alike = {pass = pass}
  w:report(fields)
end

return base
