-- `tide drain`: requests the orderly leave of a node and waits for its end.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local errors = require "tide.errors"
local text = require "tide.text"
local units = require "tide.units"

local MORE_S <const> = 5 -- beyond the grace, until its going is known here

local function inside(a)
  local core <const> = require "tide.core"
  local member
  for _, each in ipairs(core.members()) do
    if each.name == a.node and each.state == "up" then member = each end
  end
  if not member then
    return nil, errors.new("T0401", {message = ("no node `%s` is up"):format(a.node), help = "tide nodes lists them"})
  end
  if member.id == core.node().controller then
    return nil, errors.new("T0117", {message = ("node %s is the cluster's controller"):format(a.node),
      help = "end the cluster with `tide down`; with `tide up --controllers 3` another controller takes over"})
  end
  local began <const> = core.now()
  local address, err = core.whereis(member.name .. "/agent")
  local answer
  if address then answer, err = core.call(address, {op = "drain", grace_s = a.grace_s}, 10) end
  if not answer then return nil, errors.from(err or errors.new("T0117", "this node has no agent"), "T0117") end
  while core.now() - began < answer.grace + MORE_S do
    for _, each in ipairs(core.members()) do
      if each.id == member.id and (each.state == "left" or each.state == "dead") then
        return {node = a.node, state = each.state, reason = each.reason, seconds = core.now() - began}
      end
    end
    core.sleep(0.05)
  end
  return nil, errors.new("T0510", {message = ("node %s has not left after %g s"):format(a.node,
    answer.grace + MORE_S), node = a.node})
end

return {
  name = "drain",
  brief = "let a node leave in order",
  summary = "Lets a node leave: its workers finish their chunks, its rows move to other nodes, and its process ends.",
  examples = {
    {"tide drain n3", "and wait until it has left"},
    {"tide drain n3 --grace 2m", "it holds much"},
  },
  arguments = {{name = "node", doc = "name of the node"}},
  options = {
    {name = "grace", type = "duration", doc = "time limit (default: that of the node, 25s)"},
    arguments.shared.cluster, arguments.shared.yes, arguments.shared.dry_run,
  },
  inside = inside,
  schema = "tide.drain/1",
  run = function(context)
    local o <const> = context.options
    if o.dry_run then
      return context:tell({node = o.node, dry_run = true}, "would let node " .. text.clean(o.node)
        .. " leave")
    end
    local ok, err = context:confirm(("Let node `%s` leave the cluster?"):format(text.clean(o.node)))
    if not ok then return nil, err end
    local result, problem = cluster_view.attached(context, function(client)
      return client.run("tide.command.drain.inside", {node = o.node, grace_s = o.grace})
    end)
    if not result then return nil, problem end
    if result.state == "dead" then
      return nil, errors.new("T0509", {message = ("node %s has died: %s"):format(o.node, result.reason or "")})
    end
    return context:tell(result, ("node %s has left after %s"):format(o.node,
      units.format_duration(result.seconds)))
  end,
}
