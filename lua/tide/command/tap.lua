-- `tide tap`: messages that come to an actor.
local arguments = require "tide.cli.arguments"
local attach = require "tide.console.attach"
local cluster_view = require "tide.cluster.view"
local why = require "tide.show.why"

return {
  name = "tap",
  brief = "messages that enter an actor's mailbox",
  summary = "Shows messages that enter the mailbox of an actor, a few a second, until interrupted.",
  examples = {
    {"tide tap n1/store", "what other nodes ask of n1's rows"},
    {"tide tap n1/store --match 'bytes > 100000'", "only large ones"},
    {"tide tap 2:17 --count 5 --json", "five messages, JSON"},
  },
  arguments = {{name = "actor", doc = "NODE/NAME, NODE/TYPE or an address, as `tide actors` shows them"}},
  options = {
    arguments.shared.cluster,
    {name = "match", type = "string", value = "EXPR", doc = "a Lua expression over from, kind, lane, bytes, text"},
    {name = "rate", type = "integer", min = 1, max = 100, value = "N", doc = "lines a second (default 10)"},
    {name = "count", type = "integer", min = 1, value = "N", doc = "end after so many lines"},
  },
  attached = true,
  run = function(context, o, client)
    local view, err = cluster_view.collect(context, client)
    if not view then return nil, err end
    local found, problem = why.find(view.actors, o.actor)
    if not found then return nil, problem end
    return attach.run("tap", {
      actor = o.actor, address = found.address, node = found.node, match = o.match, rate = o.rate, count = o.count,
      json = context.json, quiet = context.quiet, seconds = context.timeout_s,
    })
  end,
}
