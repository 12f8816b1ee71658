-- Under `tide sim` in place of every kind: a launcher whose queue, start-up time and failures are drawn by the seed of
-- the world, and whose nodes are simulated ones. `simulate = {queue_s=, start_s=, fails=, dies=}` of the pool's options
-- gives the longest wait in the queue, the longest start, and the shares of nodes that never come and that die at work.
local children = require "tide.provision.children"
local core = require "tide.core"

local kind = {name = "sim", poll_s = 0.5}

local DEFAULTS <const> = {queue_s = 0, start_s = 0.5, fails = 0, dies = 0}
local LIVES_S <const> = 20 -- at most, of a node that dies

function kind.check(o)
  local simulate = {}
  for name, default in pairs(DEFAULTS) do simulate[name] = o.simulate and o.simulate[name] or default end
  o.simulate, o.random = simulate, core.random(core.sim_report().seed)
  return true
end

function kind.command(_, name) return {"simulated", name} end

---@return table<string, any> ids by name
function kind.start(o, names)
  local ids <const>, s <const> = {}, o.simulate
  for _, name in ipairs(names) do
    local runs_at <const> = core.now() + o.random:uniform() * s.queue_s
    ids[name] = {runs_at = runs_at, starts_at = runs_at + o.random:uniform() * s.start_s,
                 fails = o.random:uniform() < s.fails,
                 dies_at = o.random:uniform() < s.dies and runs_at + s.start_s + o.random:uniform() * LIVES_S or nil}
  end
  return ids
end

-- The signal of a launcher: a node that has not joined yet hears it when it has.
local function tell_to_leave(name, id)
  local agent <const> = not id.told and core.whereis(name .. "/agent")
  if not agent then return end
  id.told = true
  core.send(agent, {op = "quit", leave = true, grace_s = 25})
end

function kind.list(o, tickets)
  local seen <const>, now <const> = {}, core.now()
  for name, ticket in pairs(tickets) do
    local id <const> = ticket.id
    if id.process and id.dies_at and now >= id.dies_at and not id.process:ended() then id.process:signal(9) end
    if id.stopped and not id.process then
      seen[name] = {state = "gone", reason = "cancelled"}
    elseif now < id.runs_at then
      seen[name] = {state = "queued", reason = "others run"}
    elseif id.fails and now >= id.starts_at then
      seen[name] = {state = "gone", reason = "its command failed"}
    else
      if now >= id.starts_at and not id.process then
        id.process = children.start {name = name, cluster = o.cluster, endpoint = o.endpoint,
          workers = o.workers or 1, no_store = o.no_store}.process
      end
      if id.stopped then tell_to_leave(name, id) end
      local ended <const> = id.process and id.process:ended()
      seen[name] = ended and {state = "gone", reason = ended.reason or "it ended"} or {state = "starting"}
    end
  end
  return seen
end

function kind.stop(_, tickets)
  for _, ticket in ipairs(tickets) do
    ticket.id.stopped = true
    tell_to_leave(ticket.name, ticket.id)
  end
end

function kind.kill(_, tickets)
  for _, ticket in ipairs(tickets) do
    ticket.id.stopped = true
    if ticket.id.process then ticket.id.process:signal(9) end
  end
end

function kind.id_text() return "simulated" end

return kind
