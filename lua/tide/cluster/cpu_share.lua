-- A node process held to a share of one core, to see what slow machines do to a run. The node starts a helper that
-- stops and continues it (runtime/port/real_share.c), so it needs no privileges and no help of its parent.
local core = require "tide.core"
local errors = require "tide.errors"
local units = require "tide.units"

local share = {}

local LEAST <const> = 0.02 -- with less, a node's beats come too late
local SIGTERM <const> = 15
local POLL_S <const> = 0.01

local state = {}

---@param value number|string 0.3 or "30%"; 1: all there is
---@return number? share
---@return tide.error? err
function share.parse(value)
  local parsed <const> = units.parse_share(value)
  if parsed and parsed >= LEAST then return parsed end
  return nil, errors.new("T0113", {message = ("`%s` is no share of a core"):format(tostring(value)),
    help = "write 0.3 or \"30%\"; 2% is the least, 100% means no limit"})
end

-- The helper ends; the process continues at full speed.
local function let_go()
  local helper <const> = state.helper
  state.helper = nil
  if not helper or helper:ended() then return end
  helper:signal(SIGTERM)
  while not helper:ended() do core.sleep(POLL_S) end
end

---Holds this process to a share from now on, instead of the one before. Waits; for fibers of the agent.
---@param value number of share.parse
---@param program string|nil of this process; nil: it is not the tide program
---@return table|nil answer {share=}
---@return tide.error? err
function share.hold(value, program)
  if not program then
    return nil, errors.new("T0117", "this node is embedded in another program, which Tide does not slow down")
  end
  while state.changing do core.sleep(POLL_S) end
  state.changing = true
  local _ <close> = setmetatable({}, {__close = function() state.changing = nil end})
  let_go()
  if value < 1 then
    local helper, err = core.process {program, "--hold-parent", ("%.17g"):format(value)}
    if not helper then return nil, errors.from(err) end
    state.helper = helper
  end
  core.event("node", ("%s is held to %s of a core"):format(core.node().name, units.format_share(value)))
  return {share = value}
end

---Asks a node of this cluster to hold itself.
---@param member {name: string, agent: string} a node that is up
---@param value number|string
---@return true|nil ok
---@return tide.error? err
function share.set(member, value)
  local parsed, err = share.parse(value)
  if not parsed then return nil, err end
  if core.simulated() then
    core.sim_fault("slowness", core.now(), member.name, nil, 1 / parsed)
    return true
  end
  local answer
  answer, err = core.call(member.agent, {op = "cpu.share", share = parsed}, 10)
  if not answer then return nil, errors.from(err) end
  return true
end

return share
