-- `tide stack`: what an actor, or the workers of a run, do at this moment.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local stacks = require "tide.cluster.stacks"
local text = require "tide.text"

return {
  name = "stack",
  brief = "the stacks of an actor, or of a run's workers",
  summary = "Prints the stacks of all fibers of an actor, innermost first, with file, line and function, while the "
    .. "actor does what it does: also of a worker that computes in a loop or is inside a native operation.",
  examples = {
    {"tide stack mf-1", "all workers of a run"},
    {"tide stack mf-1/2", "its worker of rank 2"},
    {"tide stack n1/agent", "an actor by its node and name"},
    {"tide stack 2:17", "by its address, as `tide actors` shows it"},
  },
  arguments = {{name = "actor", doc = "a run, RUN/RANK, NODE/NAME, NODE/TYPE or an address"}},
  options = {arguments.shared.cluster},
  schema = "tide.stack/1",
  attached = true,
  run = function(context, _, client)
    local view, err = cluster_view.collect(context, client)
    if not view then return nil, err end
    local actors = {}
    for i, row in ipairs(view.actors) do
      actors[i] = {address = row.address, node = row.node, name = row.name, type = row.type}
    end
    local list, problem = stacks.ask(context.options.actor, actors)
    if not list then return nil, problem end
    for _, each in ipairs(list) do
      if context.json then
        context:record(each)
      else
        for _, line in ipairs(stacks.lines(each)) do context:print(text.clean(line)) end
      end
    end
    return 0
  end,
}
