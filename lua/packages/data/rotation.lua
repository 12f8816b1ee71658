-- tide.data.rotation: a worker goes through its blocks in the order of a plan while what they need, blocks of columns,
-- passes from worker to worker; at no time do two workers use one column. Plans: DSGD's for a matrix (schedule.lua), a
-- tournament for what joins columns with each other (tournament.lua).
--
-- In a round of the plan a worker has some columns, and then others. No worker waits at the end of a round: when one
-- is done with the first of its columns it comes to a barrier and continues with the others, and so with each that
-- passes on. The next owner of a column uses it when the barrier has passed to which its former holder came when it was
-- done with it. Columns that move are asked for as soon as that is so, which is looked at between blocks, so they
-- travel while other blocks are worked on. A worker waits when it needs a column that has not come.

---@class tide.data.plan the owners of columns by time: the same on all workers, and as many columns for each
---@field workers integer
---@field rounds integer of an epoch
---@field columns fun(self, epoch: integer, round: integer, rank: integer): integer[], integer|nil in the order in which
---  the worker is done with them; how many of them, the first ones, pass on to others (all); epochs and ranks from 1,
---  rounds from 0
---@field visits fun(self, epoch: integer, round: integer, rank: integer): tide.data.visit[]
---@class tide.data.visit
---@field columns integer[] what it uses

---@class tide.data.rotation
local rotation = {}
rotation.__index = rotation

---@param w tide.worker
---@param o {plan: tide.data.plan, epochs?: integer, columns?: table, keys?: (fun(columns: integer[],
---  visits_of: fun(column: integer): tide.data.visit[]): table), joins?: boolean,
---  block?: (fun(epoch: integer, visits: tide.data.visit[]): any)}
---  epochs: number of the last one, else the columns of an epoch are asked for when it begins; columns: the table of
---  columns, if they move to who uses them, and keys: those of some columns that come, or of them what the worker's
---  visits use until a column passes on; block: what is iterated over, else the lists of visits, which are of one each;
---  joins: or of more, those that can be made at once without a wait for a column
---@return tide.data.rotation
---@package
function rotation.new(w, o)
  return setmetatable({w = w, plan = o.plan, epochs = o.epochs or 0, columns = o.columns, keys = o.keys,
                       joins = o.joins, block = o.block}, rotation)
end

---Which of its holder's columns each one is, in the order in which it is done with them. The worker's own have no turn.
local function turns_of(self, group)
  local turn = {}
  for rank = 1, self.plan.workers do
    if rank ~= self.w.rank then
      local columns <const> = self.plan:columns(group.epoch, group.round, rank)
      for k = 1, group.passed do turn[columns[k]] = k end
    end
  end
  return turn
end

---What this worker does in a round.
---@param former table|nil the round before
---@param follows boolean the worker makes all visits of that one, so what it keeps is what the plan says
local function group_of(self, epoch, round, former, follows)
  local columns <const>, passed <const> = self.plan:columns(epoch, round, self.w.rank)
  local group <const> = {
    epoch = epoch, round = round, visits = self.plan:visits(epoch, round, self.w.rank), columns = columns,
    passed = passed or #columns, left = {},             -- visits to each column that passes on
    arrivals = {}, behind = former and former.arrivals, -- the k-th: its worker is done with k columns
    turn = former and turns_of(self, former) or {}, coming = {}, kept = follows and former.coming or {},
  }
  for k = 1, group.passed do group.left[columns[k]] = 0 end
  for _, visit in ipairs(group.visits) do
    for _, column in ipairs(visit.columns) do
      group.left[column] = group.left[column] and group.left[column] + 1
    end
  end
  return group
end

---The round behind one, and its epoch; nil: none whose columns may be asked for before it begins.
local function next_round(self, epoch, round)
  if round + 1 < self.plan.rounds then return epoch, round + 1 end
  if epoch < self.epochs then return epoch + 1, 0 end
  return nil
end

---The round after `group`, if its columns may be asked for before it begins.
local function following(self, group)
  local epoch <const>, round <const> = next_round(self, group.epoch, group.round)
  return epoch and group_of(self, epoch, round, group, true)
end

local function contains(list, value)
  for _, v in ipairs(list) do
    if v == value then return true end
  end
  return false
end

