-- Model-parallel LDA: documents stay, blocks of the vocabulary go round (Zheng, Kim, Ho, Xing, arXiv 1411.2305;
-- STRADS).
--
-- Documents lie in P parts, words in 3 P blocks of about as many tokens, on a ring (tide.data.ring). In round r part
-- p works on one block, which then moves to part p - 1 for round r + 3: it travels while two others are worked on.
-- A block is n_kw of its words, whole and exact; no other worker has it meanwhile. n_k is sent with each round and used
-- three rounds later: a part sees the changes of all parts up to round r - 3, and its own. So what is drawn depends
-- on P and the seed, not on workers, nodes or time.
local base = require "tide.lda.base"
local kernels = require("tide.package").kernels
local package = require "tide.package"
local ring = require "tide.data.ring"
local tide = require "tide"

---@class tide.lda.rotate
---@field parts table<integer, table> own ones, by number from 0
---@field held table<integer, table> blocks that are here
local rotate = {}
rotate.__index = rotate

local function lost()
  error(package.error("T0509", "a worker is lost, and blocks of words with it",
    {help = "run again: topics are read from the newest checkpoint, if the job has one"}), 0)
end

---First words of blocks of about as many tokens.
---@return integer[] and the size of the vocabulary
local function block_bounds(counts, blocks)
  local all = 0
  for _, n in pairs(counts) do all = all + n end
  local bounds, sum, word = {0}, 0, 0
  for b = 1, blocks - 1 do
    while word < #counts and sum + counts[word + 1] / 2 < all * b / blocks do
      word = word + 1
      sum = sum + counts[word]
    end
    bounds[b + 1] = word
  end
  bounds[blocks + 1] = #counts
  return bounds
end

