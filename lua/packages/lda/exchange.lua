-- Topics by delayed counts in two phases a pass (WarpLDA), over any number of workers, in memory or out of it.
--
-- Documents lie in R parts, which are runs, words in R parts of about as many tokens. Block (p, q) has the tokens of
-- part p of the documents in part q of the words. A word phase goes through the parts of words, each of which needs
-- its blocks of all parts of the documents; a document phase through the parts of the documents. A block whose next
-- user is another worker travels, with its topics and proposals; else it stays, in memory or in a file
-- (tide.lda.blocks). n_k is a sum over all workers behind each phase. What is drawn depends on the seed alone: not on
-- R, workers or files.
--
-- Before a pass all meet (tide.run.peers). Joiners get parts, and parts of the dead go to others, with the
-- topics that table `z` has. A pass in which one died is repeated by the others, from its start.
local base = require "tide.lda.base"
local blocks = require "tide.lda.blocks"
local kernels = require("tide.package").kernels
local package = require "tide.package"
local tensor = require "tide.tensor"

---@class tide.lda.exchange
local exchange = {}
exchange.__index = exchange

-- A call of peers gave "lost": the pass is done again.
local LOST <const> = setmetatable({}, {__tostring = function() return "a worker is lost" end})

local function here(value)
  if not value then error(LOST, 0) end
  return value
end

