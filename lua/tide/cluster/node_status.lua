-- What every actor that stands for a node reports about its process: the agent of a node, and the control
-- actor of a controller that is a process of its own and has no agent.
local core = require "tide.core"
local measure = require "tide.cluster.measure"
local pieces = require "tide.pieces"

local node_status = {ops = {}}
local ops <const> = node_status.ops

---Counters of this node; runs subtract what they were at their start.
function ops.status()
  local tables = {}
  for _, stats in ipairs(core.tables() or {}) do tables[stats.name] = stats end
  return {node = core.node(), tables = tables, links = core.links(), actors = core.actors(), rss_bytes = core.rss(),
          queue = core.queue(), memory = core.memory(), slow = core.slow(), now = core.now()}
end

---All that metrics are made of: {data = encoded figures of this node}.
function ops.metrics()
  return {data = pieces.of(core.encode(measure.node()))}
end

---What happened, as this node saw it: {after=number}.
function ops.events(request) return {events = core.events(request.after)} end

---The newest lines of this process's log.
function ops.log() return {lines = core.logged()} end

---The actor to ask for this of a member that is up; a driver has none.
---@param member table of core.members()
---@param op string
---@return string|nil address
---@return boolean agent whether it is the agent, which knows more than this
function node_status.address(member, op)
  if member.state ~= "up" then return nil, false end
  local agent <const> = core.whereis(member.name .. "/agent")
  if agent then return agent, true end
  return ops[op] and core.whereis(member.name .. "/control") or nil, false
end

return node_status
