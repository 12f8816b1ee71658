-- `tide submit SCRIPT`: a run on a cluster that stays, in a process of its own.
local arguments = require "tide.cli.arguments"
local children = require "tide.provision.children"
local cluster_view = require "tide.cluster.view"
local declared = require "tide.declared"
local options = require "tide.options"
local run_command = require "tide.command.run"
local run_host = require "tide.run.host"
local slot_limits = require "tide.scheduler.limits"
local text = require "tide.text"

return {
  name = "submit",
  brief = "run a script on a cluster, in a process that stays",
  summary = "Starts a script on a running cluster in a process of its own, and returns when the cluster has registered "
    .. "the run. `tide jobs` and `tide job` show and control it.",
  examples = {
    {"tide submit mf.lua --rank 64", "workers as the script declares, else all free slots"},
    {"tide submit --min 1 --max 8 mf.lua", "as many as the cluster's scheduling policy gives it, 1 to 8"},
    {"tide submit --slots 4 --time 12h --memory 8GiB mf.lua", "limits: slots, time, bytes on each node"},
  },
  arguments = {
    {name = "script", doc = "a Lua file"},
    {name = "rest", rest = true, label = "options of the script", doc = "`tide run SCRIPT --help` lists them"},
  },
  options = declared.joined {
    arguments.shared.cluster,
    declared.flags(declared.submit, {"slots", "time", "memory", "min", "max", "sizes", "weight", "keep", "grace",
      "resume", "priority"}),
  },
  takes_script = true,
  schema = "tide.job/1",
  run = function(context)
    local o <const> = context.options
    if options.asks_for_help(o.rest) then -- the script's own page, which needs no cluster
      context.options = {script = o.script, rest = o.rest}
      return run_command.run(context)
    end
    local limits <const>, mistake = slot_limits.read(o)
    if mistake then return nil, mistake end
    local cluster
    local given <const> = declared.picked(declared.submit, o)
    given.args, given.sizes = o.rest, limits and limits.sizes
    local run <const>, err = cluster_view.attached(context, function(client)
      local endpoint <const>, lost = client.resolve(o.cluster)
      if not endpoint then return nil, lost end
      cluster = context.core.node().cluster or "the cluster"
      return client.run("tide.command.submit.inside", {cluster = o.cluster or endpoint, script = o.script,
        program = arg and arg[0],
        o = given})
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
    children.program = a.program or children.program
    local run, err = run_host.submit(a.cluster, a.script, a.o)
    if not run then return nil, err end
    return {name = run.name, state = run.state, uid = run.uid, host = run.host}
  end,
}
