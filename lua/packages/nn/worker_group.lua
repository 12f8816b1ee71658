-- Workers that train one model together: membership, and the share of work of each. Shared by tide.nn and tide.factors.
--
-- Before an epoch all present workers meet. If they differ from the members of the exchange, they form a new exchange:
-- its chunks are owned by the present workers, and a joiner receives parameters, the update rule's memory and the
-- number of the step from another worker. A worker that dies in mid-epoch leaves the exchange (tide.nn.exchange); all
-- others observe this at the same step.
--
-- Workers also meet in mid-epoch if the controller requests it, because workers join or leave. All exit the loop over
-- batches at the same step and continue with the rest of the epoch (`unfinished`). If all workers leave, parameters and
-- memory go to tables, and the position in the training to w.state (`left_off`); other workers resume from there.
local package = require "tide.package"
local exchange = require "tide.nn.exchange"
local mean = require "tide.nn.mean"
local replica = require "tide.nn.replica"

local KEY <const> = 1024

---@class tide.nn.worker_group
---@field exchange tide.nn.exchange|nil of several workers
---@field left_off table|nil set if all workers leave: {epoch = the newest complete one, steps, unfinished?, adapts?}
---@field leavers integer[]|nil ranks of these
local group = {}
group.__index = group

---@param w tide.worker
---@param model table tide.nn.model or tide.factors.model
---@param o? {adapts?: tide.nn.adapt, meets?: boolean} meets: it can meet in mid-epoch
function group.new(w, model, o)
  o = o or {}
  return setmetatable({w = w, model = model, adapts = o.adapts, meets = o.meets, met = 0, steps = 0, ranks = {},
                       alone = {count = 0, loss = 0, correct = 0}}, group)
end

---- meeting ---------------------------------------------------------------------------------------------------------

