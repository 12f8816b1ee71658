-- Workers that solve one problem together by sums over all of them: the members, their parts, and how they
-- continue when one dies, leaves or joins. Shared by tide.descent and tide.multitask.
--
-- What is worked on is a part with a state that is the same on all. A round begins in the same state everywhere and
-- ends with sums, which are the same bits everywhere. When a worker is lost in mid-round, some have finished the
-- round and others have not: all meet, take the state of one that came furthest, divide the work anew, and continue
-- from there.
--
-- Before a report all meet, so that no worker waits in a report for workers that wait elsewhere; and behind it, since
-- there workers join and leave. When all meet they exchange their speeds: where equal pieces make a round take far
-- longer than it need, the work is divided anew, by speed.
--
-- A job with checkpoints stores its part before every report, keeps the little that is not in tables in w.state, and
-- ends a clock: so a cut is one report's. All that follows from it is made anew then, as a resumed run has to; so that
-- a resumed run and one without a stop find the same bits.
local core = require "tide.core"
local pieces = require "tide.pieces"
local script = require "tide.script"

---@class tide.team.part
---@field round integer grows with every round; the same on all
---@field due table|nil {alike = table, fields? = table, last = boolean}: a report is to be made
---@field state fun(self): table what another worker has to know to continue, as it travels
---@field adopt fun(self, state: table)
---@field divide fun(self) the work, among team.size workers (by team.shares); rebuilds what only this worker has
---@field advance fun(self) rounds until a report is due
---@field digest? fun(self): string of the data that all have to have alike
---@field store? fun(self, team: tide.team, last: boolean) what is found (so far, unless `last`) into tables; with
---  checkpoints, all that `fetch` requires
---@field kept? fun(self): table the rest of the state, small
---@field fetch? fun(self, kept: table) the state of tables and of what was kept
---@field refresh? fun(self) what follows from the state is made anew, as in a resumed run

---@class tide.team
---@field index integer which of the workers that are there this one is, from 1
---@field size integer how many are there
---@field sums integer since the last report
---@field shares number[]|nil speeds by index; nil: all alike
---@field others boolean while the work is divided: because workers came or went, not for their speeds
local team = {}
team.__index = team

local LOST <const> = setmetatable({}, {__tostring = function() return "a worker was lost" end})
local WORTH <const> = 1.5 -- times longer than by speed: equal pieces are abandoned
local TIMES <const> = 3 -- measurements; the fastest counts, so that a moment's delay does not
local LEAST_S <const> = 1e-4 -- what takes less is not measured
local REST <const>, REST_DOUBLES <const> = 2, 6 -- looks without a deal after one, twice as many after each
local LONG_S <const> = 1e-3 -- and where no piece takes longer, equal ones are kept

---The workers of a job, as each of them sees the others; all make one.
---@param w tide.worker
---@return tide.team
function team.new(w)
  return setmetatable({w = w, index = 1, size = 0, sums = 0, measured = 0, deals = 0, resting = 0}, team)
end

---This worker took so long for so much of its work.
---@param seconds number
---@param amount number
function team:took(seconds, amount)
  if seconds < LEAST_S or amount <= 0 then return end
  self.measured = self.measured + 1
  if amount / seconds > (self.fastest or 0) then self.fastest, self.seconds = amount / seconds, seconds end
end

---How fast this worker is.
---@return {[1]: number, [2]: number}|false work a second and seconds of it, when it is known
function team:speed() return self.measured >= TIMES and {self.fastest, self.seconds} end

---What a look at all speeds comes to: nil where pieces are as they ought to be.
---@return number[]|nil speeds
---@return number|nil times that rounds take as long as they need
local function look(self, told)
  local speeds <const>, all, given, longest, slowest = {}, 0, 0, 0, 0
  for i = 1, self.size do
    speeds[i] = told[i][1]
    all, longest = all + speeds[i], math.max(longest, told[i][2])
    given = given + (self.shares and self.shares[i] or 1)
  end
  for i, speed in ipairs(speeds) do
    slowest = math.max(slowest, (self.shares and self.shares[i] or 1) / given / speed)
  end
  if slowest * all < WORTH or longest < LONG_S then return nil end
  return speeds, slowest * all
end

---What each is to have, by the reported speeds, where that is worth it; the same on all. Speeds change with
---what else a machine does: so it takes two looks in a row, whose mean counts, and after a deal the next one is the
---further off the more there were.
---@param told table[] by index, of team:speed()
---@return boolean whether the work is to be divided anew
function team:balance(told)
  for i = 1, self.size do
    if not told[i] then return false end -- one speed is not known yet
  end
  self.measured, self.fastest = 0, nil
  if self.resting > 0 then
    self.resting = self.resting - 1
    return false
  end
  local speeds <const>, times <const> = look(self, told)
  local before <const> = self.speeds
  self.speeds = speeds
  if speeds and not before then self.measured = TIMES - 1 end -- the next look comes soon
  if not speeds or not before then return false end
  local all = 0
  for i, speed in ipairs(speeds) do
    speeds[i] = math.sqrt(speed * before[i])
    all = all + speeds[i]
  end
  for i, speed in ipairs(speeds) do speeds[i] = speed / all end
  self.shares, self.changed, self.speeds = speeds, true, nil
  self.deals = self.deals + 1
  self.resting = REST << math.min(self.deals, REST_DOUBLES)
  if self.index == 1 then
    local list <const> = {}
    for i, share in ipairs(speeds) do list[i] = ("%.0f"):format(100 * share) end
    self.w:log(("rounds take %.1f times as long as they need: by speed, workers get %s %% of the work"):format(
      times, table.concat(list, ", ")))
  end
  return true