---The visits to a column from `group` on, for as long as the worker keeps it.
local function visits_of(self, group, column)
  local list, epoch, round, rank = {}, group.epoch, group.round, self.w.rank
  repeat
    for _, visit in ipairs(self.plan:visits(epoch, round, rank)) do
      if contains(visit.columns, column) then list[#list + 1] = visit end
    end
    epoch, round = next_round(self, epoch, round)
  until not epoch or not contains(self.plan:columns(epoch, round, rank), column)
  return list
end

local function arrive(self, group)
  if self.plan.workers == 1 then return end -- there are no others
  group.arrivals[#group.arrivals + 1] = self.w:barrier("block", nil, {async = true})
end

---One visit more is made: with how many of the columns that pass on is the worker done?
local function count_visit(group, visit)
  local done = 0
  for _, column in ipairs(visit.columns) do
    local left <const> = group.left[column]
    if left then
      group.left[column] = left - 1
      if left == 1 then done = done + 1 end
    end
  end
  return done
end

local function begin(self, epoch, round)
  local former <const>, next_one <const> = self.current, self.following
  local expected <const> = next_one and next_one.epoch == epoch and next_one.round == round
  if former and not expected then former.passed = #former.columns end -- left early: the owners are not known then
  while former and #former.arrivals < former.passed and self.plan.workers > 1 do arrive(self, former) end
  self.current = expected and next_one or group_of(self, epoch, round, former, false)
  self.following = following(self, self.current)
end

---Is the column unused by others? What the worker keeps is its own, and was requested when it came.
local function is_free(self, group, column)
  local turn <const> = group.turn[column]
  if not turn then return group == self.current end
  return group.behind[turn] ~= nil and group.behind[turn]:done()
end

---Requests the columns of a group that no other worker uses any more.
local function ask(self, group)
  if not self.columns or not group then return end
  local free = {}
  for _, column in ipairs(group.columns) do
    if not group.coming[column] and not group.turn[column] then group.coming[column] = group.kept[column] end
    if not group.coming[column] and is_free(self, group, column) then free[#free + 1] = column end
  end
  if #free == 0 then return end
  local keys <const> = self.keys(free, function(column) return visits_of(self, group, column) end)
  local coming <const> = {ticket = self.columns:localize(keys, {async = true}), here = false}
  for _, column in ipairs(free) do group.coming[column] = coming end
end

---Waits until what was asked for is here.
local function wait_for(coming)
  if coming.here then return end
  local ok, err = coming.ticket:wait()
  if not ok then error(err, 0) end
  coming.here = true
end

---Before a visit: waits until its columns are free and here.
local function enter(self, group, visit)
  for _, column in ipairs(visit.columns) do
    local turn <const> = group.turn[column]
    if turn then
      group.behind[turn]:wait()
      group.turn[column] = nil
    end
  end
  ask(self, group)
  ask(self, self.following)
  for _, column in ipairs(self.columns and visit.columns or {}) do wait_for(group.coming[column]) end
end

---Would enter() not wait?
local function may_enter(self, group, visit)
  for _, column in ipairs(visit.columns) do
    local coming <const> = group.coming[column]
    if not is_free(self, group, column) or self.columns and not (coming and (coming.here or coming.ticket:done())) then
      return false
    end
  end
  return true
end

---The visits of a block from `at` on, and with how many columns the worker is done after them.
local function visits_from(self, group, at)
  local visits = {}
  local done
  repeat
    local visit <const> = group.visits[at + #visits]
    enter(self, group, visit)
    visits[#visits + 1] = visit
    done = count_visit(group, visit)
    local next_one <const> = group.visits[at + #visits]
  until done > 0 or not self.joins or not next_one or not may_enter(self, group, next_one)
  return visits, done
end

---The blocks of one epoch: `for block in rotation:epoch(n) do ... end`. All workers go through the same epochs. At the
---end others may still be at work on their last blocks: w:barrier() waits for all.
---@param epoch integer from 1
---@return fun(): any
function rotation:epoch(epoch)
  begin(self, epoch, 0)
  local at, done = 1, 0
  return function()
    local group = self.current
    for _ = 1, done do arrive(self, group) end
    if not group.visits[at] then
      if group.round + 1 == self.plan.rounds then
        done = 0
        return ask(self, self.following)
      end
      begin(self, epoch, group.round + 1)
      group, at = self.current, 1
    end
    local visits
    visits, done = visits_from(self, group, at)
    at = at + #visits
    return self.block and self.block(epoch, visits) or visits
  end
end

return rotation