---@param values table by rank: {epoch =, step =, plan =}, empty for a joiner
local function form(self, ranks, values)
  local w <const> = self.w
  if self.exchange then self.exchange:close() end
  if self.mean then self.mean:close() end
  self.mean = nil
  local alone <const> = #ranks == 1 and not self.exchange and self.model.step -- a model that can make steps alone
  if alone and not self.adapts then return end
  local known <const>, plan = {}, nil -- of a worker that stays, else of the first one: plans of joiners may differ
  for _, rank in ipairs(ranks) do
    if values[rank].epoch then known[#known + 1] = rank end
  end
  for _, rank in ipairs(#known > 0 and known or ranks) do plan = plan or values[rank].plan end
  self.exchange = exchange.new(w, self.model, ranks, self.adapts)
  if #known > 0 and #known < #ranks then
    self.exchange:hand_over({self.model.parameters, table.unpack(self.model:remembered())}, known)
    self.steps = values[known[1]].step
    if self.model.inner then self.model.inner.steps = values[known[1]].inner end
    if self.adapts and not values[w.rank].epoch then self.adapts:import(values[known[1]].adapts) end
  end
  if plan then self.exchange:follow(plan) end
end

---@return boolean whether all leave the loop over batches before the next one
function group:must_meet()
  if not self.meets then return false end
  if self.exchange then return self.exchange.meet > self.met end
  self.w:stopping()
  return (self.w.meet or 0) > self.met
end

-- The workers that stay, and the state that they share: the newest complete epoch, and the rest of the next one.
local function agreed(self, values)
  local ranks, newest, unfinished = {}, 0, nil
  for _, rank in ipairs(replica.ranks(values)) do
    local v <const> = values[rank]
    if not v.leaves then ranks[#ranks + 1] = rank end
    newest, self.met = math.max(newest, v.epoch or 0), math.max(self.met, v.met)
    unfinished = unfinished or v.unfinished
  end
  return ranks, newest, unfinished
end

-- Epochs that were complete before this worker joined.
local function begun_of(self, number)
  if number then return nil end
  return self.w.state.epoch or self.w.begun > 0 and self.w.begun or nil
end

-- Returns whether one of them took part before.
local function known_to(values)
  for _, v in pairs(values) do
    if v.epoch then return true end
  end
  return false
end

---Epochs in which this worker takes part, and the rest of one; all present workers meet before each.
---@param last integer number of the last one
---@return fun(): table|nil {number, first, joins, resumes: all workers are new and resume from tables, unfinished?}
function group:epochs(last)
  local number
  return function()
    local paused = self.unfinished
    local leaves <const> = number ~= nil and (paused ~= nil or number < last) and self.w:stopping()
    if number and not paused and (number >= last or leaves and not self.w.suspends) then return nil end
    local plan = self.exchange and self.exchange:leads() and self.exchange.plan or nil
    if not number then plan, paused = self.w.comm, self.w.state.unfinished end
    local values <const> = self.w:barrier("epoch", {epoch = number and number - (paused and 1 or 0), step = self.steps,
      plan = plan, met = math.max(self.met, self.exchange and self.exchange.meet or self.w.meet or 0),
      unfinished = paused, adapts = number and self.adapts and self.adapts:export() or nil, leaves = leaves,
      begun = begun_of(self, number), inner = self.model.inner and self.model.inner.steps})
    local ranks <const>, newest <const>, unfinished <const> = agreed(self, values)
    self.unfinished = nil
    if leaves and #ranks == 0 then
      self.left_off = {epoch = newest, steps = self.steps, unfinished = unfinished,
                       adapts = self.adapts and self.adapts:export() or nil}
      self.leavers = replica.ranks(values)
    end
    if leaves then return nil end
    if table.concat(ranks, " ") ~= table.concat(self.ranks, " ") then form(self, ranks, values) end
    self.ranks = ranks
    local came <const>, begun <const> = not number, values[self.w.rank].begun
    local resumes <const> = begun ~= nil and not known_to(values)
    number = (resumes and begun or newest) + 1
    return {number = number, first = number == 1 and not unfinished, unfinished = unfinished,
            resumes = resumes, joins = came and (number > 1 or unfinished ~= nil)}
  end
end

---@return integer[] ranks of the workers of the last step
function group:present() return self.exchange and self.exchange:begin() or self.ranks end

---- work ------------------------------------------------------------------------------------------------------------

---This worker's piece of `count` items: the first, from 1, and their number.
---@param present? integer[] ranks that share the items
function group:piece(count, present)
  present = present or self:present()
  if #present == 0 then return package.piece(count, (self.w.rank - 1) % self.w.workers + 1, self.w.workers) end
  for i, rank in ipairs(present) do
    if rank == self.w.rank then return package.piece(count, i, #present) end
  end
  error("this worker is not one of those that are there")
end

---The i-th of n pieces of a cut: its first example, from 1, and their number. Pieces have equal numbers, or equal
---weight to within an example.
local function piece_of(cut, i, n, weigh)
  if not weigh then return package.piece(cut.count, i, n) end
  local total, ends = 0, {}
  for k = 1, cut.count do
    local weight <const> = weigh(cut.first + k - 1)
    ends[k] = {middle = total + weight / 2}
    total = total + weight
  end
  local first, count = 1, 0
  for k = 1, cut.count do
    local owner <const> = math.min(n, math.floor(ends[k].middle * n / total) + 1)
    if owner < i then first = k + 1 elseif owner == i then count = count + 1 end
  end
  return first, count
end

---The pieces of workers that did not take part in the step are assigned again.
local function give_back(left, cut, present, weigh)
  local took = {}
  for _, rank in ipairs(present) do took[rank] = true end
  for i, rank in ipairs(cut.present) do
    local first, count = piece_of(cut, i, #cut.present, weigh)
    if not took[rank] and count > 0 then left[#left + 1] = {first = cut.first + first - 1, count = count} end
  end
end

---Iterates over batches of examples: this worker's part of each, the first example, from 1, and their number. Each
---example is assigned exactly once; those of a worker that dies in a step are assigned again.
---@param left table[] {first=, count=}: used up
---@param size integer of a batch of all workers
---@param bound? boolean examples stay with their worker by :piece of each span; those of a dead worker are skipped
---@param weigh? fun(place: integer): number what an example costs; parts have equal cost
---@return fun(): integer|nil, integer|nil, table|nil first, count, and the cut of all workers {first=, count=}
function group:batches(left, size, bound, weigh)
  local cut
  return function()
    local present <const> = self:present()
    if cut and not bound then give_back(left, cut, present, weigh) end
    local head <const> = left[1]
    if not head or self:must_meet() then return nil end
    local wanted <const> = self.adapts and self.adapts.total or size
    cut = {first = head.first, count = math.min(head.count, wanted), present = present}
    if self.adapts then self.adapts.cut = cut.count end
    head.first, head.count = head.first + cut.count, head.count - cut.count
    if head.count == 0 then table.remove(left, 1) end
    if not weigh then
      local first, count = self:piece(cut.count, present)
      return cut.first + first - 1, count, cut
    end
    for i, rank in ipairs(present) do
      if rank == self.w.rank then
        local first, count = piece_of(cut, i, #present, weigh)
        return cut.first + first - 1, count, cut
      end
    end
    error("this worker is not one of those that are there")
  end
end

---One step on this worker's part of a batch.
---@return table {loss=, count=, correct=} of this part
function group:step(batch)
  self.steps = self.steps + 1
  if self.exchange then
    self.model.steps = self.steps
    return self.exchange:step(batch, self.steps)
  end
  local r <const> = self.model:step(batch)
  local total <const> = self.alone
  total.skipped = r.skipped and (total.skipped or 0) + r.skipped or total.skipped
  for _, key in ipairs(r.skipped and {} or {"count", "loss", "correct"}) do total[key] = total[key] + r[key] end
  return r
end

---Waits until the last step's updates are made.
---@return table figures of the exchange since the last time
function group:settle()
  if not self.exchange then return {} end
  self.exchange:settle()
  return self.exchange:figures()
end

---@return table {loss=, count=, correct=} of the steps since the last call, summed over all workers
function group:totals()
  self:present()
  local total = self.alone
  self.alone = {count = 0, loss = 0, correct = 0}
  if self.exchange then total = self.exchange:totals() end
  return total
end

---A tensor of rows of 1024 becomes the mean of all workers'.
function group:average(tensor)
  if not self.exchange then return end
  self.mean = self.mean or mean.new(self.w, self.exchange.present, tensor:rows() * KEY)
  self.mean:of(tensor)
end

---Called between two steps by the workers of these ranks: a tensor of rows of 1024 becomes the sum of theirs. If one of
---them dies, the others still get equal sums.
---@param ranks integer[]
function group:add_up(tensor, ranks)
  self.exchange:settle()
  local all <const> = mean.new(self.w, ranks, tensor:rows() * KEY)
  all:sum(tensor)
  self.w:barrier "added up" -- after it no worker requests it from another
  all:close()
end

return group
