-- Pools of nodes against a launcher that fails as launchers do, by seed: starts that end at once, nodes that come late
-- or never, members that are lost, wishes that change. And mistakes planted in the pool: each is found.
package.path = "tests/lua/?.lua;" .. package.path
require "support"
local core = require "tide.core"

local SEEDS <const> = math.tointeger(tonumber(os.getenv "TIDE_PROVISION_SEEDS") or 150)
local FAULTS_S <const>, CALM_S <const>, STEP_S <const> = 100, 170, 0.5

local kind = {name = "local", poll_s = 1}
local world

local function forget_nothing() end

core.simulated = function() return false end
core.sleep = core.sleep or forget_nothing
package.preload["tide.provision.local"] = function() return kind end
package.loaded["tide.provision"], package.loaded["tide.provision.local"] = nil, nil
local provision = require "tide.provision"

function kind.check() return true end
function kind.id_text(id) return ("%d"):format(id) end

local function random() -- of the world's seed
  world.seed = (world.seed * 48271) % 2147483647
  return world.seed / 2147483647
end

function kind.start(_, names)
  assert(#names <= 8, "more than eight at a time")
  local ids = {}
  for i, name in ipairs(names) do
    assert(not world.processes[name], "a name twice: " .. name)
    if world.faults and world.started > 0 and random() < 0.1 then return ids, {message = "the command failed"} end
    local fate <const>, now = random(), world.time
    local p = {name = name, alive = true, asked_at = now, joins_at = now + 0.2 + random() * 3}
    if world.faults and fate < 0.15 then p.joins_at, p.ends_at = nil, now + random() * 5
    elseif world.faults and fate < 0.25 then p.joins_at = nil -- it hangs
    elseif world.faults and fate < 0.45 then p.lost_at = p.joins_at + random() * 40
    elseif world.faults and fate < 0.5 then p.joins_at = now + 50 + random() * 30 end
    world.processes[name], ids[name], world.started = p, i, world.started + 1
  end
  return ids
end

function kind.list(_, tickets)
  local seen = {}
  for name in pairs(tickets) do
    local p <const> = world.processes[name]
    seen[name] = p and (p.alive and {state = "starting"} or {state = "gone", reason = "it ended"}) or nil
  end
  return seen
end

function kind.stop(_, tickets)
  for _, ticket in ipairs(tickets) do
    local p <const> = world.processes[ticket.name]
    world.told = world.told + 1
    p.leaves_at = world.time + random() * 10
    if not p.member then p.alive = false end
  end
end

function kind.kill(_, tickets)
  for _, ticket in ipairs(tickets) do
    local p <const> = world.processes[ticket.name]
    local waited <const> = world.time - p.asked_at
    assert(p.leaves_at or waited >= 60, ("%s is ended after %g s, before it could join"):format(p.name, waited))
    p.alive = false
    if p.member == "up" or p.member == "leaving" then p.member, world.lost = "dead", world.lost + 1 end
  end
end

core.now = function() return world.time end
core.members = function()
  local list = {}
  for name, p in pairs(world.processes) do
    if p.member then list[#list + 1] = {name = name, state = p.member, reason = ""} end
  end
  return list
end

local function move_on()
  world.time = world.time + STEP_S
  for _, p in pairs(world.processes) do
    if p.alive and p.ends_at and world.time >= p.ends_at then p.alive, world.failed = false, world.failed + 1 end
    if p.alive and p.joins_at and not p.member and world.time >= p.joins_at then p.member = "up" end
    if p.alive and p.member and p.lost_at and world.time >= p.lost_at and not p.leaves_at then
      p.alive, p.member, world.lost = false, "dead", world.lost + 1
    end
    if p.alive and p.leaves_at then
      p.member = world.time >= p.leaves_at and "left" or "leaving"
      p.alive = p.member == "leaving"
    end
  end
end

local WISHES <const> = {3, 6, 2, 9, 4}

-- A life of a pool; raises what is wrong with it. plant(pool): a mistake.
local function live(seed, plant)
  world = {seed = seed * 7919 + 1, time = 0, processes = {}, started = 0, told = 0, lost = 0, failed = 0, faults = true}
  local ends, raised, lowered, wanted = {}, 0, 0, 0
  local pool <const> = assert(provision.new {kind = "local", cluster = "c", endpoint = "e", directory = "d", max = 12,
    event = function(event)
      assert(not ends[event.name], "news of a node after its end: " .. event.name)
      if event.state == "gone" then ends[event.name] = true end
    end})
  if plant then plant(pool) end
  local function wish(count)
    raised, lowered = raised + math.max(count - wanted, 0), lowered + math.max(wanted - count, 0)
    wanted = count
    assert(pool:want(count))
  end
  for i, count in ipairs(WISHES) do
    wish(count)
    local until_s <const> = i == #WISHES and FAULTS_S + CALM_S or i * FAULTS_S / #WISHES
    while world.time < until_s do
      world.faults = world.time < FAULTS_S
      move_on()
      pool:step()
    end
  end
  local up, running = 0, 0
  for name, p in pairs(world.processes) do
    if p.member == "up" and p.alive then up = up + 1 end
    if p.alive then
      running = running + 1
      assert(pool.tickets[name], "a process that no ticket knows: " .. name)
    elseif pool.tickets[name] then
      error("a ticket of a process that has gone: " .. name)
    end
  end
  if pool.stopped then return "stopped" end
  assert(up == wanted and running == wanted, ("%d are up and %d run, %d are wanted"):format(up, running, wanted))
  assert(world.told <= lowered, ("%d were told to leave, %d were too many"):format(world.told, lowered))
  -- Nobody is replaced who is not gone.
  local gone = 0
  for _ in pairs(ends) do gone = gone + 1 end
  assert(world.started <= raised + gone, ("%d starts, %d wished for, %d went"):format(world.started, raised, gone))
  assert(gone + wanted >= world.started, "tickets are lost")
  return "whole"
end

local function found(plant)
  for seed = 1, 40 do
    if not pcall(live, seed, plant) then return true end
  end
  return false
end

describe("a pool of nodes", function()
  it("has as many as are wanted once the launcher works again, and replaces only what is gone", function()
    local whole = 0
    for seed = 1, SEEDS do
      local ok, outcome = pcall(live, seed)
      assert(ok, ("seed %d: %s"):format(seed, tostring(outcome)))
      whole = whole + (outcome == "whole" and 1 or 0)
    end
    assert.is_true(whole > SEEDS * 0.7, ("%d of %d pools did not give up"):format(whole, SEEDS))
  end)

  it("is held by checks that find planted mistakes", function()
    local class <const> = getmetatable(provision.new {kind = "local", cluster = "c", endpoint = "e", directory = "d"})
      .__index
    local plants <const> = {
      ["the launcher's word for joined"] = function(pool)
        function pool.observe(self, seen)
          class.observe(self, seen)
          for _, ticket in ipairs(self:list()) do ticket.joined, ticket.state = true, "joined" end
        end
      end,
      ["a lost node that stays"] = function(pool)
        function pool.finish(self, ticket, reason)
          if not ticket.joined then class.finish(self, ticket, reason) end
        end
      end,
      ["names used again"] = function(pool)
        function pool.start_missing(self)
          self.number = self.number - (random() < 0.3 and 1 or 0)
          class.start_missing(self)
        end
      end,
      ["all replaced for one"] = function(pool)
        function pool.finish(self, ticket, reason)
          class.finish(self, ticket, reason)
          for _, other in ipairs(self:list()) do
            if other.joined and not other.leaving then self:let_leave {other} end
          end
        end
      end,
      ["a node that hangs and is not ended"] = function(pool)
        pool.kind = setmetatable({kill = forget_nothing}, {__index = kind})
      end,
      ["two ends"] = function(pool)
        function pool.finish(self, ticket, reason)
          class.finish(self, ticket, reason)
          self:tell(ticket, "gone", reason)
        end
      end,
      ["one too many"] = function(pool)
        function pool.count(self, state) return class.count(self, state) - (state and 0 or 1) end
      end,
    }
    for name, plant in pairs(plants) do assert(found(plant), "not found: " .. name) end
  end)
end)
