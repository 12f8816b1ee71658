-- Nodes of a scheduled cluster that its policy adds and removes (plan.nodes), by the contract of provisioners
-- (tide.provision). Nodes that were there before stay.
local core = require "tide.core"
local errors = require "tide.errors"
local provision = require "tide.provision"
local text = require "tide.text"

local pool = {}
pool.__index = pool

---@class tide.scheduler.pool
---@field min? integer nodes with workers that there are at least, those that stay included; as many as those
---@field max integer at most
---@field kind? string of tide.provision: local, slurm; local
---@field workers? integer of each node that comes; 1
---@field price? number of a node and second, for `price_per_s_max`
local FIELDS <const> = {min = "integer", max = "integer", kind = "string", workers = "integer", price = "number"}

local NODES_MOST <const> = 256

---@param o any
---@return true|nil, table? err
function pool.check(o)
  local function refuse(message, help, code)
    return nil, errors.new(code or "T0113", {message = "nodes of a scheduling policy: " .. message,
      state = "nothing was started", help = help})
  end
  if type(o) ~= "table" then return refuse "a table {min =, max =}" end
  for key, value in pairs(o) do
    local want <const> = FIELDS[key]
    if not want then
      return refuse(("there is no field `%s`"):format(text.clean(tostring(key))),
        text.did_you_mean(tostring(key), text.sorted_keys(FIELDS)), "T0115")
    end
    local fits = want == "string" and type(value) == "string" or want == "number" and type(value) == "number"
      and value > 0 or want == "integer" and math.type(value) == "integer" and value >= 1 and value <= NODES_MOST
    if not fits then return refuse(("`%s` = %s is no %s"):format(key, tostring(value), want)) end
  end
  if not o.max then return refuse "`max`, the most nodes, is missing" end
  if o.min and o.min > o.max then return refuse(("`min` = %d is above `max` = %d"):format(o.min, o.max)) end
  return true
end

---@param o tide.scheduler.pool
---@param nodes table of scheduler.nodes
---@return table|nil, table? err
function pool.new(o, nodes)
  local ok, err = pool.check(o)
  if not ok then return nil, err end
  if core.simulated() then
    return nil, errors.new("T0117", {message = "nodes come and go in real clusters only: `tide sim` starts none",
      help = "`tide sim jobs --max-nodes N` simulates it"})
  end
  local directory <const> = require "tide.cluster.directory"
  local node <const> = core.node()
  ok, err = directory.make(node.cluster)
  if not ok then return nil, err end
  local kind <const> = o.kind or "local"
  local made
  made, err = provision.new {
    kind = kind, cluster = node.cluster, endpoint = node.endpoint, directory = directory.of(node.cluster),
    prefix = "auto", workers = o.workers or 1, program = require("tide.provision.commands").program(), no_store = true,
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
