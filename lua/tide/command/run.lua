-- `tide run SCRIPT`: a local cluster for one script.
local arguments = require "tide.cli.arguments"
local declared = require "tide.declared"
local driver = require "tide.run.driver"
local errors = require "tide.errors"
local script = require "tide.script"
local slot_limits = require "tide.scheduler.limits"

return {
  name = "run",
  brief = "start a local cluster, run a script, stop",
  summary = "Starts a local cluster, runs a script on it, and stops it; --cluster takes one that runs.",
  examples = {
    {"tide run mf.lua", "as the script says"},
    {"tide run mf.lua --nodes 4 --rank 32", "with options of the script"},
    {"tide run --resume ckpt mf.lua", "continue from a checkpoint"},
    {"tide run --dashboard mf.lua", "and watch it in a browser"},
    {"tide run --timeout 10m mf.lua", "options of tide stand before the script"},
  },
  arguments = {
    {name = "script", doc = "a Lua file; `tide SCRIPT.lua` is the same"},
    {name = "rest", rest = true, label = "options of the script", doc = "`tide run SCRIPT --help` lists them"},
  },
  options = declared.joined {
    declared.flags(declared.cluster, {"nodes", "workers"}, {nodes = {short = false, max = 256}, workers = {max = 256}}),
    {name = "cluster", config = "cluster", type = "string", value = "C",
     doc = "run on this running cluster (default $TIDE_CLUSTER) instead of starting one"},
    declared.flags(declared.submit, {"slots", "memory", "min", "max", "sizes", "weight", "keep", "grace", "resume"}),
    {name = "no-wait", doc = "with --cluster: fail where so many slots are not free"},
    {name = "detach", short = "d", doc = "with --cluster: in a process that stays; same as `tide submit`"},
    {name = "host", type = "string", value = "ID", doc = "id of the run; `tide submit` uses it"},
    arguments.shared.silence,
    arguments.shared.limit,
    {name = "trace", type = "string", value = "FILE",
     doc = "write a trace of threads and fibers to FILE, for ui.perfetto.dev"},
    {name = "dashboard", doc = "a page about the cluster in your browser, until the script ends; prints its address"},
    {name = "interactive", short = "i", doc = "a console in the cluster when the script ends or fails"},
    arguments.shared.dry_run,
  },
  takes_script = true,
  run = function(context)
    local o <const> = context.options
    local text, err = script.read(o.script)
    if not text then return nil, err end
    if o.interactive and not (context.terminal.stdin and context.terminal.stdout) then
      return nil, errors.new("T0109", {message = "--interactive requires a terminal", state = "nothing was started"})
    end
    local limits <const>, mistake = slot_limits.read(o)
    if mistake then return nil, mistake end
    if not o.cluster and (o.slots or limits or o.no_wait or o.detach or o.keep) then
      return nil, errors.new("T0107", {message = "--slots, --min, --max, --sizes, --weight, --no-wait, --keep "
        .. "and --detach require a running cluster",
        help = "name it: --cluster C"})
    end
    if o.cluster and o.silence then
      return nil, errors.new("T0107", {message = "--silence is set when the cluster starts, and this one is running",
        help = "tide up --silence TIME, or tide node --silence TIME"})
    end
    if o.detach and o.dashboard then
      return nil, errors.new("T0107", {message = "--dashboard ends with this command, and --detach ends it at once",
        help = "tide dashboard --cluster C"})
    end
    if o.detach then return require("tide.command.submit").run(context) end
    local given <const> = {limits = limits ~= nil or nil}
    for _, name in ipairs {"nodes", "workers", "slots", "memory", "keep", "no_wait", "resume", "trace", "dashboard",
      "silence"} do
      given[name] = o[name] and not context.configured[name] or nil
    end
    return driver.run {
      given = given,
      slots = o.slots, memory = o.memory, keep = o.keep or nil, limits = limits,
      no_wait = o.no_wait or false, host = o.host,
      script = o.script, text = text, args = o.rest, nodes = o.nodes, workers = o.workers, cluster = o.cluster,
      keys = context.keys, silence = o.silence,
      interactive = o.interactive and "tide.console.attach" or false,
      json = context.json, plain = context.plain, quiet = context.quiet, verbose = context.verbose,
      timeout_s = context.timeout_s, grace_s = o.grace, resume = o.resume, trace = o.trace,
      dashboard = o.dashboard or false, dry_run = o.dry_run or false,
    }
  end,
}
