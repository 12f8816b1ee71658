-- `tide nodes`: the members of a cluster.
local listing = require "tide.command.listing"

return listing.command {
  name = "nodes",
  brief = "the nodes of a cluster",
  summary = "Lists the nodes of a running cluster: state, workers, memory, actors.",
  examples = {
    {"tide nodes", "all nodes"},
    {"tide nodes --where 'state ~= \"up\"'", "those that are not up"},
    {"tide nodes --json --sort rss_bytes", "the largest first, as JSON lines"},
  },
  schema = "tide.node/1",
  columns = {
    {key = "name"}, {key = "id", right = true}, {key = "state"}, {key = "workers"}, {key = "store"},
    {key = "rss_bytes", title = "memory", format = "size"},
    {key = "memory_share", title = "of cap", format = "share"}, {key = "actors"},
    {key = "mailbox_messages", title = "mail"},
    {key = "pid"}, {key = "endpoint"}, {key = "problem"},
  },
  rows = function(view) return view.nodes end,
}
