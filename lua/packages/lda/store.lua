-- LightLDA: n_kw in tables with clocks, each worker samples its documents slice by slice of the vocabulary (Yuan et
-- al., WWW 2015, section 5).
--
-- A frequent word has a row of n_kw in table `nkw`, in blocks of topics: a block that no token is in takes no memory.
-- A word with fewer tokens than a share of the topics has a list instead, in table `lists`: the topic of each of its
-- tokens, whichever worker samples that; a worker changes the numbers of its own tokens. So a row takes 4 bytes a
-- token, and what is drawn is the same.
--
-- A slice is a run of words whose counts, alias tables and changes fit a third of the memory limit. For each slice a
-- worker pulls the rows, builds the tables, draws the topics of its tokens with these words, and adds what has
-- changed: single columns where few did. n_k is in table `nk`, where each worker adds to a row of its own, of up to
-- 64. Workers run ahead of each other by the bound of the table's consistency (essp:1): counts are stale by a pass,
-- and the own changes always seen.
local base = require "tide.lda.base"
local kernels = require("tide.package").kernels
local tensor = require "tide.tensor"
local tide = require "tide"

local TOTAL_ROWS <const> = 64
local BLOCK <const> = 1024 -- topics of a block of a row
local LIST <const> = 256   -- tokens in a row of `lists`
local NONE <const> = 0xffffffff
local CHUNK <const> = 1 << 20 -- tokens that are looked at together
-- A word has a row where its tokens are more than a quarter of the topics: lists are drawn from more slowly.
local ROW_SHARE <const> = 4
-- In a slice: of a row its numbers twice and the alias table; of a token in a list its number twice, the places in
-- the hash table and the alias table.
local ROW_BYTES <const>, TOKEN_BYTES <const> = 20, 84

---@class tide.lda.store
local store = {}
store.__index = store

local function width_of(topics)
  local lanes <const> = topics > BLOCK and BLOCK or 16
  return (topics + lanes - 1) // lanes * lanes
end

local function has_row(count, width) return count * ROW_SHARE >= width end