---Parts of the words by greedy bisection: the heaviest word first, to the lightest part.
---@return table u32 tensor part of each word
local function word_parts(counts, parts)
  local part, order = tensor.zeros("u32", #counts), {}
  for w = 1, #counts do order[w] = w end
  table.sort(order, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return a < b
  end)
  local load, heap = {}, {} -- a heap of parts by load, then number
  for q = 1, parts do load[q], heap[q] = 0, q end
  local function lighter(a, b) return load[a] < load[b] or load[a] == load[b] and a < b end
  for _, w in ipairs(order) do
    local q <const> = heap[1]
    part[w] = q - 1
    load[q] = load[q] + math.max(counts[w], 1)
    local at = 1
    while true do
      local least = at
      for child = 2 * at, 2 * at + 1 do
        if heap[child] and lighter(heap[child], heap[least]) then least = child end
      end
      if least == at then break end
      heap[at], heap[least] = heap[least], heap[at]
      at = least
    end
  end
  return part
end

local function new(w, o)
  local b <const> = base.new(w, o)
  local count <const> = math.min(o.parts or 16, #b.bounds - 1)
  local self <const> = setmetatable({base = b, w = w, o = o, count = count, parts = {}}, exchange)
  self.word_part = word_parts(b.corpus.counts, self.count)
  self.numbers, self.first_word = {}, {[0] = 0}
  local lists = {}
  for q = 0, self.count - 1 do lists[q] = {} end
  for word, q in pairs(self.word_part) do table.insert(lists[q], word - 1) end
  for q = 0, self.count - 1 do
    self.numbers[q] = tensor.from("u32", lists[q])
    self.first_word[q + 1] = self.first_word[q] + #lists[q]
  end
  self.bounds = {}
  for q = 0, self.count do self.bounds[q + 1] = self.first_word[q] end
  local bytes <const> = (2 * (b.type == "u16" and 2 or 4) + 4) * b.corpus.tokens
  local spills <const> = o.memory_bytes and bytes > o.memory_bytes
  if spills then
    self.directory = base.directory(o)
  end
  self.blocks = blocks.new {type = b.type, directory = spills and self.directory or nil,
                            name = ("%s-%s-%d"):format(o.name, package.node(), w.rank)}
  return self
end

---- parts --------------------------------------------------------------------------------------------------------

---A part of the documents with its topics in the order of documents: arranged by words, and handed to the blocks.
function exchange:adopt(part)
  local places <const> = tensor.zeros("u32", part.tokens)
  local starts <const> = tensor.zeros("u32", self.base.corpus.vocabulary + 1)
  kernels.lda_arrange {offsets = part.offsets, words = part.words, part = self.word_part, parts = self.count,
                      starts = starts, places = places}
  local z <const> = tensor.zeros(self.base.type, part.tokens)
  kernels.lda_keep {topics = z, places = places, rows = part.z, back = true, topic_count = self.base.topics}
  part.words, part.z, part.starts = nil, nil, starts
  self.blocks:add(part.number, starts, self.bounds, places, z)
  self.parts[part.number] = part
end

---A part whose topics are drawn, read from table `z`, or come from the former owner.
---@param from integer|nil rank of the former owner
function exchange:obtain(p, from)
  local part <const> = self.base:part(p, self.count)
  if from then
    part.z = here(self.peers:receive(from, "part " .. p))
  else
    self.base:begin(part)
  end
  self:adopt(part)
end

---A part's topics in the order of documents.
function exchange:in_order(p)
  local z <const>, _, places <const> = self.blocks:part(p)
  local out <const> = tensor.zeros(self.base.type, #z)
  kernels.lda_keep {topics = z, places = places, rows = out, topic_count = self.base.topics}
  return out
end

---The owners of parts in this view: runs, the same on all.
local function deal(ranks, parts)
  local owner <const> = {}
  for p = 0, parts - 1 do owner[p] = ranks[p * #ranks // parts + 1] end
  return owner
end

---A test aid: all workers must have assigned alike, or a part would be drawn twice, and others wait for its owner.
function exchange:check_deal()
  local own <const> = {}
  for p = 0, self.count - 1 do own[p + 1] = self.owner[p] end
  for rank, theirs in pairs(here(self.peers:gather("deal", own))) do
    for p, owner in ipairs(theirs) do
      if owner ~= own[p] then
        error(("part %d is dealt to worker %d, but by worker %d to worker %d"):format(p - 1, own[p], rank, owner), 0)
      end
    end
  end
end

---Meets, and assigns parts: true when they, or the members, have changed since the last pass.
function exchange:meet(pass)
  local had = {}
  for p = 0, self.count - 1 do
    if self.parts[p] then had[#had + 1] = p end
  end
  self.peers = self.w:peers {pass = pass, had = had, kept = self.w.state.pass, alpha = self.w.state.alpha}
  local ranks <const>, holder = self.peers.ranks, {}
  local newest = 0
  for _, rank in ipairs(ranks) do
    for _, p in ipairs(self.peers.values[rank].had) do holder[p] = rank end
    newest = math.max(newest, self.peers.values[rank].pass)
    local kept <const> = self.peers.values[rank].kept
    if kept then self.w.state.pass = math.max(kept, self.w.state.pass or 0) end
    local alpha <const> = self.peers.values[rank].alpha
    if alpha and not self.w.state.alpha then self.base:set_alpha(alpha) end
  end
  self.base.leads = self.peers.index == 1
  self.owner = deal(ranks, self.count)
  if self.o.check then self:check_deal() end
  local before <const> = self.ranks
  self.ranks = table.concat(ranks, " ")
  for p = 0, self.count - 1 do
    if holder[p] == self.w.rank and self.owner[p] ~= self.w.rank then
      here(self.peers:send(self.owner[p], "part " .. p, self:in_order(p), {give = true}))
      self.blocks:remove(p)
      self.parts[p] = nil
    end
  end
  for p = 0, self.count - 1 do
    if self.owner[p] == self.w.rank and not self.parts[p] then self:obtain(p, holder[p]) end
  end
  return newest, before ~= self.ranks
end

---Calls f with the own parts, in order.
function exchange:each_part(f)
  for p = 0, self.count - 1 do
    if self.owner[p] == self.w.rank then f(p, self.parts[p]) end
  end
end

---- phases -------------------------------------------------------------------------------------------------------

---The parts of words that a rank works on, in order.
local function turns(self, rank)
  local list <const> = {}
  for q = 0, self.count - 1 do
    if self.owner[q] == rank then list[#list + 1] = q end
  end
  return list
end

---Sends the blocks that other workers need for their turn t.
function exchange:send_turn(t, whole)
  for _, rank in ipairs(self.peers.ranks) do
    local q <const> = rank ~= self.w.rank and turns(self, rank)[t]
    if q then
      self:each_part(function(p)
        local z <const>, proposals <const> = self.blocks:block(p, q)
        here(self.peers:send(rank, "z" .. p .. " " .. q, z))
        if whole then here(self.peers:send(rank, "m" .. p .. " " .. q, proposals)) end
      end)
    end
  end
end

---The blocks of a part of words, one after the other: topics, proposals, where each begins.
function exchange:gather_words(q, whole)
  local list, tokens = {}, 0
  for p = 0, self.count - 1 do
    local from <const> = self.owner[p]
    local z, proposals
    if from == self.w.rank then
      z, proposals = self.blocks:block(p, q)
    else
      z = here(self.peers:receive(from, "z" .. p .. " " .. q))
      proposals = whole and here(self.peers:receive(from, "m" .. p .. " " .. q))
    end
    list[p] = {z = z, proposals = proposals, at = tokens}
    tokens = tokens + #z
  end
  local all <const> = {z = tensor.zeros(self.base.type, tokens), list = list,
                       proposals = whole and tensor.zeros(self.base.type, tokens) or nil}
  local bases <const> = tensor.zeros("u64", self.count)
  for p = 0, self.count - 1 do
    bases[p + 1] = list[p].at
    if #list[p].z > 0 then
      all.z:put(list[p].at + 1, list[p].z)
      if whole then all.proposals:put(list[p].at + 1, list[p].proposals) end
    end
  end
  all.bases = bases
  return all
end

---Where the words of part q begin in each part of the documents: all workers have all of them.
function exchange:starts_of(q)
  local first <const>, words <const> = self.first_word[q], self.first_word[q + 1] - self.first_word[q]
  local starts <const> = tensor.zeros("u32", self.count, words + 1)
  local flat <const> = starts:view(1, self.count * (words + 1), 1)
  for p = 0, self.count - 1 do
    flat:put(p * (words + 1) + 1, self.all_starts[p]:slice(first + 1, words + 1))
  end
  return starts
end

---All get the starts of all parts of the documents.
function exchange:share_starts()
  self.all_starts = {}
  for p = 0, self.count - 1 do
    local mine <const> = self.owner[p] == self.w.rank
    if mine then
      self.all_starts[p] = self.parts[p].starts
      for _, rank in ipairs(self.peers.others) do here(self.peers:send(rank, "starts " .. p, self.parts[p].starts)) end
    end
  end
  for p = 0, self.count - 1 do
    if self.owner[p] ~= self.w.rank then
      self.all_starts[p] = here(self.peers:receive(self.owner[p], "starts " .. p))
    end
  end
end

---One turn over the words. f gets a part of words and its blocks.
---@param whole boolean with proposals, which come back
function exchange:over_words(whole, f)
  local own <const>, most = turns(self, self.w.rank), 0
  for _, rank in ipairs(self.peers.ranks) do most = math.max(most, #turns(self, rank)) end
  self:send_turn(1, whole)
  for t = 1, most do
    if t < most then self:send_turn(t + 1, whole) end
    local q <const> = own[t]
    if q then
      local all <const> = self:gather_words(q, whole)
      f(q, all)
      for p = 0, whole and self.count - 1 or -1 do
        local count <const>, at <const> = #all.list[p].z, all.list[p].at
        local z <const>, proposals <const> = all.z:slice(at + 1, count), all.proposals:slice(at + 1, count)
        local to <const> = self.owner[p]
        if to == self.w.rank then
          self.blocks:put_block(p, q, z, proposals)
        else
          here(self.peers:send(to, "z" .. p .. " " .. q, z))
          here(self.peers:send(to, "m" .. p .. " " .. q, proposals))
        end
      end
    end
  end
  if not whole then return end
  self:each_part(function(p)
    for q = 0, self.count - 1 do
      local from <const> = self.owner[q]
      if from ~= self.w.rank then
        local z <const> = here(self.peers:receive(from, "z" .. p .. " " .. q))
        self.blocks:put_block(p, q, z, here(self.peers:receive(from, "m" .. p .. " " .. q)))
      end
    end
  end)
end

function exchange:word_phase(pass)
  local next_totals <const> = self.base:zeros("f64", self.base.topics)
  self:over_words(true, function(q, all)
    local done <const> = kernels.lda_warp_word(self.base:arguments {
      topics = all.z, proposals = all.proposals, starts = self:starts_of(q), bases = all.bases,
      numbers = self.numbers[q], totals = self.totals, next = next_totals, seed = self.w.seed, pass = pass})
    self.moved = self.moved + done.accepted
  end)
  self.totals = here(self.peers:sum("n_k", next_totals))
end

---@param first? boolean proposals alone
function exchange:document_phase(pass, first)
  local next_totals <const> = self.base:zeros("f64", self.base.topics)
  self:each_part(function(p, part)
    local z <const>, proposals <const>, places <const> = self.blocks:part(p)
    local done <const> = kernels.lda_warp_document(self.base:arguments {
      topics = z, proposals = proposals, offsets = part.offsets, places = places, totals = self.totals or next_totals,
      next = next_totals, document = part.document, seed = self.w.seed, pass = pass, propose_only = first or false})
    self.blocks:put_part(p, z, proposals)
    self.moved = self.moved + done.accepted
    if not first then self.w:report {examples = part.tokens, wait = false} end
  end)
  self.totals = here(self.peers:sum("n_k", next_totals))
end

---- evaluation ---------------------------------------------------------------------------------------------------

---@return table fields of the report
function exchange:evaluate()
  local b <const>, fields = self.base, {ll = 0}
  self:each_part(function(p, part)
    fields.ll = fields.ll + b:documents_score(part.offsets, self:in_order(p))
  end)
  local tests <const> = b:can_test()
  local known <const> = tests and b:test_words()
  local rows <const> = tests and b:rows(known.count)
  local counted <const> = b:zeros("f64", b.topics)
  self:over_words(false, function(q, all)
    local row_of
    if tests then
      row_of = tensor.zeros("u32", #self.numbers[q])
      for i, word in pairs(self.numbers[q]) do row_of[i] = known.row[word] or 0xffffffff end
    end
    fields.ll = fields.ll + kernels.lda_warp_word(b:arguments {
      topics = all.z, starts = self:starts_of(q), bases = all.bases, numbers = self.numbers[q], totals = self.totals,
      next = counted, seed = self.w.seed, pass = 0, score = true, counts = rows or nil, rows = row_of}).score
  end)
  if self.peers.index == 1 then fields.ll = fields.ll + b:totals_score(self.totals) end
  if self.o.check then
    local all <const> = here(self.peers:sum("check", counted))
    assert(all:bytes() == self.totals:bytes() and all:sum() == b.corpus.tokens and all:min() >= 0, "topics lack tokens")
  end
  if not tests then return fields end
  local whole <const> = here(self.peers:sum("test words", rows))
  for key, value in pairs(b:test(whole, self.totals, self.peers.index, #self.peers.ranks)) do fields[key] = value end
  return fields
end

---- passes -------------------------------------------------------------------------------------------------------

---Keeps the topics at the start of a pass: a pass in which one dies begins there again.
function exchange:remember()
  self.former_alpha, self.former_state = self.base.alpha:copy(), self.w.state.alpha
  for p in pairs(self.parts) do self.blocks:remember(p) end
end

function exchange:forget_pass()
  if self.former_alpha then
    self.base.alpha:put(1, self.former_alpha)
    self.w.state.alpha, self.former_alpha = self.former_state, nil
  end
  for p in pairs(self.parts) do self.blocks:restore(p) end
end

---One pass of this view.
---@return table fields
function exchange:pass(pass, changed)
  self.moved = 0
  if changed then
    self:share_starts()
    self:document_phase(pass - 1, true)
    self.moved = 0
  end
  if self.remembers then self:remember() end
  self:word_phase(pass)
  self:document_phase(pass)
  if self.base:is_fitted(pass) then
    self.base:fit(function(f)
      self:each_part(function(p, part) f(part.offsets, self:in_order(p)) end)
    end, function(sums) return here(self.peers:sum("prior", sums)) end)
    self:document_phase(pass, true) -- proposals by the new prior
  end
  local fields <const> = self.base:is_evaluated(pass) and self:evaluate() or {}
  local tokens = 0
  self:each_part(function(_, part) tokens = tokens + part.tokens end)
  fields.examples, fields.moved = tokens, self.moved
  return fields
end

---Meets and makes a pass, until one has reached all.
---@return integer|nil pass nil: there is none left
---@return table fields
function exchange:whole_pass(pass)
  while true do
    local fields
    local ok, err = pcall(function()
      local newest, changed = self:meet(pass)
      pass = math.max(pass, newest)
      changed = changed or self.dirty
      self.dirty = true
      if pass <= self.o.passes then fields = self:pass(pass, changed) end
    end)
    if not ok and err ~= LOST then error(err, 0) end
    if self.peers:agree() and ok then
      self.dirty, self.former_alpha = false, nil
      for p in pairs(self.parts) do self.blocks:forget(p) end
      return pass, fields
    end
    self:forget_pass()
  end
end

---Writes the own parts' topics to table `z`.
function exchange:keep()
  self:each_part(function(p, part)
    local z <const>, _, places <const> = self.blocks:part(p)
    self.base:keep(setmetatable({z = z}, {__index = part}), places)
  end)
end

---The worker function of a job.
function exchange.train(w, o)
  local self <const> = new(w, o)
  self.remembers = o.survives
  local closing <close> = setmetatable({}, {__close = function() self.blocks:close() end}) -- luacheck: ignore 211
  local pass = (w.state.pass or 0) + 1
  while pass <= o.passes do
    local fields
    pass, fields = self:whole_pass(pass)
    if not fields then break end
    self.base:report(pass, fields, function() self:keep() end)
    pass = pass + 1
    if w:stopping() then
      self:keep() -- others may continue with these parts
      break
    end
  end
end

return exchange