local function new(w, o)
  local self <const> = setmetatable({base = base.new(w, o), w = w, o = o, parts = {}, held = {}}, rotate)
  self.peers = w:peers()
  local workers <const> = #self.peers.ranks
  self.base.leads = self.peers.index == 1
  self.count = o.parts or workers
  if self.count % workers ~= 0 then
    error(package.error("T0113", ("parts = %d of job `%s` is no multiple of the %d workers"):format(self.count, o.name,
      workers)), 0)
  end
  self.ring = ring.new(self.count)
  self.bounds = block_bounds(self.base.corpus.counts, self.ring.blocks)
  self.owner = {}
  for p = 0, self.count - 1 do self.owner[p] = self.peers.ranks[p * workers // self.count + 1] end
  for p = 0, self.count - 1 do
    if self.owner[p] == w.rank then
      local part <const> = self.base:part(p, self.count)
      self.base:begin(part)
      part.changes = {}
      self.parts[#self.parts + 1] = part
      for _, b in ipairs(self.ring:home(p)) do
        self.held[b] = self.base:rows(self.bounds[b + 2] - self.bounds[b + 1])
      end
    end
  end
  self.totals = self.base:zeros()
  return self
end

---The rows of a block that is here, or comes next.
function rotate:block(b)
  local counts = self.held[b]
  if not counts then
    counts = self.peers:receive(self.from[b], "block " .. b)
    if not counts then lost() end
    self.held[b] = counts
  end
  return counts
end

---Goes once round the ring.
---@param work fun(part: table, block: integer, counts: table, round: integer)
---@param before? fun(round: integer)
---@param after? fun(round: integer)
function rotate:around(work, before, after)
  self.from = self.from or {}
  for round = 0, self.ring.blocks - 1 do
    if before then before(round) end
    for _, part in ipairs(self.parts) do
      local b <const> = self.ring:block(part.number, round)
      work(part, b, self:block(b), round)
      local to <const> = self.owner[self.ring:next(part.number)]
      if to ~= self.w.rank then
        if not self.peers:send(to, "block " .. b, self.held[b], {give = true}) then lost() end
        self.held[b] = nil
      end
    end
    for p = 0, self.count - 1 do -- where blocks of this round are from, for their next owners
      self.from[self.ring:block(p, round)] = self.owner[p]
    end
    if after then after(round) end
  end
end

---Counts the topics that there are: n_kw by a turn of the ring, n_k by a sum.
function rotate:count_all()
  local own <const> = self.base:zeros()
  self:around(function(part, b, counts, round)
    kernels.lda_count {offsets = part.offsets, words = part.words, topics = part.z, topic_count = self.base.topics,
                      counts = counts, first = self.bounds[b + 1], totals = round == 0 and own or nil}
  end)
  self.totals = self.peers:sum("n_k", own) or lost()
end

---Takes the changes of a round into the totals that all see.
function rotate:hear(round)
  local ticket <const> = self.tickets[round]
  if not ticket then return end
  self.tickets[round] = nil
  local values <const> = ticket:wait() or lost()
  for _, rank in ipairs(self.peers.ranks) do self.totals:add(values[rank]) end
  for _, part in ipairs(self.parts) do part.changes[round] = nil end
end

---n_k as a part sees it: what all know, and its own changes since.
function rotate:view(part)
  local totals <const> = self.totals:copy()
  for round = 0, self.ring.blocks - 1 do
    if part.changes[round] then totals:add(part.changes[round]) end
  end
  return totals
end

---@return table figures of the pass
function rotate:pass(pass)
  local moved, changed, views = 0, nil, {}
  self.tickets = {}
  self:around(function(part, b, counts, round)
    local totals <const>, changes <const> = self:view(part), self.base:zeros()
    local arguments <const> = self.base:arguments {
      offsets = part.offsets, words = part.words, topics = part.z, counts = counts, totals = totals,
      changes = changes, first = self.bounds[b + 1], document = part.document, seed = self.w.seed, pass = pass,
      phase = b}
    if self.o.sampler == "light" then
      arguments.stale, arguments.steps, arguments.doc_move = counts:copy(), self.o.steps, self.o.doc_move
    end
    local done <const> = kernels["lda_" .. self.o.sampler](arguments)
    moved = moved + done.moved
    part.changes[round] = changes
    changed:add(changes)
    views[part.number] = totals
    self.w:report {examples = done.tokens, wait = false}
  end, function(round)
    self:hear(round - ring.LAG)
    changed = self.base:zeros()
  end, function(round)
    self.tickets[round] = self.peers:gather("changes", changed, {async = true})
  end)
  for round = math.max(0, self.ring.blocks - ring.LAG), self.ring.blocks - 1 do self:hear(round) end
  return moved, self:error_of(views)
end

---How far the totals that parts saw at the end are from the true ones: sum over own parts and topics.
function rotate:error_of(views)
  local sum = 0
  for _, part in ipairs(self.parts) do
    local view <const> = views[part.number]
    for k = 1, self.base.topics do sum = sum + math.abs(view[k] - self.totals[k]) end
  end
  return sum / (self.count * self.base.corpus.tokens)
end

---Calls f for the blocks that are at home, after a pass.
function rotate:at_home(f)
  for _, part in ipairs(self.parts) do
    for _, b in ipairs(self.ring:home(part.number)) do f(b, self:block(b)) end
  end
end

---@return table fields of the report
function rotate:evaluate()
  local b <const>, fields = self.base, {ll = 0}
  for _, part in ipairs(self.parts) do fields.ll = fields.ll + b:documents_score(part.offsets, part.z) end
  self:at_home(function(_, counts) fields.ll = fields.ll + b:words_score(counts) end)
  if self.peers.index == 1 then fields.ll = fields.ll + b:totals_score(self.totals) end
  if not b:can_test() then return fields end
  local known <const> = b:test_words()
  local rows <const> = b:rows(known.count)
  self:at_home(function(block, counts)
    local first <const>, stop <const> = self.bounds[block + 1], self.bounds[block + 2]
    for i = 1, known.count do
      local w <const> = known.words[i]
      if w >= first and w < stop then rows:put(i, counts:slice(w - first + 1, 1)) end
    end
  end)
  local all <const> = self.peers:sum("test words", rows) or lost()
  for key, value in pairs(b:test(all, self.totals, self.peers.index, #self.peers.ranks)) do fields[key] = value end
  return fields
end

---What must hold after each pass: every count is there, in every place.
function rotate:check()
  local all = 0
  for k = 1, self.base.topics do
    if self.totals[k] < 0 then error(("topic %d has %g tokens"):format(k, self.totals[k]), 0) end
    all = all + self.totals[k]
  end
  assert(all == self.base.corpus.tokens, "topics lack tokens")
  self:at_home(function(b, counts)
    if counts:rows() > 0 and counts:min() < 0 then error(("block %d has a negative count"):format(b), 0) end
    for i = 0, counts:rows() - 1 do
      local row <const> = counts:slice(i + 1, 1)
      local word <const> = self.bounds[b + 1] + i
      assert(row:sum() == self.base.corpus.train.counts[word + 1], "a word lacks tokens")
    end
  end)
end

function rotate:keep()
  for _, part in ipairs(self.parts) do self.base:keep(part) end
end

---Whether the run is asked to stop: all learn it at the same pass, for none can continue without the others.
function rotate:all_stop()
  local stop = false
  for _, asked in pairs(self.peers:gather("stop", self.w:stopping()) or lost()) do stop = stop or asked end
  return stop
end

---The worker function of a job.
function rotate.train(w, o)
  local self <const> = new(w, o)
  self:count_all()
  local from <const> = (w.state.pass or 0) + 1
  for pass = from, o.passes do
    local began <const> = tide.now()
    local moved <const>, s_error <const> = self:pass(pass)
    local fields = {}
    if self.base:is_fitted(pass) then
      self.base:fit(function(f)
        for _, part in ipairs(self.parts) do f(part.offsets, part.z) end
      end, function(sums) return self.peers:sum("prior", sums) or lost() end)
    end
    fields.seconds = tide.now() - began
    if o.check then self:check() end
    if self.base:is_evaluated(pass) then fields = self:evaluate() end
    local tokens = 0
    for _, part in ipairs(self.parts) do tokens = tokens + part.tokens end
    fields.examples, fields.moved, fields.s_error = tokens, moved, s_error
    self.base:report(pass, fields, function() self:keep() end)
    if self:all_stop() then
      self:keep()
      w.state.pass = pass
      break
    end
  end
end

return rotate
