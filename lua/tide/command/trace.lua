-- `tide trace`: what the threads and fibers of a running cluster do for a while, as a file.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local text = require "tide.text"

local FOR_S <const> = 5

return {
  name = "trace",
  brief = "record threads and fibers of a cluster",
  summary = "Records what the threads and fibers of a running cluster do, and writes it for ui.perfetto.dev.",
  examples = {
    {"tide trace out.json", "five seconds"},
    {"tide trace out.json --for 30s", "thirty"},
  },
  arguments = {{name = "file", doc = "JSON in the Chrome trace format; an existing file is replaced"}},
  options = {
    arguments.shared.cluster,
    {name = "for", type = "duration", value = "TIME", doc = "duration (default 5s)"},
  },
  schema = "tide.trace/1",
  run = function(context)
    local o <const> = context.options
    local result, err = cluster_view.attached(context, function(client)
      return client.run("tide.show.trace.record", {path = o.file, seconds = o["for"] or FOR_S,
        timeout_s = context.timeout_s})
    end)
    if not result then return nil, err end
    context:tell({file = o.file, nodes = result.nodes, silent = result.silent},
      ("recorded %d nodes in %s"):format(result.nodes, text.clean(o.file)))
    return result.exit
  end,
}
