-- The chunks of a run: the examples 1..count cut into ranges of nearly the same size, handed out on request, once
-- a pass over the data each. Part of the run's controller (controller.lua); it decides, and sends nothing.
--
-- Every hand-out is a lease with a number of its own. A completion counts only with the lease that is out, so a chunk
-- that was taken from a lost worker and done again by another counts once, whichever workers report it and how often.
-- What the worker reported of a chunk counts with its completion: the sums of a pass hold every example once.
--
-- A worker that leaves in the middle gives a chunk back in part (split): what it did counts, and the chunk continues
-- with the rest of its range, for the next worker.
--
-- A dispatch policy may queue chunks for workers (assign): what is queued for one worker no other gets; what is not
-- goes to the next request, in order. It may also set another size of chunks (resize): from the next pass on, for what
-- is out is a range of this pass.
local core = require "tide.core"
local data_sets = require "tide.run.data_sets"
local report = require "tide.report"

local chunks = {}
chunks.__index = chunks

local PER_WORKER <const> = 8 -- chunks a pass by default: what a loss costs against what asking costs

---@param count integer examples in a pass
---@param o {workers: integer, seed: integer, chunks?: integer}
function chunks.new(count, o)
  local pieces = math.max(1, math.min(count, o.chunks or PER_WORKER * o.workers))
  return setmetatable({
    count = count, declared = pieces, pieces = pieces, asked = o.chunks ~= nil,
    seed = o.seed, pass = 0, order = {}, next = 1, back = {}, held = {}, done = {},
    rest = {}, missing = 0, leases = 0, redone = 0, sums = {}, reported = 0, queues = {}, queued = {},
  }, chunks)
end

---Starts the next pass over the data. Its order depends on the seed and the pass alone.
function chunks:begin()
  self.pass = self.pass + 1
  if self.size then self.pieces = (self.count + self.size - 1) // self.size end
  self.order, self.next, self.back, self.held, self.done, self.missing = {}, 1, {}, {}, {}, self.pieces
  self.queues, self.queued, self.rest = {}, {}, {}
  for i = 1, self.pieces do self.order[i] = i end
  local rng = core.random(self.seed * 1000003 + self.pass)
  for i = self.pieces, 2, -1 do
    local j = rng:below(i) + 1
    self.order[i], self.order[j] = self.order[j], self.order[i]
  end
end

---From the next pass on chunks have so many examples at most.
---@param size integer
function chunks:resize(size) self.size = math.max(1, math.min(size, self.count)) end

---@return integer examples that a chunk has at most, of those to come
function chunks:size_wanted() return self.size or (self.count + self.pieces - 1) // self.pieces end

---@return boolean whether every chunk of the pass is done
function chunks:over() return self.missing == 0 end

