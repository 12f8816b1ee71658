-- From what runs hold to what they are to hold: shrinks first, then grows; never two changes of a run at once.
--
-- A run's controller is asked with `verb.grant {order, nodes}`: the slots that it is to have, all of them; a newer
-- order wins. It answers at once, and reports what its workers hold again and again. What it holds less than its grant
-- is free; what it is given more is recorded before it is notified. So a slot has one owner at any time, whichever
-- process dies: an order that was lost is sent again, and one that came twice changes nothing.
local core = require "tide.core"
local keeper = require "tide.keeper"

local settle = {}

---The target of a run is another one.
function settle.changed(r) r._since, r._asked_less, r._retry_at, r._forced_at = core.now(), nil, nil, nil end

---Free slots by name of node.
local function free_by_node(self)
  local free = {}
  for _, node in ipairs(self.nodes:list()) do
    if node.state == "up" then free[node.name] = node.slots end
  end
  for _, r in ipairs(self.keeper.ordered()) do
    if not r.private and not keeper.ENDED[r.state] then
      for name, n in pairs(r.grant or {}) do
        if free[name] then free[name] = free[name] - n end
      end
    end
  end
  return free
end

-- What a run holds more than it is to, what it is to hold of that, and what it lacks.
local function difference(r)
  local grant <const>, target <const> = r.grant or {}, r.target
  local less, keep, more = {}, {}, {}
  for name, n in pairs(grant) do
    local stays <const> = math.min(n, target[name] or 0)
    if stays < n then less[name] = n - stays end
    if stays > 0 then keep[name] = stays end
  end
  for name, n in pairs(target) do
    if n > (grant[name] or 0) then more[name] = n - (grant[name] or 0) end
  end
  return less, keep, more
end

local function fits(more, free)
  for name, n in pairs(more) do
    if (free[name] or 0) < n then return false end
  end
  return next(more) ~= nil
end

-- An order to the controller of a run; meanwhile it gets no other one.
local function send(self, r, nodes, force)
  r._calling = true
  r.order = (r.order or 0) + 1
  local order <const> = r.order
  core.fiber(function()
    local ok <const> = self.keeper.save(r)
    local answer
    if ok and r._controller then
      answer = core.call(r._controller, {op = "verb.grant", order = order, nodes = nodes, force = force,
        why = self:policy()})
    end
    r._calling = nil
    if answer and not answer.refused then return end
    r._retry_at, r._asked_less = core.now() + core.limit "scheduler_retry", nil
    if answer and answer.bound then -- it cannot: what it has it keeps
      r.bound = tostring(answer.refused)
      r.target = {}
      for name, n in pairs(r.grant or {}) do r.target[name] = n end
      core.event("run", ("%s keeps its slots: %s"):format(r.name, r.bound))
      if self.host then self.host:event("fit", r.n) end
    end
  end)
end

-- Fewer slots; behind the deadline workers that have not left are ended.
local function shrink(self, r, keep)
  local patience <const> = core.limit "scheduler_patience"
  local late <const> = core.now() - (r._since or core.now()) > patience
  local force <const> = late and (not r._forced_at or core.now() - r._forced_at > patience)
  if r._asked_less and not force then return end
  if force then
    r._forced_at = core.now()
    core.event("run", ("%s has not left its slots for %.0f s: their workers are ended"):format(r.name, patience))
  end
  r._asked_less, r._leaves = true, true
  send(self, r, keep, force)
end

local function grow(self, r, more, free)
  r.grant = r.grant or {}
  for name, n in pairs(more) do
    r.grant[name], free[name] = (r.grant[name] or 0) + n, free[name] - n
  end
  r.epoch = r.epoch + 1
  local nodes = {}
  for name, n in pairs(r.grant) do nodes[name] = n end
  send(self, r, nodes)
end

-- Of an active run.
local function settle_run(self, r, free)
  if not r._controller or r._calling or (r._retry_at and core.now() < r._retry_at) then return end
  if r.state ~= "running" and not (r.state == "suspended" and r.parked) then return end
  local less <const>, keep <const>, more <const> = difference(r)
  local moves <const> = next(less) and not next(keep) and next(more)
  if next(less) and not (moves and fits(more, free)) then return shrink(self, r, keep) end
  if fits(more, free) then return grow(self, r, more, free) end
  if r._leaves and not next(more) then -- workers that were asked to leave may stay after all
    r._leaves = nil
    send(self, r, keep)
  end
end

-- With how many slots a run that waits may start.
local function least_of(r)
  if r.limits then return r.limits.min or 1 end
  return r.slots or 1
end

---Brings everything a step nearer to the targets.
function settle.step(self)
  local free <const> = free_by_node(self)
  for _, r in ipairs(self.keeper.ordered()) do
    if r.target and self:is_subject(r) then
      if not self.keeper.waiting[r.n] then
        settle_run(self, r, free)
      elseif next(r.target) and keeper.slots(r.target) < least_of(r) then -- a node of it is lost
        r.target = {}
      elseif fits(r.target, free) and keeper.slots(r.grant) == 0 then
        local target = {}
        for name, n in pairs(r.target) do target[name], free[name] = n, free[name] - n end
        r.order = (r.order or 0) + 1
        r.parked = r.state == "suspended" or nil
        self.keeper.start(r, target)
      end
    end
  end
end

---What a run's controller says that its workers hold. It counts when it is of the newest order.
function settle.held(self, r, request)
  local newest <const> = request.order == (r.order or 0) and not r._calling
  if newest or request.state ~= "suspended" then r.parked = request.parked end
  if r.parked then
    r.target = r.target or {}
  elseif r.state == "suspended" and newest and not self.keeper.waiting[r.n] then
    r.target = nil
  end
  local held <const> = request.held
  if type(held) ~= "table" or request.order ~= (r.order or 0) or not r.grant then return end
  local changed = false
  for name, n in pairs(r.grant) do
    local has <const> = math.type(held[name]) == "integer" and math.max(held[name], 0) or 0
    if has < n then
      r.grant[name], changed = has > 0 and has or nil, true
    end
  end
  if not changed then return end
  r.epoch, r._asked_less, r._leaves = r.epoch + 1, nil, nil
  if not next(r.grant) then r.grant = nil end
  core.fiber(self.keeper.save, r)
end

---Slots of nodes that are gone are free; a node that drains is to be left.
function settle.lost_nodes(self)
  for _, r in ipairs(self.keeper.ordered()) do
    if not r.private and not keeper.ENDED[r.state] then
      local changed = false
      for _, places in ipairs {r.grant or {}, r.target or {}} do
        for name in pairs(places) do
          local node <const> = self.nodes:named(name)
          if not node or node.state == "draining" and places == r.target and not r.bound then
            places[name], changed = nil, true
          end
        end
      end
      if changed then
        settle.changed(r)
        core.fiber(self.keeper.save, r)
      end
    end
  end
end

return settle
