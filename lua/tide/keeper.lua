-- Requests to the keeper of a cluster's runs (tide.cluster.runs), from any actor of the cluster.
local core = require "tide.core"
local errors = require "tide.errors"

local keeper = {}

keeper.NAME = "runs" -- of the actor, on the controller

---States in which a run holds nothing any more.
---@type table<string, boolean>
keeper.ENDED = {done = true, stopped = true, failed = true, lost = true}

---@param grant? table<string|integer, integer> slots by node
---@return integer slots together
function keeper.slots(grant)
  local sum = 0
  for _, slots in pairs(grant or {}) do sum = sum + slots end
  return sum
end

---Where the runs of this cluster are kept.
---@return string|nil address, table? err
function keeper.find()
  local controller <const> = (core.node() or {}).controller
  for _, member in ipairs(core.members() or {}) do
    if member.id == controller then
      local address = core.whereis(member.name .. "/" .. keeper.NAME)
      if address then return address end
    end
  end
  return nil, errors.new("T0501", {message = "the controller of this cluster keeps no runs", exit = 3,
    help = "retry in a second, while another controller takes over; a cluster of another version: tide version -v"})
end

---Asks for something of the runs; while another controller takes over it is waited for.
---@param request table {op=, ...}
---@param timeout_s? number
---@return any|nil answer, table? err
function keeper.ask(request, timeout_s)
  local patience <const> = core.limit "cluster_runs_silence"
  local deadline <const> = core.now() + math.min(timeout_s or patience, patience)
  while true do
    local address, err = keeper.find()
    local answer
    if address then answer, err = core.call(address, request, timeout_s) end
    if answer then return answer end
    local away <const> = err.name == "EUNREACHABLE" or err.name == "EDIED"
    if not away or core.now() >= deadline then return nil, errors.from(err) end
    core.sleep(0.1)
  end
end

return keeper