---Sets the queue of a worker: the chunks it gets next, in this order. Chunks that were begun or completed are left out;
---what is in another queue leaves it; what was in this one and is not in the list is free for all.
---@param rank integer
---@param list integer[] indices
function chunks:assign(rank, list)
  self:unqueue(rank)
  local queue = {}
  for _, index in ipairs(list) do
    if not self.held[index] and not self.done[index] then
      local owner = self.queued[index]
      if owner then self:leave_queue(owner, index) end
      self.queued[index] = rank
      queue[#queue + 1] = index
    end
  end
  self.queues[rank] = #queue > 0 and queue or nil
end

function chunks:leave_queue(rank, index)
  local queue = self.queues[rank]
  for i = 1, #queue do
    if queue[i] == index then
      table.remove(queue, i)
      return
    end
  end
end

---Makes what is queued for a worker free for all.
---@return boolean whether there was something
function chunks:unqueue(rank)
  local queue = self.queues[rank]
  for _, index in ipairs(queue or {}) do self.queued[index] = nil end
  self.queues[rank] = nil
  return queue ~= nil
end

---@return integer[] chunks that a worker gets next
function chunks:queue_of(rank) return self.queues[rank] or {} end

-- The chunk that a worker is to have next: of its own queue, one that came back, a new one.
function chunks:pick(rank)
  local queue = self.queues[rank]
  local own = queue and table.remove(queue, 1)
  if own then
    self.queued[own] = nil
    return own
  end
  for i, index in ipairs(self.back) do
    if not self.queued[index] and not self.held[index] and not self.done[index] then
      table.remove(self.back, i)
      return index
    end
  end
  while self.order[self.next] and (self.held[self.order[self.next]] or self.done[self.order[self.next]]) do
    self.next = self.next + 1
  end
  for i = self.next, #self.order do
    local index = self.order[i]
    if not self.queued[index] and not self.held[index] and not self.done[index] then return index end
  end
  return nil
end

-- The examples of a chunk that are to be done.
function chunks:range_of(index)
  local rest <const> = self.rest[index]
  if rest then return rest.first, rest.count end
  return data_sets.piece(self.count, index, self.pieces)
end

---Leases the next chunk for this worker.
---@param rank integer
---@param now? number when; for finish to return how long it took
---@return {index: integer, lease: integer, first: integer, count: integer}|nil
function chunks:take(rank, now)
  local index = self:pick(rank)
  if not index then return nil end
  self.leases = self.leases + 1
  self.held[index] = {lease = self.leases, rank = rank, since = now}
  local first, count = self:range_of(index)
  return {index = index, lease = self.leases, first = first, count = count}
end

local function holds(self, index, lease)
  local held = self.held[index]
  return held and held.lease == lease
end

---A worker says that a chunk is done: {index=, lease=, fields=}.
---@return boolean whether it counts
---@return table? held {rank=, since=} its holder, and since when
function chunks:finish(said)
  if not holds(self, said.index, said.lease) then return false end
  local held = self.held[said.index]
  self.held[said.index], self.rest[said.index] = nil, nil
  self.done[said.index] = true
  self.missing = self.missing - 1
  report.add(self.sums, said.fields or {})
  return true, held
end

---A worker did the first `count` examples of a chunk and leaves the rest to others: {index=, lease=, count=, fields=}.
---@return boolean whether it counts
function chunks:split(said)
  local first, count = self:range_of(said.index)
  local part <const> = math.tointeger(said.count) or 0
  if not holds(self, said.index, said.lease) or part < 1 or part >= count then return false end
  self.held[said.index] = nil
  self.back[#self.back + 1] = said.index
  self.rest[said.index] = {first = first + part, count = count - part}
  report.add(self.sums, said.fields or {})
  return true
end

---@param rank integer
---@return boolean whether the worker has a chunk
function chunks:is_held_by(rank)
  for _, held in pairs(self.held) do
    if held.rank == rank then return true end
  end
  return false
end

---A worker left a chunk undone: {index=, lease=}.
function chunks:give_back(said)
  if not holds(self, said.index, said.lease) then return end
  self.held[said.index] = nil
  self.back[#self.back + 1] = said.index
end

---Takes back what a lost worker holds.
---@param rank integer
---@return integer count of chunks that are to be done again
function chunks:release(rank)
  local count = 0
  self:unqueue(rank)
  for index = 1, self.pieces do
    local held = self.held[index]
    if held and held.rank == rank then
      self.held[index] = nil
      self.back[#self.back + 1] = index
      count = count + 1
    end
  end
  self.redone = self.redone + count
  return count
end

---A report of all workers is made.
---@return table<string, number> what completed chunks reported since the last one
function chunks:take_sums()
  local sums = self.sums
  self.sums, self.reported = {}, self:passed()
  return sums
end

---How far the run is: what a checkpoint keeps. Taken before its cut is announced, so that all that a chunk pushed is in
---the checkpoint if the chunk counts as done here; what was done since is done again.
---@return table record {count, declared, pieces, size, pass, done = {index...}, rest = {{index, first, count}...},
---  sums, reported}
function chunks:record()
  local record = {count = self.count, declared = self.declared, pieces = self.pieces, size = self.size,
                  pass = self.pass, reported = self.reported, done = {}, rest = {}, sums = {}}
  for index = 1, self.pieces do
    if self.done[index] then record.done[#record.done + 1] = index end
    local rest <const> = self.rest[index]
    if rest then record.rest[#record.rest + 1] = {index = index, first = rest.first, count = rest.count} end
  end
  for k, v in pairs(self.sums) do record.sums[k] = v end
  return record
end

---Continues where a record was taken.
---@param record table of chunks:record()
---@return boolean? ok
---@return string? problem
function chunks:restore(record)
  local declared <const> = record.declared or record.pieces -- older records: none was resized
  -- Without a number in the job they are so many a worker, and the resumed run may have others.
  if record.count ~= self.count or (self.asked and declared ~= self.declared) then
    return nil, ("the checkpoint's data is %d examples in %d chunks, the job's %d in %d"):format(record.count, declared,
      self.count, self.declared)
  end
  self.declared = declared
  self.pass, self.pieces = record.pass - 1, record.pieces -- of the interrupted pass
  if record.pass > 0 then self:begin() else self.pass = 0 end
  self.size = record.size
  for _, index in ipairs(record.done) do
    self.done[index] = true
    self.missing = self.missing - 1
  end
  for _, each in ipairs(record.rest or {}) do self.rest[each.index] = {first = each.first, count = each.count} end
  for i = self.pieces, 1, -1 do
    if self.done[self.order[i]] then table.remove(self.order, i) end
  end
  for k, v in pairs(record.sums) do self.sums[k] = v end
  self.reported = record.reported or self:passed()
  return true
end

---@return integer examples in a chunk
function chunks:size_of(index)
  local _, count = self:range_of(index)
  return count
end

---The chunks of the current pass, in the order in which they are handed out.
---@return table[] {id, examples, left, taken_by, since}
function chunks:list()
  local list = {}
  for i, index in ipairs(self.order) do
    local held = self.held[index]
    local count = self:size_of(index)
    list[i] = {id = index, examples = count, left = self.done[index] and 0 or count, taken_by = held and held.rank,
               since = held and held.since}
  end
  return list
end

---@return integer passes that are complete
function chunks:passed() return self:over() and self.pass or self.pass - 1 end

---Where a worker begins while no other works: behind the newest pass, or, if its chunks reported numbers and all
---workers were lost before their own report, behind the last pass that was reported. It finds that pass over, and
---makes the report: each report covers its own passes.
---@return integer passes
function chunks:begins_behind() return next(self.sums) and self.reported or self:passed() end

return chunks
