-- `tide node`: one node in this process.
local arguments = require "tide.cli.arguments"
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
  options = {
    {name = "join", type = "string", value = "ADDRESS", doc = "endpoint of any member; absent: a cluster of its own"},
    {name = "cluster", config = "cluster", type = "string", value = "C",
     doc = "name of the cluster (default $TIDE_CLUSTER, else `local`)"},
    {name = "name", type = "string", value = "NAME", doc = "name of the node (default: given by the controller)"},
    {name = "listen", type = "string", value = "ADDRESS",
     doc = "unix:PATH or tcp:ADDRESS:PORT; other machines' need --keys (default: a socket in the run directory, or "
       .. "the address that leads to --join)"},
    {name = "workers", short = "w", type = "integer", min = 0, max = 256, doc = "compute threads (default 1)"},
    {name = "no-store", doc = "hold no parameter rows"},
    {name = "queue-limit", type = "size",
     doc = "bound on this node's operations in flight (default: 4 MiB for each home)"},
    {name = "memory", type = "size",
     doc = "memory cap of tables and queues on this node, at least 32MiB (default: none)"},
    {name = "rate-operations", type = "integer", min = 1, value = "N",
     doc = "operations a second of this node on remote rows (default: unlimited)"},
    {name = "rate-bytes", type = "size",
     doc = "bytes of keys and rows a second of this node on remote rows (default: unlimited)"},
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
    {name = "controllers", type = "integer", min = 3, max = 5, value = "N",
     doc = "first node: 3 or 5 nodes keep the controller's decisions, and another one takes over if it ends"},
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
    if o.controllers == 4 then
      return nil, errors.new("T0107", {message = "--controllers is 3 or 5: 4 survive no more losses than 3"})
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
    return require("tide.cluster.node").main {
      join = o.join, cluster = called, name = o.name, listen = o.listen, workers = o.workers,
      no_store = o.no_store, grace_s = o.grace, controller = o.controller, nodes = o.nodes,
      node_workers = o.node_workers, state = o.state, controllers = o.controllers, queue_limit = o.queue_limit,
      memory = o.memory, silence = o.silence,
      rate_operations = o.rate_operations, rate_bytes = o.rate_bytes,
      gang = o.gang, rank = o.rank, leave_on_eof = o.leave_on_eof,
      audit = o.audit, debuggable = o.debuggable,
      keys = context.keys, timeout_s = context.timeout_s,
    }
  end,
}
