-- `tide submit SCRIPT`: a run on a cluster that stays, in a process of its own.
local arguments = require "tide.cli.arguments"
local limit_options <const> = require "tide.cli.limits"
local text = require "tide.text"

return {
  name = "submit",
  brief = "run a script on a cluster, in a process that stays",
  summary = "Starts a script on a running cluster in a process of its own, and returns when the cluster has registered "
    .. "the run. `tide jobs` and `tide job` show and control it.",
  examples = {
    {"tide submit mf.lua --rank 64", "workers as the script declares, else all free slots"},
    {"tide submit --min 1 --max 8 mf.lua", "as many as the cluster's scheduling policy gives it, 1 to 8"},
    {"tide submit --slots 4 mf.lua", "on four worker slots; it waits until they are free"},
  },
  arguments = {
    {name = "script", doc = "a Lua file"},
    {name = "rest", rest = true, label = "options of the script", doc = "`tide run SCRIPT --help` lists them"},
  },
  options = {
    arguments.shared.cluster,
    {name = "slots", type = "integer", min = 1, value = "N",
     doc = "worker slots (default: the job's `workers`, else all that are free)"},
    {name = "priority", type = "integer", value = "N",
     doc = "its place among the runs of its person that wait: higher ones first (default 0)"},
    {name = "memory", type = "size", value = "SIZE",
     doc = "memory cap of its tables on each node (at least 1MiB; default: the job's `memory`, else none)"},
    {name = "keep", doc = "its tables stay when the run is closed; `tide table drop` removes them"},
    {name = "grace", type = "duration", value = "TIME",
     doc = "when its host gets a SIGTERM: workers that have not come to a report then are ended (default 30s)"},
    limit_options[1], limit_options[2], limit_options[3], limit_options[4],
    {name = "resume", type = "string", value = "DIR",
     doc = "continue from the newest intact checkpoint in this directory"},
  },
  takes_script = true,
  schema = "tide.job/1",
  run = function(context)
    local o <const> = context.options
    local limits <const>, mistake = limit_options.read(o)
    if mistake then return nil, mistake end
    local _, too_little = require("tide.run.host").memory(o.memory, "--memory")
    if too_little then return nil, too_little end
    local cluster
    local run <const>, err = require("tide.cluster.view").attached(context, function(client)
      local endpoint <const>, lost = client.resolve(o.cluster)
      if not endpoint then return nil, lost end
      cluster = context.core.node().cluster or "the cluster"
      return client.run("tide.command.submit.inside", {cluster = o.cluster or endpoint, script = o.script,
        program = arg and arg[0],
        o = {args = o.rest, slots = o.slots, memory = o.memory, keep = o.keep or nil, grace = o.grace,
          resume = o.resume, min = o.min, max = o.max, weight = o.weight,
          priority = o.priority, sizes = limits and limits.sizes}})
    end)
    if not run then return nil, err end
    if context.json then
      context:record({name = run.name, state = run.state, uid = run.uid})
    else
      context:print(("%s is %s on %s"):format(text.clean(run.name), run.state, text.clean(cluster)))
      context:say(("log: %s/run.log; `tide job attach %s` follows it"):format(run.host and run.host.directory or "?",
        text.clean(run.name)))
    end
    return 0
  end,
  inside = function(a)
    local children <const> = require "tide.cluster.children"
    children.program = a.program or children.program
    local run, err = require("tide.run.host").submit(a.cluster, a.script, a.o)
    if not run then return nil, err end
    return {name = run.name, state = run.state, uid = run.uid, host = run.host}
  end,
}
