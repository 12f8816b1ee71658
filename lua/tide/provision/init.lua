-- Pools of nodes that a provisioner starts and stops: so many are wanted; what is missing is asked for, what is gone is
-- replaced, that node alone. Kinds (local, slurm, ssh, none) say how, by the same few functions:
--
--   check(o)            are options, programs and the site as they must be: once, before anything starts
--   command(o, name)    the argument list of one node; pure
--   start(o, names)     asks for nodes, returns ids by name at once
--   list(o, tickets)    the launcher's state: {[name] = {state, reason, eta}}; nil: no change
--   room(o)             how many may be asked for now; optional
--   stop(o, tickets)    lets nodes leave in order; kill(o, tickets) does not
--   others(o)           {id, name, launcher} of nodes that other launchers have started; optional
--   adopted(other)      the id of one of those as a ticket has it
--   close(o)            the last word of a pool: ends what of it no ticket knows; optional
--
-- Nodes belong to the launcher that started them (`o.launcher`), which ends no others. Those of a launcher that has
-- ended are taken over where that is asked for.
--
-- A ticket is a node's name, never used twice. Its states: asked, queued, starting, joined, draining, gone. `joined`
-- comes from membership alone, and each ticket ends in exactly one `gone`, with a reason.
local children = require "tide.provision.children"
local core = require "tide.core"
local directory = require "tide.directory"
local errors = require "tide.errors"

local provision = {}
local pool_methods = {}
pool_methods.__index = pool_methods

provision.KINDS = {"local", "slurm", "ssh", "none"}

local JOIN_S <const> = 60         -- from running to being a member
local STUCK_S <const> = 120       -- in a queue
local STALLED_S <const> = 2       -- between two looks
local AT_A_TIME <const> = 8
local BACKOFF_S <const>, BACKOFF_MAX_S <const> = 1, 60
local LEAVE_S <const>, LATE_S <const> = 25, 10 -- grace of a node that leaves, and how much later it is ended
local FAILURES <const>, FAILURES_S <const> = 5, 600

---@param name string
---@return table|nil kind, table? err
function provision.kind(name)
  for _, known in ipairs(provision.KINDS) do
    if known == name then return require("tide.provision." .. (core.simulated() and "sim" or name)) end
  end
  return nil, errors.new("T0105", {message = ("`%s` starts no nodes"):format(tostring(name)),
    help = "one of " .. table.concat(provision.KINDS, ", ")})
end

---@class tide.provision.options
---@field kind string
---@field cluster string
---@field endpoint string that the nodes join
---@field directory string for logs and job files
---@field prefix? string of names; default: the kind's
---@field workers? integer of each node
---@field keys? string directory of keys, as the nodes see it
---@field launcher? string whose nodes they are; default: this process
---@field adopt? boolean take over the nodes of launchers that have ended
---@field min? integer
---@field max? integer
---@field event? fun(event: table) called for every change: {name, state, reason, ...}

---@param o tide.provision.options
---@return table|nil pool, table? err
function provision.new(o)
  local kind <const>, err = provision.kind(o.kind)
  if not kind then return nil, err end
  if kind.others then o.launcher = o.launcher or directory.process_mark() end
  local ok, problem = kind.check(o)
  if not ok then return nil, problem end
  local self <const> = setmetatable({
    o = o, kind = kind, tickets = {}, wanted = 0, number = 0, polled_at = -math.huge, started_at = -math.huge,
    failures = {}, backoff_s = BACKOFF_S, not_before = 0, prefix = o.prefix or o.kind,
  }, pool_methods)
  for _, other in ipairs(kind.others and kind.others(o) or {}) do
    self:note_name(other.name)
    if not directory.runs_process(other.launcher) then
      if o.adopt then self:adopt(other) else self.left = (self.left or 0) + 1 end
    end
  end
  return self
end

function pool_methods:adopt(other)
  local ticket <const> = {name = other.name, id = self.kind.adopted(other), state = "asked", since = core.now()}
  self.tickets[other.name] = ticket
  self.wanted = self.wanted + 1
  self:tell(ticket, "adopted")
end

