-- `tide links`: the connections between nodes.
local listing = require "tide.command.listing"

return listing.command {
  name = "links",
  brief = "the connections between nodes",
  summary = "Lists the links between nodes: bytes, frames, queues, round trips.",
  examples = {
    {"tide links", "all links, each seen from both ends"},
    {"tide links --sort queue_bytes", "the most congested first"},
    {"tide links --where 'not up'", "those that are down"},
  },
  schema = "tide.link/1",
  columns = {
    {key = "node"}, {key = "peer"}, {key = "peer_name", title = "peer name"}, {key = "up"},
    {key = "bytes_out", title = "out", format = "size"}, {key = "bytes_in", title = "in", format = "size"},
    {key = "frames_out", title = "frames out", format = "count"},
    {key = "frames_in", title = "frames in", format = "count"},
    {key = "queue_bytes", title = "queued", format = "size"},
    {key = "round_trip_s", title = "round trip", format = "duration"},
  },
  rows = function(view) return view.links end,
}
