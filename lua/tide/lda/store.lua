-- LightLDA: n_kw in a table with clocks, each worker samples its documents slice by slice of the vocabulary (Yuan et
-- al., WWW 2015, section 5).
--
-- A slice is a run of words whose rows, alias tables and changes fit a third of the memory limit. For each slice a
-- worker pulls the rows, builds the tables, draws the topics of its tokens with these words, and adds what has
-- changed: single columns where few did. n_k is in a table of 64 rows, of which each worker adds to one. Workers run
-- ahead of each other by the bound of the table's consistency (essp:1): counts are stale by a pass, and the own
-- changes always seen.
local base = require "tide.lda.base"
local core = require "tide.core"

local kernel <const> = base.kernel
local TOTAL_ROWS <const> = 64

---@class tide.lda.store
local store = {}
store.__index = store

---Tables of a job that trains this way.
function store.tables(o, table_spec)
  local width <const> = (o.topics + 15) // 16 * 16
  local consistency <const> = o.consistency or "essp:1"
  return {
    nkw = table_spec.new {keys = table_spec.dense(o.corpus.vocabulary), width = width, update = {"add"},
                          consistency = consistency},
    nk = table_spec.new {keys = table_spec.dense(TOTAL_ROWS), width = width, update = {"add"},
                         consistency = consistency},
  }
end

local function keys_of(first, count)
  local keys <const> = core.tensor("u64", count, 1)
  keys:fill(first, 1)
  return keys
end

---Slices of words: {first, count}. A row takes its numbers twice, and its alias table.
local function slices_of(o, vocabulary, width)
  local rows <const> = o.memory_bytes and math.max(1, o.memory_bytes // 3 // (20 * width)) or vocabulary
  local list <const> = {}
  for first = 0, vocabulary - 1, rows do
    list[#list + 1] = {first = first, count = math.min(rows, vocabulary - first)}
  end
  return list
end

local function new(w, o)
  local b <const> = base.new(w, o)
  local self <const> = setmetatable({base = b, w = w, o = o, part = b:part(w.rank - 1, w.workers)}, store)
  self.slices = slices_of(o, b.corpus.vocabulary, b.width)
  b:begin(self.part)
  return self
end

---Adds to the row of totals that is this worker's.
function store:add_totals(changes)
  local row <const> = self.base:rows(1)
  for k = 1, self.base.topics do row[k] = changes[k] end
  self.w.tables.nk:push({(self.w.rank - 1) % TOTAL_ROWS}, row)
end

---n_k as this worker may see it.
function store:totals()
  local rows <const>, totals <const> = self.w.tables.nk:pull(keys_of(0, TOTAL_ROWS)), self.base:zeros()
  for i = 1, TOTAL_ROWS do
    for k = 1, self.base.topics do totals[k] = totals[k] + rows[(i - 1) * self.base.width + k] end
  end
  return totals
end

---What the tables of a resumed run have is of another moment than the topics: it goes, and all count again.
function store:empty_tables()
  local w <const>, b <const> = self.w, self.base
  w:barrier "counts are restored"
  if w.rank == 1 then
    for _, slice in ipairs(self.slices) do
      kernel.lda_push {rows = w.tables.nkw, first = slice.first, before = w.tables.nkw:pull(keys_of(slice.first,
        slice.count)), after = b:rows(slice.count)}
    end
    kernel.lda_push {rows = w.tables.nk, before = w.tables.nk:pull(keys_of(0, TOTAL_ROWS)), after = b:rows(TOTAL_ROWS)}
  end
  w:clock()
  w:barrier "counts are gone"
end

---The counts of the first topics go to the tables.
function store:begin()
  if self.w.state.pass then self:empty_tables() end
  local part <const>, b <const> = self.part, self.base
  local totals <const> = b:zeros()
  for i, slice in ipairs(self.slices) do
    local counts <const>, nothing <const> = b:rows(slice.count), b:rows(slice.count)
    kernel.lda_count {offsets = part.offsets, words = part.words, topics = part.z, topic_count = b.topics,
                      counts = counts, first = slice.first, totals = i == 1 and totals or nil}
    kernel.lda_push {rows = self.w.tables.nkw, first = slice.first, before = nothing, after = counts}
  end
  self:add_totals(totals)
  self.w:clock()
  self.w:barrier "all have counted"
end

function store:pass(pass)
  local part <const>, b <const> = self.part, self.base
  local totals <const>, moved, pushed = self:totals(), 0, 0
  for i, slice in ipairs(self.slices) do
    local fresh <const> = self.w.tables.nkw:pull(keys_of(slice.first, slice.count))
    local stale <const>, changes <const> = fresh:copy(), b:zeros()
    local done <const> = kernel.lda_light(b:arguments {
      offsets = part.offsets, words = part.words, topics = part.z, counts = fresh, stale = stale, totals = totals,
      changes = changes, first = slice.first, document = part.document, seed = self.w.seed, pass = pass, phase = i,
      steps = self.o.steps, doc_move = self.o.doc_move})
    moved = moved + done.moved
    pushed = pushed + kernel.lda_push {rows = self.w.tables.nkw, first = slice.first, before = stale,
                                       after = fresh}.bytes
    self:add_totals(changes)
    self.w:report {examples = done.tokens, wait = false}
  end
  self.w:clock()
  return moved, pushed
end

---Scores one consistent state: all have met, and nobody goes on before all have scored.
function store:evaluate()
  local b <const>, w <const> = self.base, self.w
  w:barrier "evaluation begins"
  local fields <const>, totals <const> = {ll = b:documents_score(self.part.offsets, self.part.z)}, self:totals()
  if w.rank == 1 then fields.ll = fields.ll + b:totals_score(totals) end
  for i, slice in ipairs(self.slices) do
    if i % w.workers == w.rank - 1 or #self.slices < w.workers then
      local first, count = slice.first, slice.count
      if #self.slices < w.workers then -- a share of each slice
        local from <const>, to <const> = count * (w.rank - 1) // w.workers, count * w.rank // w.workers
        first, count = first + from, to - from
      end
      if count > 0 then fields.ll = fields.ll + b:words_score(w.tables.nkw:pull(keys_of(first, count))) end
    end
  end
  if self.o.check then
    assert(totals:sum() == b.corpus.tokens and totals:min() >= 0, "topics lack tokens")
  end
  if b:can_test() then
    local known <const> = b:test_words()
    local keys <const> = core.tensor("u64", known.count, 1)
    for i = 1, known.count do keys[i] = known.words[i] end
    for key, value in pairs(b:test(w.tables.nkw:pull(keys), totals, w.rank, w.workers)) do fields[key] = value end
  end
  w:barrier "evaluation ends"
  return fields
end

---The worker function of a job.
function store.train(w, o)
  local self <const> = new(w, o)
  self:begin()
  local moved, pushed, examples = 0, 0, 0
  for pass = (w.state.pass or 0) + 1, o.passes do
    local m <const>, p <const> = self:pass(pass)
    moved, pushed, examples = moved + m, pushed + p, examples + self.part.tokens
    local evaluated <const>, kept <const> = self.base:is_evaluated(pass), self.base:is_kept(pass)
    if evaluated or kept then -- else workers run ahead of each other
      local fields <const> = evaluated and self:evaluate() or {}
      fields.examples, fields.moved, fields.pushed_bytes = examples, moved, pushed
      moved, pushed, examples = 0, 0, 0
      self.base:report(pass, fields, function() self.base:keep(self.part) end)
      if w:stopping() then break end
    end
  end
end

return store
