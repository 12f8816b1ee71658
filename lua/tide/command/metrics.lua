-- `tide metrics`: metrics of a cluster in the formats of Prometheus.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local collect = require "tide.cluster.collect"
local errors = require "tide.errors"
local metrics = require "tide.show.metrics"

local WATCH_MIN_S <const> = 0.2
local FORMATS <const> = {"prometheus", "openmetrics", "json", "snapshot"}

local function text_of(context, snapshot, format)
  if format == "snapshot" then return context.core.json_encode(snapshot) .. "\n" end
  local list <const> = metrics.of(snapshot)
  if format == "json" then return context.core.json_encode(metrics.data(list, snapshot)) .. "\n" end
  return metrics.text(list, format)
end

-- Replaces the file atomically.
local function put(context, text, path)
  if not path then
    context.write_out(text)
    return true
  end
  local ok, err = context.core.file_write(path, text)
  if ok then return true end
  return nil, errors.new("T0403", {message = ("the metrics cannot be written: %s"):format(err.message), where = path})
end

return {
  name = "metrics",
  brief = "metrics of a cluster, for Prometheus",
  summary = "Prints the metrics of a running cluster: of its nodes, links, tables, runs, workers and policies. With "
    .. "--file they go to a file for node_exporter's textfile collector, which --watch keeps up to date.",
  examples = {
    {"tide metrics", "once, as Prometheus' text"},
    {"tide metrics --format openmetrics", "as OpenMetrics 1.0"},
    {"tide metrics --file /var/lib/prometheus/node-exporter/tide.prom --watch 10s", "for node_exporter"},
    {"tide metrics --format snapshot", "all that there is, as one JSON object"},
  },
  options = {
    arguments.shared.cluster,
    {name = "format", type = "string", choices = FORMATS, value = "FORMAT",
     doc = "prometheus (default), openmetrics, json (families), snapshot (the counters themselves)"},
    {name = "file", type = "string", value = "FILE", doc = "write to FILE, atomically, instead of to stdout"},
    {name = "watch", type = "duration", doc = "repeat at this interval until interrupted"},
  },
  stays = function(o) return o.watch ~= nil end,
  run = function(context)
    local o <const> = context.options
    local format <const> = o.format or context.json and "json" or "prometheus"
    local every <const> = o.watch and math.max(o.watch, WATCH_MIN_S)
    local deadline <const> = context.timeout_s and context.core.now() + context.timeout_s
    return cluster_view.attached(context, function()
      while true do
        local snapshot, err = collect.ask {hot = format == "snapshot" or nil}
        if not snapshot then return nil, err end
        local ok, problem = put(context, text_of(context, snapshot, format), o.file)
        if not ok then return nil, problem end
        if not every then return 0 end
        local exit <const> = cluster_view.pause(context.core, every, deadline)
        if exit then return exit == 124 and 124 or 0 end -- Ctrl-C is how one leaves it
      end
    end)
  end,
}
