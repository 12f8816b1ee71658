-- `tide node`: one node in this process.
local arguments = require "tide.cli.arguments"
local declared = require "tide.declared"
local errors = require "tide.errors"

return {
  name = "node",
  brief = "run one node in this process",
  stays = function() return true end,
  summary = "Runs one node in this process; SIGTERM lets it leave in order.",
  examples = {
    {"tide node --join unix:/run/user/1000/tide/lab/socket", "join a cluster"},
    {"tide node --join tcp:127.0.0.1:7070 --workers 4", "with four workers"},
    {"tide node --join tcp:127.0.0.1:7070 --no-store", "hold no parameters"},
    {"tide node --join tcp:10.0.0.4:7700 --keys keys/lab/node", "a cluster on other machines"},
    {"tide node --controller --state ctl --listen tcp:127.0.0.1:7070", "a controller that may be started again"},
    {"tide node --controllers 3 --listen tcp:127.0.0.1:7070", "the first node of a cluster that outlives it"},
  },
  options = declared.joined {
    {name = "join", type = "string", value = "ADDRESS", doc = "endpoint of any member; absent: a cluster of its own"},
    {name = "cluster", config = "cluster", type = "string", value = "C",
     doc = "name of the cluster (default $TIDE_CLUSTER, else `local`)"},
    {name = "name", type = "string", value = "NAME", doc = "name of the node (default: given by the controller)"},
    {name = "listen", type = "string", value = "ADDRESS",
     doc = "unix:PATH or tcp:ADDRESS:PORT; other machines' need --keys (default: a socket in the run directory, or "
       .. "the address that leads to --join)"},
    declared.flags(declared.node, {"workers", "no_store", "queue_limit", "memory", "rate_operations", "rate_bytes"}),
    {name = "gang", type = "string", value = "ADDRESS",
     doc = "one of several that mpirun or srun starts: rank 0 leads a new cluster there, the others join it"},
    {name = "rank", type = "integer", min = 0, max = 65535, doc = "with --gang: instead of the launcher's"},
    arguments.shared.silence,
    arguments.shared.limit,
    {name = "audit", type = "string", value = "DIR",
     doc = "directory of the audit log of this node (default: the cluster's in the run directory)"},
    {name = "debuggable", doc = "with --keys: allow debuggers and core dumps, in which the key is"},
    {name = "leave-on-eof", doc = "leave in order when standard input ends, with the process that started this node"},
    {name = "grace", type = "duration", doc = "time for handing rows on when leaving (default 25s)"},
    {name = "controller", doc = "be the controller of a new cluster; `tide up` uses it"},
    {name = "state", type = "string", value = "DIR",
     doc = "keep the controller's decisions there; a restart with it continues. With --controllers, and --join "
       .. "of those that may hold them too: one directory for all"},
    declared.flags(declared.cluster, {"controllers"}),
    {name = "nodes", type = "integer", min = 0, max = 256, doc = "with --controller: node processes to start"},
    {name = "log", config = "log", type = "string", choices = {"text", "json"}, value = "FORM",
     doc = "form of log lines: text or json (default $TIDE_LOG, else text)"},
    {name = "node-workers", type = "integer", min = 1, max = 256, doc = "with --controller: workers of each of them"},
  },
  run = function(context)
    local o <const> = context.options
    if o.log then context.core.log_format(o.log) end
    if o.controller and o.join then
      return nil, errors.new("T0107", {
        message = "--controller starts a new cluster and --join enters one", help = "leave one of them out",
      })
    end
    if o.gang and (o.join or o.listen or o.controller or o.controllers) then
      return nil, errors.new("T0107", {message = "--gang sets the controller, its address and the joiners",
        help = "leave out --join, --listen and --controller"})
    end
    if o.rank and not o.gang then
      return nil, errors.new("T0107", {message = "--rank requires --gang", help = "add --gang ADDRESS"})
    end
    if o.controllers and (o.join or o.controller) then
      return nil, errors.new("T0107", {
        message = "--controllers is for the first node of a cluster",
        help = "leave out --join and --controller; the other nodes only join"})
    end
    if o.state and not (o.controller or o.controllers or o.join) then
      return nil, errors.new("T0107", {
        message = "--state requires a controller", help = "add --controller or --controllers"})
    end
    if o.state and (o.nodes or 0) > 0 then
      return nil, errors.new("T0107", {
        message = "--state is for a controller that may restart, and the nodes of --nodes end with it",
        help = "start the nodes apart: tide node --join ADDRESS"})
    end
    -- $TIDE_CLUSTER may say where commands find a cluster; what it is called the keys say then.
    local called <const> = o.cluster and not o.cluster:find(":", 1, true) and o.cluster or nil
    local given <const> = {}
    for name, value in pairs(o) do given[name] = value end
    given.cluster, given.grace_s, given.keys, given.timeout_s = called, o.grace, context.keys, context.timeout_s
    return require("tide.cluster.node").main(given)
  end,
}