-- Names of this pool rise: none is used twice.
function pool_methods:note_name(name)
  local number <const> = name:sub(1, #self.prefix + 1) == self.prefix .. "-"
    and math.tointeger(tonumber(name:sub(#self.prefix + 2)))
  if number then self.number = math.max(self.number, number) end
end

function pool_methods:tell(ticket, state, reason)
  if self.o.event then
    self.o.event {name = ticket.name, state = state, reason = reason, eta = ticket.eta, leaving = ticket.leaving,
                  id = ticket.id and self.kind.id_text(ticket.id)}
  end
end

function pool_methods:enter(ticket, state, reason)
  if ticket.state == state or ticket.state == "gone" then return end
  ticket.state, ticket.since, ticket.reason = state, core.now(), reason
  self:tell(ticket, state, reason)
end

---How many nodes there are to be.
---@param count integer
---@return true|nil, table? err
function pool_methods:want(count)
  local min <const>, max = self.o.min or 0, self.o.max or math.huge
  if count < min or count > max then
    return nil, errors.new("T0104", {message = ("%d nodes requested of a pool of %d to %s"):format(count, min,
      max == math.huge and "any number" or tostring(max))})
  end
  self.wanted = count
  return true
end

---@return table[] tickets that are not gone, oldest first
function pool_methods:list()
  local list = {}
  for _, ticket in pairs(self.tickets) do
    if ticket.state ~= "gone" then list[#list + 1] = ticket end
  end
  table.sort(list, function(a, b) return #a.name < #b.name or #a.name == #b.name and a.name < b.name end)
  return list
end

---@param state? string
---@return integer how many there are that are not to leave, or are in a state
function pool_methods:count(state)
  local count = 0
  for _, ticket in pairs(self.tickets) do
    if state and ticket.state == state or not state and not ticket.leaving then count = count + 1 end
  end
  return count
end

function pool_methods:let_leave(tickets)
  for _, ticket in ipairs(tickets) do
    ticket.leaving, ticket.ends_at = true, core.now() + (self.o.grace_s or LEAVE_S) + LATE_S
  end
  self.kind.stop(self.o, tickets)
end

---One node fewer, this one.
---@param name string
---@return boolean whether it is of this pool, and was not leaving
function pool_methods:release(name)
  local ticket <const> = self.tickets[name]
  if not ticket or ticket.leaving then return false end
  self.wanted = math.max(self.wanted - 1, self.o.min or 0)
  self:let_leave {ticket}
  return true
end

-- A ticket's end. An unrequested one counts as a failure, if it never joined.
function pool_methods:finish(ticket, reason)
  if ticket.state == "gone" then return end
  local expected <const> = ticket.leaving
  if not ticket.joined and not expected and self.kind.log then -- its own last words say why
    local last <const> = children.last_lines(self.kind.log(self.o, ticket.name), 2)
    if last ~= "" and not reason:find(last, 1, true) then reason = ("%s; %s"):format(reason, last:gsub("\n", "; ")) end
  end
  self:enter(ticket, "gone", reason)
  self.tickets[ticket.name] = nil
  if expected or ticket.joined then
    if ticket.joined then self.backoff_s, self.failures = BACKOFF_S, {} end
    return
  end
  local now <const> = core.now()
  self.failures[#self.failures + 1] = now
  while self.failures[1] and now - self.failures[1] > FAILURES_S do table.remove(self.failures, 1) end
  self.not_before, self.backoff_s = now + self.backoff_s, math.min(self.backoff_s * 2, BACKOFF_MAX_S)
  if #self.failures >= FAILURES then
    self.stopped = errors.new("T1005", {message = ("%d nodes in a row have not come; the last one: %s"):format(
      #self.failures, tostring(reason)), where = self.kind.log and self.kind.log(self.o, ticket.name) or nil})
  end
end

local function members_by_name()
  local up <const>, last = {}, {}
  for _, member in ipairs(core.members()) do
    if member.state == "up" or member.state == "leaving" then up[member.name] = member end
    last[member.name] = member
  end
  return up, last
end

-- Brings tickets to what membership and the launcher say.
function pool_methods:observe(seen)
  local up <const>, last = members_by_name()
  for _, ticket in ipairs(self:list()) do
    local member <const>, outside = up[ticket.name], seen and seen[ticket.name]
    if ticket.ends_at and core.now() > ticket.ends_at then -- it was asked to leave, and has not
      ticket.ends_at = math.huge
      self.kind.kill(self.o, {ticket})
    end
    if member then
      ticket.joined = true
      self:enter(ticket, member.state == "leaving" and "draining" or "joined")
    elseif ticket.joined then -- a member no more
      local how <const> = last[ticket.name]
      if not ticket.leaving and not (outside and outside.state == "gone") then self.kind.kill(self.o, {ticket}) end
      self:finish(ticket, how and how.reason ~= "" and how.reason or how and how.state or "it left")
    elseif outside and outside.state == "gone" then
      self:finish(ticket, outside.reason)
    elseif outside then
      ticket.eta = outside.eta
      self:enter(ticket, outside.state, outside.reason)
      local waits_s <const> = core.now() - ticket.since
      if ticket.state == "starting" and waits_s > JOIN_S and not self.kind.patient then
        self.kind.kill(self.o, {ticket})
        self:finish(ticket, ("it runs, and has not joined after %d s: see its log"):format(JOIN_S))
      elseif ticket.state == "queued" and waits_s > STUCK_S and not ticket.stuck then
        ticket.stuck = true
        self:tell(ticket, "stuck", outside.reason)
      end
    end
  end
end

function pool_methods:start_missing()
  local missing = math.min(self.wanted - self:count(), AT_A_TIME)
  if missing > 0 and self.kind.room then missing = math.min(missing, self.kind.room(self.o)) end
  if missing <= 0 or self.stopped or core.now() < self.not_before then return end
  for _, member in ipairs(core.members()) do self:note_name(member.name) end -- other launchers start nodes too
  local names = {}
  for i = 1, missing do
    self.number = self.number + 1
    names[i] = ("%s-%d"):format(self.prefix, self.number)
  end
  local ids <const>, err = self.kind.start(self.o, names)
  for _, name in ipairs(names) do
    local ticket <const> = {name = name, id = ids[name], state = "new", since = core.now()}
    self.tickets[name] = ticket
    if ids[name] then
      self.has_asked = true
      self:enter(ticket, "asked")
    else
      self:finish(ticket, err and err.message or "not started")
      if err and (err.final or not self.has_asked) then self.stopped = err end -- the very first: it will not heal
      break -- what comes behind it was not tried
    end
  end
  self.started_at = core.now()
end

function pool_methods:stop_surplus()
  local there <const>, alive = self:list(), {}
  for _, ticket in ipairs(there) do
    if not ticket.leaving then alive[#alive + 1] = ticket end
  end
  local surplus = {}
  for i = #alive, self.wanted + 1, -1 do
    surplus[#surplus + 1] = alive[i]
  end
  if surplus[1] then self:let_leave(surplus) end
end

-- This process stalled for so long: its nodes have not been late meanwhile.
function pool_methods:excuse(seconds)
  if seconds < STALLED_S then return end
  for _, ticket in pairs(self.tickets) do
    ticket.since = ticket.since + seconds
    ticket.ends_at = ticket.ends_at and ticket.ends_at + seconds
  end
end

---Looks and acts; call it often.
---@return true|nil, table? err the pool has stopped: it requests no more nodes, and keeps those that it has
function pool_methods:step()
  local now <const> = core.now()
  self:excuse(now - (self.stepped_at or now))
  self.stepped_at = now
  local poll_s <const> = now - self.started_at < 10 and self.kind.poll_s / 5 or self.kind.poll_s
  local seen
  if now - self.polled_at >= poll_s and next(self.tickets) then
    self.polled_at = now
    seen = self.kind.list(self.o, self.tickets)
  end
  self:observe(seen)
  self:stop_surplus()
  self:start_missing()
  if self.stopped then return nil, self.stopped end
  return true
end

---Lets all leave, and waits; what is left after `seconds` is ended.
---@param seconds number
function pool_methods:close(seconds)
  self.wanted = 0
  local deadline <const> = core.now() + seconds
  self:stop_surplus()
  while self:list()[1] and core.now() < deadline do
    self:observe(self.kind.list(self.o, self.tickets))
    core.sleep(0.1)
  end
  local left <const> = self:list()
  if left[1] then self.kind.kill(self.o, left) end
  if self.kind.close then self.kind.close(self.o) end
end

return provision
