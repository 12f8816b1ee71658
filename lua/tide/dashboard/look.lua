-- What a dashboard asks of its cluster, a second after a second: a snapshot, and the events since the last time.
local ask_all = require "tide.ask_all"
local client = require "tide.cluster.client"
local collect = require "tide.cluster.collect"
local core = require "tide.core"
local node_status = require "tide.cluster.node_status"

local look = {}

local ANSWER_S <const> = 1

-- The newest events of all nodes at once; of a node that does not answer in a second there are none this time.
local function events_of(after)
  local addresses, names, list = {}, {}, {}
  for _, member in ipairs(core.members()) do
    local address <const> = node_status.address(member, "events")
    if address then addresses[#addresses + 1], names[#names + 1] = address, member.name end
  end
  local answers <const> = ask_all(addresses, function(address, i, timeout_s)
    return core.call(address, {op = "events", after = after[names[i]]}, timeout_s)
  end, {timeout_s = ANSWER_S})
  for i, name in ipairs(names) do
    if answers[i] then list[#list + 1] = {node = name, events = answers[i].events} end
  end
  table.sort(list, function(a, b) return a.node < b.node end)
  return list
end

---In the client's actor: {after = {[node] = number of its last event known}, hot = hottest keys too}.
---@param request table
---@return {snapshot: tide.snapshot, events: table[]}
function look.inside(request)
  return {snapshot = collect.here {hot = request.hot}, events = events_of(request.after or {})}
end

---The same for an attached client that is no actor.
---@param request {after?: table<string, integer>, hot?: boolean}
---@return {snapshot: tide.snapshot, events: table[]}|nil
---@return tide.error? err
function look.ask(request)
  return client.look("tide.dashboard.look.inside", request, 0)
end

return look
