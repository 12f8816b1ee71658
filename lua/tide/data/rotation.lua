-- tide.data.rotation: a worker goes through its blocks in the order of DSGD (schedule.lua) while the column blocks pass
-- from worker to worker; at no time do two workers use one column.
--
-- A worker has as many columns as row blocks, keeps them for a group of sub-epochs, and then has others. Nobody waits
-- at the end of a group: when a worker is done with the first of its columns it comes to a barrier and goes on with the
-- others, and so with each. Who has a column next uses it when the barrier has passed to which its former holder came
-- when it was done with it. Columns that move are asked for as soon as that is so, which is looked at between blocks,
-- so they travel while other blocks are worked on. A worker waits when it needs a column that has not come.
local core = require "tide.core"
local schedule = require "tide.data.schedule"

---@class tide.data.rotation
local rotation = {}
rotation.__index = rotation

---@param w tide.worker
---@param o {blocks: integer, own: integer, epochs?: integer, columns?: table,
---  keys?: (fun(column: integer): table), block?: (fun(epoch: integer, row: integer, column: integer): any)}
---  blocks: P; own: row blocks of a worker; epochs: number of the last one, else the columns of an epoch are asked for
---  when it begins; columns: the table of columns, if they move to who uses them, and keys: those of a column block;
---  block: what is iterated over, else {row=, column=}
---@return tide.data.rotation
function rotation.new(w, o)
  return setmetatable({
    w = w, blocks = o.blocks, own = o.own, epochs = o.epochs or 0, columns = o.columns, keys = o.keys, block = o.block,
    first = (w.rank - 1) * o.own, stay = schedule.stay(o.blocks, o.own),
  }, rotation)
end

---Which of its holder's columns each one is, in the order in which it is done with them. The worker's own have no turn.
local function turns_of(self, group)
  local turn = {}
  for first = 0, self.blocks - 1, self.own do
    if first ~= self.first then
      for k, column in ipairs(group.schedule:columns(group.at, first, self.own)) do turn[column] = k end
    end
  end
  return turn
end

---What this worker does in the group of sub-epochs that begins with `at` (from 0).
---@param former table|nil the group before
local function group_of(self, epoch, at, former)
  local plan <const> = at > 0 and former.schedule or schedule.new(self.blocks, epoch, self.w.seed)
  local group <const> = {
    epoch = epoch, at = at, schedule = plan, visits = plan:visits(at, self.first, self.own),
    columns = plan:columns(at, self.first, self.own), left = {}, -- visits to each column
    arrivals = {}, behind = former and former.arrivals,          -- the k-th: its worker is done with k columns
    turn = former and turns_of(self, former) or {}, coming = {}, here = {},
  }
  for _, visit in ipairs(group.visits) do group.left[visit.column] = (group.left[visit.column] or 0) + 1 end
  return group
end

---The group after `group`, if its columns may be asked for before it begins.
local function following(self, group)
  local epoch, at = group.epoch, group.at + self.stay
  if at == self.blocks then epoch, at = epoch + 1, 0 end
  if epoch > group.epoch and epoch > self.epochs then return nil end
  return group_of(self, epoch, at, group)
end

local function arrive(self, group)
  if self.own == self.blocks then return end -- there are no others
  group.arrivals[#group.arrivals + 1] = self.w:barrier("block", nil, {async = true})
end

local function begin(self, epoch, at)
  local former <const>, next_one <const> = self.current, self.following
  while former and #former.arrivals < self.own and self.own < self.blocks do arrive(self, former) end -- left early
  local expected <const> = next_one and next_one.epoch == epoch and next_one.at == at
  self.current = expected and next_one or group_of(self, epoch, at, former)
  self.following = following(self, self.current)
end

---Asks for the columns of a group that nobody else uses any more; what the worker keeps, when the group has begun.
local function ask(self, group)
  if not self.columns or not group then return end
  for _, column in ipairs(group.columns) do
    local turn <const> = group.turn[column]
    local before <const> = turn and group.behind[turn]
    local free <const> = before and before:done() or not turn and group == self.current
    if free and not group.coming[column] then
      group.coming[column] = self.columns:localize(self.keys(column), {async = true})
    end
  end
end

---Before a block: waits until its column is free and here.
local function enter(self, group, column)
  local turn <const> = group.turn[column]
  if turn and not (core.mutant and core.mutant "column_early") then
    group.behind[turn]:wait()
    group.turn[column] = nil
  end
  ask(self, group)
  ask(self, self.following)
  if group.here[column] or not self.columns then return end
  local ok, err = group.coming[column]:wait()
  if not ok then error(err, 0) end
  group.here[column] = true
end

---The blocks of one epoch: `for block in rotation:epoch(n) do ... end`. All workers go through the same epochs. At the
---end others may still be at work on their last blocks: w:barrier() waits for all.
---@param epoch integer from 1
---@return fun(): any
function rotation:epoch(epoch)
  begin(self, epoch, 0)
  local at = 0
  return function()
    local group = self.current
    local visit = group.visits[at]
    if visit then
      group.left[visit.column] = group.left[visit.column] - 1
      if group.left[visit.column] == 0 then arrive(self, group) end
    end
    at = at + 1
    if not group.visits[at] then
      if group.at + self.stay == self.blocks then return ask(self, self.following) end
      begin(self, epoch, group.at + self.stay)
      group, at = self.current, 1
    end
    visit = group.visits[at]
    enter(self, group, visit.column)
    return self.block and self.block(epoch, visit.row, visit.column) or visit
  end
end

return rotation
