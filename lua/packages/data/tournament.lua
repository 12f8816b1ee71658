-- The plan (rotation.lua) by which W workers bring each two of 2 W buckets of rows together once an epoch: a
-- round-robin tournament. In each of its 2 W - 1 rounds a worker has two buckets, and trains on what joins a row of the
-- one with one of the other; in the first round of an epoch also on what joins rows of one bucket. PyTorch-BigGraph
-- (Lerer et al., SysML 2019) trains on pairs of buckets so, which a server of locks hands out.
--
-- Rounds are those of the circle method, in an order that is drawn for each epoch. Two of them, seen as edges between
-- buckets, make up circles: along these each worker keeps one bucket and gets the other from its neighbour.
--
-- A bucket has two halves, of which one travels while the other is worked on. They are the columns of the plan: 2 b and
-- 2 b + 1 those of bucket b. Where workers share processors, one that waits lets others work: buckets are not cut. A
-- single worker has one column, and all in it.
local schedule = require "tide.data.schedule"
local tide = require "tide"

---@class tide.data.tournament : tide.data.plan
---@field column_count integer
---@field parts integer columns of a bucket
local tournament = {}
tournament.__index = tournament

---@param workers integer
---@param seed integer the same on all workers
---@param whole? boolean buckets are not cut
---@return tide.data.tournament
function tournament.new(workers, seed, whole)
  local parts <const> = (whole or workers == 1) and 1 or 2
  return setmetatable({workers = workers, rounds = 2 * workers - 1, parts = parts, seed = seed, epochs = {},
                       column_count = workers > 1 and 2 * workers * parts or 1}, tournament)
end

---The bucket that `x` meets in a round of the circle method: the last bucket stays, the others go round it.
local function opponent(self, round, x)
  local last <const> = self.rounds
  if x == last then return round end
  if x == round then return last end
  return (2 * round - x) % last
end

---The two buckets of each worker in the first of all rounds.
local function held_first(self, round)
  local held = {}
  for x = 0, self.rounds do
    local y <const> = opponent(self, round, x)
    if x < y then held[#held + 1] = {x, y} end
  end
  return held
end

---The two buckets of each worker in `round`: the one that it keeps and the one that it gets.
local function held_next(self, round, held)
  local holder, after = {}, {}
  for rank, pair in ipairs(held) do holder[pair[1]], holder[pair[2]] = rank, rank end
  for first = 1, self.workers do
    local rank, kept = first, held[first][2]
    while not after[rank] do
      local got <const> = opponent(self, round, kept)
      after[rank] = {kept, got}
      rank = holder[got]
      kept = held[rank][1] == got and held[rank][2] or held[rank][1]
    end
  end
  return after
end

---What each worker holds in the rounds (from 1) of an epoch.
local function epoch_of(self, epoch)
  if not self.epochs[epoch] then
    local before <const>, all = epoch > 1 and epoch_of(self, epoch - 1), {}
    local order <const> = schedule.permutation(tide.random(self.seed * 1000003 + epoch), self.rounds)
    for i, round in ipairs(order) do
      local held <const> = i > 1 and all[i - 1] or before and before[self.rounds]
      all[i] = held and held_next(self, round, held) or held_first(self, round)
    end
    self.epochs[epoch], self.epochs[epoch - 2] = all, nil -- no more than two are looked at
  end
  return self.epochs[epoch]
end

---Of a worker's buckets the one that it gives away after a round (from 0), and the one that it keeps.
local function buckets_of(self, epoch, round, rank)
  local pair <const> = epoch_of(self, epoch)[round + 1][rank]
  local after <const> = round + 1 < self.rounds and epoch_of(self, epoch)[round + 2] or epoch_of(self, epoch + 1)[1]
  if after[rank][1] == pair[1] then return pair[2], pair[1] end
  return pair[1], pair[2]
end

function tournament:columns(epoch, round, rank)
  if self.workers == 1 then return {0} end
  local columns = {}
  for _, bucket in ipairs {buckets_of(self, epoch, round, rank)} do
    for part = 0, self.parts - 1 do columns[#columns + 1] = self.parts * bucket + part end
  end
  return columns, self.parts
end

---@class tide.data.tournament.visit : tide.data.visit
---@field joined {[1]: integer, [2]: integer} columns whose rows it brings together; `columns` are all that are here

---The half that travels first is used first, and is done with after half of the round.
---@return tide.data.tournament.visit[]
function tournament:visits(epoch, round, rank)
  if self.workers == 1 then return {{joined = {0, 0}, columns = {0}}} end
  local columns <const> = self:columns(epoch, round, rank)
  local gone <const>, kept <const> = {table.unpack(columns, 1, self.parts)}, {table.unpack(columns, self.parts + 1)}
  local list = {}
  local function visit(a, b, ...) list[#list + 1] = {joined = {a, b}, columns = {a, b, ...}} end
  local function inside(bucket, i) -- once an epoch
    for k = i, round == 0 and self.parts or 0 do visit(bucket[i], bucket[k]) end
  end
  for i, column in ipairs(gone) do
    for k, other in ipairs(kept) do visit(column, other, table.unpack(kept, 1, k - 1)) end
    inside(gone, i)
  end
  for i = 1, self.parts do inside(kept, i) end
  return list
end

return tournament
