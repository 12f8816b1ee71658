-- `tide why`: what an actor waits for.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local listing = require "tide.show.listing"
local why = require "tide.show.why"

return {
  name = "why",
  brief = "what an actor waits for, and what that waits for",
  summary = "Follows what an actor waits for, from actor to actor, as far as it is known.",
  examples = {
    {"tide why n1/agent", "an actor by its node and name"},
    {"tide why 2:17", "by its address, as `tide actors` shows it"},
  },
  arguments = {{name = "actor", doc = "NODE/NAME, NODE/TYPE or an address"}},
  options = {arguments.shared.cluster},
  run = function(context)
    return cluster_view.attached(context, function(client)
      local view, err = cluster_view.collect(context, client)
      if not view then return nil, err end
      local rows, problem = why.chain(view.actors, context.options.actor)
      if not rows then return nil, problem end
      local ok, wrong = listing.print(context, rows, why.COLUMNS, "tide.why/1")
      if not ok then return nil, wrong end
      return 0
    end)
  end,
}
