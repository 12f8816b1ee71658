-- The chunks of a run: the examples 1..count cut into ranges of nearly the same size, handed out to whoever asks, once
-- a pass over the data each. Part of the run's controller (controller.lua); it decides, and sends nothing.
--
-- Every hand-out is a lease with a number of its own. A completion counts only with the lease that is out, so a chunk
-- that was taken from a lost worker and done again by another counts once, whoever says so and how often. What the
-- worker reported of a chunk counts with its completion: the sums of a pass hold every example once.
local core = require "tide.core"
local data = require "tide.data"

local chunks = {}
chunks.__index = chunks

local PER_WORKER <const> = 8 -- chunks a pass by default: what a loss costs against what asking costs

---@param count integer examples in a pass
---@param o {workers: integer, seed: integer, chunks?: integer}
function chunks.new(count, o)
  local pieces = math.max(1, math.min(count, o.chunks or PER_WORKER * o.workers))
  return setmetatable({
    count = count, pieces = pieces, seed = o.seed, pass = 0, order = {}, next = 1, back = {}, held = {}, done = {},
    missing = 0, leases = 0, redone = 0, sums = {},
  }, chunks)
end

---Starts the next pass over the data. Its order depends on the seed and the pass alone.
function chunks:begin()
  self.pass = self.pass + 1
  self.order, self.next, self.back, self.held, self.done, self.missing = {}, 1, {}, {}, {}, self.pieces
  for i = 1, self.pieces do self.order[i] = i end
  local rng = core.random(self.seed * 1000003 + self.pass)
  for i = self.pieces, 2, -1 do
    local j = rng:below(i) + 1
    self.order[i], self.order[j] = self.order[j], self.order[i]
  end
end

---@return boolean whether every chunk of the pass is done
function chunks:over() return self.missing == 0 end

---Leases the next free chunk: one that came back before one that nobody had.
---@param rank integer
---@return {index: integer, lease: integer, first: integer, count: integer}|nil
function chunks:take(rank)
  local index = table.remove(self.back, 1)
  if not index then
    index = self.order[self.next]
    if not index then return nil end
    self.next = self.next + 1
  end
  self.leases = self.leases + 1
  self.held[index] = {lease = self.leases, rank = rank}
  local first, count = data.piece(self.count, index, self.pieces)
  return {index = index, lease = self.leases, first = first, count = count}
end

local function holds(self, index, lease)
  local held = self.held[index]
  return held and held.lease == lease
end

---A worker says that a chunk is done: {index=, lease=, fields=}.
---@return boolean whether it counts
function chunks:finish(said)
  local twice = core.mutant and core.mutant "chunk_twice"
  if not holds(self, said.index, said.lease) and not twice then return false end
  self.held[said.index] = nil
  self.done[said.index] = true
  self.missing = self.missing - 1
  for k, v in pairs(said.fields or {}) do self.sums[k] = (self.sums[k] or 0) + v end
  return true
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

---@return table<string, number> what completed chunks reported since the last call
function chunks:take_sums()
  local sums = self.sums
  self.sums = {}
  return sums
end

---How far the run is: what a checkpoint keeps. Taken before its cut is announced, so that all that a chunk pushed is in
---the checkpoint if the chunk counts as done here; what was done since is done again.
---@return table record {count, pieces, pass, done = {index...}, sums}
function chunks:record()
  local record = {count = self.count, pieces = self.pieces, pass = self.pass, done = {}, sums = {}}
  for index = 1, self.pieces do
    if self.done[index] then record.done[#record.done + 1] = index end
  end
  for k, v in pairs(self.sums) do record.sums[k] = v end
  return record
end

---Goes on where a record was taken.
---@param record table of chunks:record()
---@return boolean? ok
---@return string? problem
function chunks:restore(record)
  if record.count ~= self.count or record.pieces ~= self.pieces then
    return nil, ("the checkpoint's data is %d examples in %d chunks, the job's %d in %d"):format(record.count,
      record.pieces, self.count, self.pieces)
  end
  self.pass = record.pass - 1
  if record.pass > 0 then self:begin() else self.pass = 0 end
  for _, index in ipairs(record.done) do
    self.done[index] = true
    self.missing = self.missing - 1
  end
  for i = self.pieces, 1, -1 do
    if self.done[self.order[i]] then table.remove(self.order, i) end
  end
  for k, v in pairs(record.sums) do self.sums[k] = v end
  return true
end

---@return integer passes that are complete
function chunks:passed() return self:over() and self.pass or self.pass - 1 end

return chunks