---Tables of a job that trains this way.
function store.tables(o)
  local width <const>, consistency <const> = width_of(o.topics), o.consistency or "essp:1"
  local rows = 0
  for _, count in pairs(o.corpus.counts) do
    if has_row(count, width) then rows = rows + 1 end
  end
  local function made(keys, columns)
    return tide.table {keys = tide.dense(math.max(keys, 1)), width = columns, update = {"add"},
                       consistency = consistency}
  end
  local block <const> = math.min(width, BLOCK)
  return {
    nkw = made(rows * (width // block), block), nk = made(TOTAL_ROWS * (width // block), block),
    lists = made((o.corpus.tokens + LIST - 1) // LIST, LIST),
  }
end

local function keys_of(first, count)
  local keys <const> = tensor.zeros("u64", count)
  keys:fill(first, 1)
  return keys
end

---The words first .. first + count - 1: their rows in `nkw`, and where their lists lie.
function store:slice(first, count, row, rows)
  local from <const>, to <const> = self.starts[first + 1], self.starts[first + count + 1]
  local key <const> = from // LIST
  return {first = first, count = count, row = row, rows = rows, from = from, listed = to - from, key = key,
          keys = to > from and (to - 1) // LIST - key + 1 or 0}
end

---Cuts the vocabulary into runs of words that take so many bytes at most.
function store:slices_of(bytes_most)
  local list <const>, counts <const>, width <const> = {}, self.base.corpus.counts, self.base.width
  local first, bytes, row, rows = 0, 0, 0, 0
  local function cut(last)
    list[#list + 1] = self:slice(first, last - first, row, rows)
    first, bytes, row, rows = last, 0, row + rows, 0
  end
  for word = 0, #counts - 1 do
    local dense <const> = self.row_of[word + 1] ~= NONE
    local more <const> = dense and ROW_BYTES * width or TOKEN_BYTES * counts[word + 1]
    if bytes_most and word > first and bytes + more > bytes_most then cut(word) end
    bytes, rows = bytes + more, rows + (dense and 1 or 0)
  end
  cut(#counts)
  return list
end

---Where the own tokens of rare words lie in the lists, behind those of the documents before.
---@return table u32 tensor
function store:find_places()
  local train <const>, next_of <const> = self.base.corpus.train, self.starts:copy()
  local begin <const>, places <const> = train.offsets[self.part.document + 1], tensor.zeros("u32", self.part.tokens)
  local following <const> = next_of:slice(1, #self.row_of)
  for first = 1, begin, CHUNK do
    kernels.lda_places {words = train.words:slice(first, math.min(CHUNK, begin - first + 1)), row_of = self.row_of,
                       next = following}
  end
  kernels.lda_places {words = self.part.words, row_of = self.row_of, next = following, places = places}
  return places
end

local function new(w, o)
  local b <const> = base.new(w, o)
  b.width = width_of(o.topics)
  local self <const> = setmetatable({base = b, w = w, o = o, part = b:part(w.rank - 1, w.workers)}, store)
  local vocabulary <const>, rows, listed = b.corpus.vocabulary, 0, 0
  self.blocks = b.width // math.min(b.width, BLOCK)
  self.row_of, self.starts = tensor.zeros("u32", vocabulary), tensor.zeros("u32", vocabulary + 1)
  for word, count in pairs(b.corpus.counts) do
    local dense <const> = has_row(count, b.width)
    self.row_of[word], self.starts[word] = dense and rows or NONE, listed
    rows, listed = rows + (dense and 1 or 0), listed + (dense and 0 or b.corpus.train.counts[word])
  end
  self.starts[vocabulary + 1] = listed
  self.places = self:find_places()
  self.slices = self:slices_of(o.memory_bytes and o.memory_bytes // 3)
  b:begin(self.part)
  return self
end

---- tables ----------------------------------------------------------------------------------------------------------

function store:row_keys(slice) return keys_of(slice.row * self.blocks, slice.rows * self.blocks) end

---@return table f32 tensor rows of n_kw of the frequent words of a slice
function store:pull_rows(slice)
  if slice.rows == 0 then return self.base:rows(0) end
  return self.w.tables.nkw:pull(self:row_keys(slice)):view(1, slice.rows, self.base.width)
end

---The tokens of a slice alone, of rows that may begin and end with those of others.
local function tokens_of(slice, lists)
  return lists:view(1, slice.keys * LIST, 1):slice(slice.from - slice.key * LIST + 1, slice.listed)
end

---@return table f32 tensor: rows of `lists` in which the rare words of a slice are
function store:pull_lists(slice)
  if slice.keys == 0 then return tensor.zeros("f32", 0, LIST) end
  return self.w.tables.lists:pull(keys_of(slice.key, slice.keys))
end

---Adds what has changed in the rows and lists of a slice.
---@return integer bytes
function store:push(slice, before, after)
  local function cut(rows) return rows:view(1, slice.rows * self.blocks, self.base.width // self.blocks) end
  local bytes = 0
  if slice.rows > 0 then
    bytes = kernels.lda_push {rows = self.w.tables.nkw, first = slice.row * self.blocks, before = cut(before.rows),
                             after = cut(after.rows)}.bytes
  end
  if slice.keys > 0 then
    bytes = bytes + kernels.lda_push {rows = self.w.tables.lists, first = slice.key, before = before.lists,
                                     after = after.lists}.bytes
  end
  return bytes
end

function store:nothing(slice)
  return {rows = self.base:rows(slice.rows), lists = tensor.zeros("f32", slice.keys, LIST)}
end

---Keys of `nk` that are of one worker, or of all.
function store:total_keys(rank)
  return rank and keys_of((rank - 1) % TOTAL_ROWS * self.blocks, self.blocks) or
         keys_of(0, math.min(TOTAL_ROWS, self.w.workers) * self.blocks)
end

---Adds to the row of totals that is this worker's.
function store:add_totals(changes)
  local after <const> = changes:convert "f32":view(1, self.blocks, self.base.width // self.blocks)
  kernels.lda_push {rows = self.w.tables.nk, first = self:total_keys(self.w.rank)[1],
                   before = tensor.zeros("f32", after:rows(), after:columns()), after = after}
end

---n_k as this worker may see it.
function store:totals()
  local width <const>, totals <const> = self.base.width, self.base:zeros()
  local pulled <const> = self.w.tables.nk:pull(self:total_keys())
  local flat <const> = pulled:view(1, pulled:rows() * pulled:columns(), 1)
  for at = 0, #flat - 1, width do totals:add(flat:slice(at + 1, width):convert "f64") end
  return totals
end

---What the tables of a resumed run have is of another moment than the topics: it goes, and all count again.
function store:empty_tables()
  local w <const> = self.w
  w:barrier "counts are restored"
  if w.rank == 1 then
    for _, slice in ipairs(self.slices) do
      self:push(slice, {rows = self:pull_rows(slice), lists = self:pull_lists(slice)}, self:nothing(slice))
    end
    local totals <const> = w.tables.nk:pull(self:total_keys())
    kernels.lda_push {rows = w.tables.nk, before = totals, after = tensor.zeros("f32", totals:rows(), totals:columns())}
  end
  w:clock()
  w:barrier "counts are gone"
end

---The counts and lists of the first topics go to the tables.
function store:begin()
  if self.w.state.pass then self:empty_tables() end
  local part <const>, b <const> = self.part, self.base
  local totals <const> = b:zeros()
  for i, slice in ipairs(self.slices) do
    local own <const> = self:nothing(slice)
    kernels.lda_count {offsets = part.offsets, words = part.words, topics = part.z, topic_count = b.topics,
                      counts = own.rows, row_of = self.row_of:slice(slice.first + 1, slice.count), first = slice.first,
                      totals = i == 1 and totals or nil}
    kernels.lda_list {topics = part.z, places = self.places, listed = tokens_of(slice, own.lists), from = slice.from}
    self:push(slice, self:nothing(slice), own)
  end
  self:add_totals(totals)
  self.w:clock()
  self.w:barrier "all have counted"
end

---- passes ----------------------------------------------------------------------------------------------------------

function store:pass(pass)
  local part <const>, b <const> = self.part, self.base
  local totals <const>, changes <const>, moved, pushed = self:totals(), b:zeros(), 0, 0
  for i, slice in ipairs(self.slices) do
    local fresh <const> = {rows = self:pull_rows(slice), lists = self:pull_lists(slice)}
    local stale <const> = {rows = fresh.rows:copy(), lists = fresh.lists:copy()}
    local done <const> = kernels.lda_light(b:arguments {
      offsets = part.offsets, words = part.words, topics = part.z, counts = fresh.rows, stale = stale.rows,
      totals = totals, changes = changes, first = slice.first, document = part.document, seed = self.w.seed,
      pass = pass, phase = i, steps = self.o.steps, doc_move = self.o.doc_move, places = self.places,
      row_of = self.row_of:slice(slice.first + 1, slice.count),
      starts = self.starts:slice(slice.first + 1, slice.count + 1), listed = fresh.lists, from = slice.key * LIST})
    moved = moved + done.moved
    pushed = pushed + self:push(slice, stale, fresh)
    self.w:report {examples = done.tokens, wait = false}
  end
  self:add_totals(changes)
  self.w:clock()
  return moved, pushed
end

---The counts of a slice's words, in turn: scored, and those of test words to their rows.
---@param known? table words of the test documents
---@param rows? table n_kw of those
---@return number
function store:score(slice, known, rows)
  local b <const> = self.base
  local dense <const>, lists <const> = self:pull_rows(slice), self:pull_lists(slice)
  local score = slice.rows > 0 and b:words_score(dense) or 0
  local wanted
  if known then
    wanted = tensor.zeros("u32", slice.count)
    for i = 1, slice.count do
      local at <const>, row <const> = known.row[slice.first + i - 1] or NONE, self.row_of[slice.first + i]
      wanted[i] = at
      if at ~= NONE and row ~= NONE then rows:put(at + 1, dense:slice(row - slice.row + 1, 1)) end
    end
  end
  if slice.listed == 0 then return score end
  local z <const> = tensor.zeros(b.type, slice.listed)
  kernels.lda_keep {topics = z, back = true, topic_count = b.topics,
                   rows = tokens_of(slice, lists)}
  return score + kernels.lda_warp_word(b:arguments {
    topics = z, starts = self.starts:slice(slice.first + 1, slice.count + 1), bases = tensor.zeros("u64", 1),
    numbers = tensor.zeros("u32", slice.count), totals = b:zeros("f64", b.topics), next = b:zeros("f64", b.topics),
    seed = self.w.seed, pass = 0, score = true, counts = rows, rows = wanted}).score
end

---The i-th of n shares of a slice.
function store:share(slice, i, n)
  local first <const>, last <const> = slice.count * (i - 1) // n, slice.count * i // n
  local row, rows = slice.row, 0
  for word = 1, last do
    if self.row_of[slice.first + word] ~= NONE then
      if word <= first then row = row + 1 else rows = rows + 1 end
    end
  end
  return self:slice(slice.first + first, last - first, row, rows)
end

---Scores one consistent state: all have met, and none continues before all have scored.
function store:evaluate()
  local b <const>, w <const> = self.base, self.w
  w:barrier "evaluation begins"
  local fields <const>, totals <const> = {ll = b:documents_score(self.part.offsets, self.part.z)}, self:totals()
  if w.rank == 1 then fields.ll = fields.ll + b:totals_score(totals) end
  if self.o.check then
    assert(totals:sum() == b.corpus.tokens and totals:min() >= 0, "topics lack tokens")
  end
  local known <const> = b:can_test() and b:test_words() or nil
  local rows <const> = known and b:rows(known.count) or nil
  for _, slice in ipairs(self.slices) do
    local own <const> = self:share(slice, w.rank, w.workers)
    if own.count > 0 then fields.ll = fields.ll + self:score(own, known, rows) end
    for i = 1, known and w.workers or 0 do -- rows of all test words
      local other <const> = self:share(slice, i, w.workers)
      if i ~= w.rank and other.count > 0 then self:score(other, known, rows) end
    end
  end
  if known then
    for key, value in pairs(b:test(rows, totals, w.rank, w.workers)) do fields[key] = value end
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
