-- `tide stat`: what a cluster does, a line a second.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local text = require "tide.text"
local units = require "tide.units"

local EVERY_S <const> = 1
local EVERY_MIN_S <const> = 0.2

local COLUMNS <const> = {
  {"nodes", 6}, {"actors", 7}, {"mailbox", 8}, {"messages/s", 11}, {"pulls/s", 9}, {"pushes/s", 9}, {"local", 7},
  {"wire/s", 10}, {"memory", 9}, {"of cap", 6},
}

local function totals(view, now)
  local t = {at = now, nodes = 0, actors = #view.actors, mailbox = 0, messages = 0, pulls = 0, pushes = 0, near = 0,
             wire_bytes = 0, rss_bytes = 0}
  for _, node in ipairs(view.nodes) do
    if node.state == "up" then t.nodes = t.nodes + 1 end
    t.rss_bytes = t.rss_bytes + (node.rss_bytes or 0)
    if node.memory_share then t.memory_share = math.max(t.memory_share or 0, node.memory_share) end
  end
  for _, actor in ipairs(view.actors) do
    t.mailbox = t.mailbox + (actor.mailbox_messages or 0)
    t.messages = t.messages + (actor.messages_handled or 0)
  end
  for _, link in ipairs(view.links) do t.wire_bytes = t.wire_bytes + (link.bytes_out or 0) end
  for _, part in ipairs(view.table_parts) do
    t.pulls = t.pulls + (part.pulls_local or 0) + (part.pulls_remote or 0)
    t.pushes = t.pushes + (part.pushes_local or 0) + (part.pushes_remote or 0)
    t.near = t.near + (part.pulls_local or 0) + (part.pushes_local or 0)
  end
  return t
end

-- Counters fall when a node or an actor ends, which is no negative rate.
local function rates(now, before)
  local seconds <const> = before and now.at - before.at or 0
  local function rate(key)
    return seconds > 0 and math.max(now[key] - before[key], 0) / seconds or 0
  end
  local line = {nodes = now.nodes, actors = now.actors, mailbox_messages = now.mailbox, rss_bytes = now.rss_bytes,
    messages_per_s = rate "messages", pulls_per_s = rate "pulls", pushes_per_s = rate "pushes",
    wire_bytes_per_s = rate "wire_bytes", memory_share = now.memory_share}
  local all <const> = rate "pulls" + rate "pushes"
  line.local_share = all > 0 and math.min(rate "near" / all, 1) or nil
  return line
end

local function print_line(context, line, header)
  if context.json then
    context:record(line)
    return
  end
  local values <const> = {
    line.nodes, line.actors, line.mailbox_messages, units.format_count(line.messages_per_s),
    units.format_count(line.pulls_per_s), units.format_count(line.pushes_per_s),
    line.local_share and units.format_share(line.local_share) or "-", units.format_size(line.wire_bytes_per_s),
    units.format_size(line.rss_bytes), line.memory_share and units.format_share(line.memory_share) or "-",
  }
  if context.plain then
    for i, v in ipairs(values) do values[i] = tostring(v) end
    context:print(table.concat(values, "\t"))
    return
  end
  local heads, cells = {}, {}
  for i, column in ipairs(COLUMNS) do
    heads[i] = text.pad(column[1], column[2], true)
    cells[i] = text.pad(tostring(values[i]), column[2], true)
  end
  if header then context:print(table.concat(heads, "  ")) end
  context:print(table.concat(cells, "  "))
end

return {
  name = "stat",
  brief = "load of a cluster, a line a second",
  summary = "Prints the load of a running cluster, a line a second, until interrupted.",
  examples = {
    {"tide stat", "the one cluster that runs"},
    {"tide stat --every 10s --count 6", "six lines in a minute"},
    {"tide stat --json", "a JSON object a line"},
  },
  options = {
    arguments.shared.cluster,
    {name = "every", type = "duration", doc = "time between lines (default 1s)"},
    {name = "count", type = "integer", min = 1, value = "N", doc = "end after so many lines"},
  },
  schema = "tide.stat/1",
  attached = true,
  run = function(context, o, client)
    local core <const> = context.core
    local every <const> = math.max(o.every or EVERY_S, EVERY_MIN_S)
    local deadline <const> = context.timeout_s and core.now() + context.timeout_s
    local before
    for n = 1, o.count or math.maxinteger do
      local view, err = cluster_view.collect(context, client)
      if not view then return nil, err end
      local now <const> = totals(view, core.now())
      print_line(context, rates(now, before), n % 20 == 1)
      before = now
      if n == o.count then break end
      local exit <const> = cluster_view.pause(core, every, deadline)
      if exit then return exit end
    end
    return 0
  end,
}
