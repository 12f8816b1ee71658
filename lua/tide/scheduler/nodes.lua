-- Nodes with worker slots as scheduling sees them: which are up, on which machine. A node that has gone is forgotten;
-- one of the same name that comes later is another one.
local core = require "tide.core"

local nodes = {}
nodes.__index = nodes

local CALL_S <const> = 5

function nodes.new() return setmetatable({ids = {}, names = {}, machines = {}, asked = {}}, nodes) end

-- Which machine a node is on; until its agent has said so, a machine of its own.
local function ask_machine(self, member)
  if self.asked[member.id] then return end
  self.asked[member.id] = true
  core.fiber(function()
    local agent <const> = core.whereis(member.name .. "/agent")
    local answer <const> = agent and core.call(agent, {op = "jobs"}, CALL_S)
    local id <const> = answer and answer.machine and answer.machine.id
    if id and id ~= "" then
      self.machines[member.id] = id
    elseif not answer then
      self.asked[member.id] = nil -- again, later
    end
  end)
end

---Takes in the members.
---@return {name: "join"|"leave", id: integer}[] what has changed
function nodes:look()
  local events, ids, names = {}, {}, {}
  for _, member in ipairs(core.members()) do
    local workers <const> = member.workers or 0
    if workers > 0 and (member.state == "up" or member.state == "leaving") then
      local state <const> = member.state == "up" and "up" or "draining"
      ids[member.id] = {id = member.id, name = member.name, slots = workers, state = state,
                        machine = self.machines[member.id] or "node " .. member.id}
      names[member.name] = ids[member.id]
      local before <const> = self.ids[member.id]
      if not before then events[#events + 1] = {name = "join", id = member.id} end
      if before and before.state ~= state then events[#events + 1] = {name = "leave", id = member.id} end
      ask_machine(self, member)
    end
  end
  for id in pairs(self.ids) do
    if not ids[id] then events[#events + 1] = {name = "leave", id = id} end
  end
  table.sort(events, function(a, b) return a.id < b.id end)
  self.ids, self.names = ids, names
  return events
end

---@return table[] {id, name, slots, state, machine}, by id
function nodes:list()
  local list = {}
  for _, node in pairs(self.ids) do list[#list + 1] = node end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

---@param id integer
function nodes:of_id(id) return self.ids[id] end

---@param name string
---@return table|nil the node of that name, up or draining
function nodes:named(name) return self.names[name] end

return nodes
