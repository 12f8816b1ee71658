-- Workers that solve one problem together by sums over all of them: who is there, what each has to do, and how they
-- go on when one dies, leaves or comes. Shared by tide.descent and tide.multitask.
--
-- What is worked on is a part with a state that is the same on all. A round begins in the same state everywhere and
-- ends with sums, which are the same bits everywhere. When a worker is lost in mid-round, some have finished the
-- round and others have not: all meet, take the state of one that came furthest, divide the work anew, and go on from
-- there.
--
-- Before a report all meet, so that nobody waits in a report for workers that wait elsewhere; and behind it, since
-- there workers join and leave.
local script = require "tide.script"

---@class tide.team.part
---@field round integer grows with every round; the same on all
---@field due table|nil {alike = table, fields? = table, last = boolean}: a report is to be made
---@field state fun(self): table what another worker has to know to go on, as it travels
---@field adopt fun(self, state: table)
---@field divide fun(self) the work, among team.size workers; rebuilds what only this worker has
---@field advance fun(self) rounds until a report is due

---@class tide.team
---@field index integer which of the workers that are there this one is, from 1
---@field size integer how many are there
---@field sums integer since the last report
local team = {}
team.__index = team

local LOST <const> = setmetatable({}, {__tostring = function() return "a worker was lost" end})

---@param w tide.worker
function team.new(w)
  return setmetatable({w = w, index = 1, size = 0, sums = 0}, team)
end

---All meet.
---@return boolean whether others are there than before
function team:enter()
  local before <const> = self.ranks and table.concat(self.ranks, " ")
  self.peers = self.w:peers()
  self.ranks, self.index, self.size = self.peers.ranks, self.peers.index, #self.peers.ranks
  local differ <const> = table.concat(self.ranks, " ") ~= before
  self.changed = self.changed or differ
  return differ
end

local function received(value, lost)
  if lost then error(LOST, 0) end
  return value
end

---The sum of everybody's tensor, the same bits on all; the tensor itself where one worker is alone.
---@param tag string
---@param tensor table f64
function team:sum(tag, tensor)
  self.sums = self.sums + 1
  if self.size == 1 then return tensor end
  local sum, lost = self.peers:sum(tag, tensor)
  return received(sum, lost)
end

---Everybody's value, by index.
---@param tag string
---@return any[]
function team:gather(tag, value)
  if self.size == 1 then return {value} end
  local values, lost = self.peers:gather(tag, value)
  received(values, lost)
  local list = {}
  for i, rank in ipairs(self.ranks) do list[i] = values[rank] end
  return list
end

---Begins to gather; the others go on meanwhile.
---@return fun(): any[] waits, gives everybody's values by index
function team:begin_gather(tag, value)
  if self.size == 1 then return function() return {value} end end
  local ticket <const>, lost = self.peers:gather(tag, value, {async = true})
  if not ticket then received(nil, lost) end
  return function()
      local values, gone = ticket:wait()
    received(values, gone)
    local list = {}
    for i, rank in ipairs(self.ranks) do list[i] = values[rank] end
    return list
  end
end

---Tensors to others and from them, by index.
---@param tensors table<integer, table>
---@return table<integer, table>
function team:swap(tag, tensors)
  if self.size == 1 then return {tensors[1]} end
  local out = {}
  for i, rank in ipairs(self.ranks) do out[rank] = tensors[i] end
  local values, lost = self.peers:swap(tag, out)
  received(values, lost)
  local list = {}
  for i, rank in ipairs(self.ranks) do list[i] = values[rank] end
  return list
end

---This worker's contiguous piece of `count` things: the first, from 1, and how many.
---@param shares? number[] speeds by index; default alike
function team:piece(count, shares)
  local from, to, all = 0, 0, 0
  for i = 1, self.size do
    local share <const> = shares and shares[i] or 1
    all = all + share
    if i < self.index then from = from + share end
    if i <= self.index then to = to + share end
  end
  local first <const> = count * from // all
  return math.tointeger(first + 1), math.tointeger(count * to // all - first)
end

---All take the state of one that came furthest.
local function agree(self, part)
  local rounds <const>, newest = self:gather("round", part.round), 1
  for i, round in ipairs(rounds) do
    if round > rounds[newest] then newest = i end
  end
  if rounds[newest] == 0 then return end -- nobody has begun
  local same = true
  for _, round in ipairs(rounds) do same = same and round == rounds[newest] end
  if same then return end
  local states <const> = self:gather("state", newest == self.index and part:state() or false)
  if rounds[self.index] < rounds[newest] then part:adopt(states[newest]) end
end

local function report(self, part)
  local due <const> = part.due
  if part.store and (due.last or self.w.keeps) then
    repeat part:store(self) until not self:enter() -- who died has perhaps not written its rows
  end
  part.due = nil
  local fields = {alike = due.alike}
  for k, v in pairs(due.fields or {}) do fields[k] = v end
  fields.alike.sums, self.sums = self.sums, 0
  self.w:report(fields)
  return due.last or self.w:stopping()
end

---Works until the last report is made or the run stops.
---@param part tide.team.part
function team:play(part)
  while true do
    self:enter()
    local ok, err = true, nil
    if self.changed then
      ok, err = xpcall(function()
        agree(self, part)
        part:divide()
      end, function(e) return e == LOST and e or script.failure(e) end)
      self.changed = not ok
    end
    if ok and part.due then
      if report(self, part) then return end
    elseif ok then
      ok, err = xpcall(part.advance, function(e) return e == LOST and e or script.failure(e) end, part)
    end
    if not ok and err ~= LOST then error(err, 0) end
  end
end

return team
