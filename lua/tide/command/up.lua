-- `tide up`: a local cluster that stays.
local arguments = require "tide.cli.arguments"
local declared = require "tide.declared"
local errors = require "tide.errors"
local text = require "tide.text"
local up_down = require "tide.cluster.up_down"

local function describe(context, up)
  if context.json then
    local fields = {}
    for k, v in pairs(up) do fields[k] = v end
    fields.pids, fields.nodes = nil, nil
    context:record(fields, {pids = up.pids or {}})
  elseif context.plain then
    context:print(text.clean(up.cluster) .. "\t" .. text.clean(up.endpoint))
  else
    context:print(("cluster `%s` is up at %s"):format(text.clean(up.cluster), text.clean(up.endpoint)))
    context:say("status: tide status --cluster " .. text.clean(up.cluster))
    context:say("end:    tide down " .. text.clean(up.cluster) .. " -y")
  end
end

return {
  name = "up",
  brief = "start a local cluster that stays",
  summary = "Starts a cluster of node processes on this machine and leaves it running.",
  examples = {
    {"tide up", "two nodes, cluster `local`"},
    {"tide up -n 4 --workers 2", "four nodes with two workers each"},
    {"tide up -n 4 --controllers 3", "four nodes that outlive their controller"},
    {"tide up lab --dry-run", "what would be started as cluster `lab`"},
  },
  arguments = {{name = "name", optional = true, doc = "of the new cluster; same as --cluster"}},
  options = declared.joined {
    declared.flags(declared.cluster, {"nodes", "workers", "controllers"},
      {nodes = {max = 256}, workers = {max = 256}}),
    {name = "state", type = "string", value = "DIR",
     doc = "with --controllers: they also keep their decisions there, and continue from them when all have ended"},
    arguments.shared.silence,
    arguments.shared.limit,
    {name = "cluster", config = "cluster", type = "string", value = "C",
     doc = "name of the new cluster (default $TIDE_CLUSTER or `local`)"},
    {name = "dry-run", doc = "print the effect and do nothing (-n is --nodes here)"},
  },
  schema = "tide.up/1",
  run = function(context)
    local o <const> = context.options
    local name <const> = o.name or o.cluster or "local"
    local nodes <const>, workers <const> = o.nodes or 2, o.workers or 1
    if o.state and not o.controllers then
      return nil, errors.new("T0107", {
        message = "--state requires several controllers", help = "add --controllers 3"})
    end
    if o.dry_run then
      if context.json then
        context:record {cluster = name, workers = workers, dry_run = true, node_count = nodes,
          controllers = o.controllers}
      else
        context:print(("would start cluster `%s`: %s and %d nodes with %d workers each"):format(
          text.clean(name), o.controllers and o.controllers .. " controllers" or "a controller", nodes, workers))
      end
      return 0
    end
    local up, err = up_down.up {
      cluster = name, nodes = nodes, workers = workers, controllers = o.controllers, state = o.state,
      silence = o.silence, timeout_s = context.timeout_s,
    }
    if not up then return nil, errors.from(err, "T1001") end
    describe(context, up)
    return 0
  end,
}
