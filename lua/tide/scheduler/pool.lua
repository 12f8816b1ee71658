-- Nodes of a scheduled cluster that its policy adds and removes (plan.nodes), by the contract of provisioners
-- (tide.provision). Nodes that were there before stay.
local checks = require "tide.checks"
local commands = require "tide.provision.commands"
local core = require "tide.core"
local directory = require "tide.directory"
local errors = require "tide.errors"
local provision = require "tide.provision"

local pool = {}
pool.__index = pool

local NODES_MOST <const> = 256
---@type tide.declared[]
local ROWS <const> = {
  {name = "min", type = "integer", min = 1, max = NODES_MOST,
   doc = "nodes with workers that there are at least, those that stay included; as many as those"},
  {name = "max", type = "integer", min = 1, max = NODES_MOST, required = true, doc = "the most nodes"},
  {name = "kind", type = "string", default = "local", doc = "of tide.provision: local, slurm"},
  {name = "workers", type = "integer", min = 1, max = NODES_MOST, default = 1, doc = "of each node that comes"},
  {name = "price", type = "number", above = 0, doc = "of a node and second, for `price_per_s_max`"},
}
local WHO <const> = "nodes of a scheduling policy"

---@param given any
---@return table|nil options with defaults, table? err
function pool.check(given)
  local o, err = checks.read(WHO, ROWS, given)
  if o and o.min and o.min > o.max then
    o, err = nil, errors.new("T0113", {message = ("%s: `min` = %d is above `max` = %d"):format(WHO, o.min, o.max)})
  end
  if err then err.state = "nothing was started" end
  return o, err
end

---@param given table
---@param nodes table of scheduler.nodes
---@return table|nil, table? err
function pool.new(given, nodes)
  local o <const>, wrong = pool.check(given)
  if not o then return nil, wrong end
  if core.simulated() then
    return nil, errors.new("T0117", {message = "nodes come and go in real clusters only: `tide sim` starts none",
      help = "`tide sim jobs --max-nodes N` simulates it"})
  end
  local node <const> = core.node()
  local ok, err = directory.make(node.cluster)
  if not ok then return nil, err end
  local made
  made, err = provision.new {
    kind = o.kind, cluster = node.cluster, endpoint = node.endpoint, directory = directory.of(node.cluster),
    prefix = "auto", workers = o.workers, program = commands.program(), no_store = true,
    min = 0, max = o.max,
    event = function(event)
      core.event("node", ("%s: %s%s"):format(event.name, event.state, event.reason and ", " .. event.reason or ""))
    end,
  }
  if not made then return nil, err end
  return setmetatable({o = o, nodes = nodes, pool = made}, pool)
end

-- Nodes that are not of this pool.
local function others(self)
  local count, slots = 0, 0
  for _, node in ipairs(self.nodes:list()) do
    if not self.pool.tickets[node.name] then count, slots = count + 1, slots + node.slots end
  end
  return count, slots
end

---@return integer
function pool:most_slots()
  local count <const>, slots <const> = others(self)
  return slots + math.max(self.o.max - count, 0) * (self.o.workers or 1)
end

---What a view has of it.
function pool:fill(view)
  local count <const> = others(self)
  view.nodes_min = math.max(self.o.min or count, count, 1)
  view.nodes_max = math.max(self.o.max, view.nodes_min)
  for _, node in ipairs(view.nodes) do node.price = self.o.price end
end

---Carries out plan.nodes.
---@return true|nil, string? why
function pool:order(request)
  if request.pool or request.drop then return nil, "`nodes.pool` and `nodes.drop` are not carried out here" end
  local count <const> = others(self)
  local least <const> = math.max((self.o.min or count) - count, 0)
  local want <const> = math.max(math.min(request.want or 0, self.o.max) - count, least)
  local ok, err = self.pool:want(want)
  if not ok then return nil, err.message end
  return true
end

function pool:step()
  local ok, err = self.pool:step()
  if ok or self.told then return end
  self.told = true
  core.log("error", "no more nodes are started: " .. err.message)
end

---All of them leave.
function pool:close()
  core.fiber(function() self.pool:close(35) end)
end

return pool