end

---All meet.
---@return boolean whether others are there than before
function team:enter()
  local before <const> = self.ranks and table.concat(self.ranks, " ")
  self.peers = self.w:peers(self:speed())
  self.ranks, self.index, self.size = self.peers.ranks, self.peers.index, #self.peers.ranks
  local differ <const> = table.concat(self.ranks, " ") ~= before
  if differ then -- all begin alike: a worker that joins has seen no earlier look
    self.shares, self.speeds, self.deals, self.resting = nil, nil, 0, 0
    self.changed, self.others = true, true
  end
  local told <const> = {}
  for i, rank in ipairs(self.ranks) do told[i] = self.peers.values[rank] or false end
  self:balance(told)
  return differ
end

local function received(value, lost)
  if lost then error(LOST, 0) end
  return value
end

---The sum of all workers' tensors, the same bits on all; the tensor itself where one worker is alone.
---@param tag string
---@param tensor table f64
function team:sum(tag, tensor)
  self.sums = self.sums + 1
  if self.size == 1 then return tensor end
  local sum, lost = self.peers:sum(tag, tensor)
  return received(sum, lost)
end

---The values of all, by index.
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

---Begins to gather; the others continue meanwhile.
---@return fun(): any[] waits, returns the values of all by index
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
---@param index? integer another worker's
function team:piece(count, shares, index)
  local from, to, all = 0, 0, 0
  index = index or self.index
  for i = 1, self.size do
    local share <const> = shares and shares[i] or 1
    all = all + share
    if i < index then from = from + share end
    if i <= index then to = to + share end
  end
  if index == self.size then to = all end -- whatever sums of shares are rounded to
  local first <const> = count * from // all
  return math.tointeger(first + 1), math.tointeger(count * to // all - first)
end

---All have the same data, or it is an error that names one that has not.
local function compare(self, told)
  for i, theirs in ipairs(told) do
    if theirs.digest ~= told[1].digest then
      error(script.error("T0402", ("worker %d on node %s has other data than worker %d on node %s"):format(
        self.ranks[i], theirs.node, self.ranks[1], told[1].node),
        {help = "every node reads the whole data set: give all of them the same file"}), 0)
    end
  end
end

---All take the state of one that came furthest.
local function agree(self, part)
  self.digest = self.digest or part.digest and part:digest() or ""
  local told <const> = self:gather("round", {round = part.round, digest = self.digest, node = self.w.node})
  compare(self, told)
  local rounds <const>, newest = {}, 1
  for i, theirs in ipairs(told) do
    rounds[i] = theirs.round
    if rounds[i] > rounds[newest] then newest = i end
  end
  if rounds[newest] == 0 then return end -- none has begun
  local same = true
  for _, round in ipairs(rounds) do same = same and round == rounds[newest] end
  if same then return end
  local states <const> = self:gather("state", newest == self.index and part:state() or false)
  if rounds[self.index] < rounds[newest] then part:adopt(states[newest]) end
end

---Text of any value, with the same numbers: what is kept goes through JSON.
local function packed(value)
  return pieces.of((core.encode(value):gsub(".", function(c) return ("%02x"):format(c:byte()) end)))
end

local function unpacked(text)
  return (core.decode((pieces.whole(text):gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end))))
end

---What is found goes into tables. All meet behind it: a worker that died has perhaps not written its rows.
local function store(self, part, last)
  local ok, err
  repeat
    ok, err = pcall(part.store, part, self, last)
    if not ok and err ~= LOST then error(err, 0) end
  until not self:enter() and ok
end

---@return boolean whether it was the last: by the part, or since the run stops; then its tables have what it came to
local function report(self, part)
  local due <const>, w <const> = part.due, self.w
  local stores <const> = part.store ~= nil
  if stores and (due.last or w.keeps) then store(self, part, due.last or false) end
  part.due = nil
  local fields = {alike = due.alike}
  for k, v in pairs(due.fields or {}) do fields[k] = v end
  fields.alike.sums, self.sums = self.sums, 0
  local keeps <const> = w.keeps and part.kept
  if keeps then w.state.kept = packed(part:kept()) end
  w:report(fields)
  local stops <const> = w:stopping()
  if stores and w.stop_asked and not (due.last or w.keeps) then store(self, part, false) end
  if keeps then
    w:clock()
    if part.refresh then part:refresh() end
  end
  return due.last or stops
end

---Works until the last report is made or the run stops.
---@param part tide.team.part
function team:play(part)
  if self.w.state.kept and part.fetch then part:fetch(unpacked(self.w.state.kept)) end
  while true do
    self:enter()
    local ok, err = true, nil
    if self.changed then
      ok, err = xpcall(function()
        agree(self, part)
        part:divide()
      end, function(e) return e == LOST and e or script.failure(e) end)
      self.changed = not ok
      if ok then self.others = false end
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
