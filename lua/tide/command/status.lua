-- `tide status`: a running cluster at a glance.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local collect = require "tide.cluster.collect"
local slowest = require "tide.show.slowest"
local table_view = require "tide.show.table_view"
local text = require "tide.text"
local units = require "tide.units"

local function sum(rows, key)
  local total = 0
  for _, row in ipairs(rows) do total = total + (row[key] or 0) end
  return total
end

local function states(nodes)
  local counts, parts = {}, {}
  for _, node in ipairs(nodes) do
    local state <const> = node.state or "?"
    counts[state] = (counts[state] or 0) + 1
  end
  for _, state in ipairs(text.sorted_keys(counts)) do parts[#parts + 1] = counts[state] .. " " .. state end
  return table.concat(parts, ", ")
end

local NODE_COLUMNS <const> = {
  {key = "name", title = "node"}, {key = "state"}, {key = "workers"},
  {key = "rss_bytes", title = "memory", format = "size"}, {key = "memory_share", title = "of cap", format = "share"},
  {key = "actors"},
  {key = "mailbox_messages", title = "mail"}, {key = "problem"},
}
local TABLE_COLUMNS <const> = {
  {key = "name", title = "table"}, {key = "rows", format = "count"},
  {key = "memory_bytes", title = "memory", format = "size"},
  {key = "local_share", title = "local", format = "share"},
  {key = "bytes_out", title = "wire out", format = "size"},
}

-- The few that held a thread longest.
local SLOW_ROWS <const> = 5
local SLOW_COLUMNS <const> = {
  {key = "node", title = "slow on"}, {key = "role", title = "thread"}, {key = "type", title = "actor"},
  {key = "count", title = "times"}, {key = "longest_s", title = "longest", format = "duration"},
  {key = "seconds", title = "in all", format = "duration"},
}

local function slowest_first(view)
  local rows <const> = table.move(view.slow, 1, #view.slow, 1, {})
  table.sort(rows, function(a, b) return a.longest_s > b.longest_s end)
  return table.move(rows, 1, SLOW_ROWS, 1, {})
end

local function print_for_people(context, view)
  context:print(("cluster `%s`, view %s: nodes %s; %d tables, %s of rows"):format(
    text.clean(view.cluster or "?"), tostring(view.view or "?"), states(view.nodes), #view.tables,
    units.format_size(sum(view.tables, "memory_bytes"))))
  context:print ""
  context:print(table.concat(context:table_lines(view.nodes, NODE_COLUMNS), "\n"))
  if #view.tables > 0 then
    context:print ""
    context:print(table.concat(context:table_lines(view.tables, TABLE_COLUMNS), "\n"))
  end
  if #view.slow > 0 then
    context:print ""
    context:print(table.concat(context:table_lines(slowest_first(view), SLOW_COLUMNS), "\n"))
  end
  for i, finding in ipairs(view.findings) do
    if i == 1 then context:print "" end
    context:print(text.clean(("%s: %s"):format(finding.run, finding.sentence)))
  end
end

local function print_plain(context, view)
  context:print(table.concat({"cluster", text.clean(view.cluster or ""), tostring(view.view or "")}, "\t"))
  for _, line in ipairs(table_view.plain_lines(view.nodes, NODE_COLUMNS)) do context:print("node\t" .. line) end
  for _, line in ipairs(table_view.plain_lines(view.tables, TABLE_COLUMNS)) do context:print("table\t" .. line) end
  for _, line in ipairs(table_view.plain_lines(slowest_first(view), SLOW_COLUMNS)) do
    context:print("slow\t" .. line)
  end
  for _, finding in ipairs(view.findings) do
    context:print(table.concat({"run", text.clean(finding.run), finding.cause, text.clean(finding.sentence)}, "\t"))
  end
end

-- Returns the view, and the bottleneck of each run since its start.
local function look(context, client)
  local view, err = cluster_view.collect(context, client)
  if not view then return nil, err end
  local snapshot
  snapshot, err = collect.ask {hot = true}
  if not snapshot then return nil, err end
  view.findings = slowest.of(nil, snapshot)
  return view
end

return {
  name = "status",
  brief = "a running cluster at a glance",
  summary = "Shows a running cluster: its nodes, their load, its tables, and the bottleneck of each run so far.",
  examples = {
    {"tide status", "the one cluster that runs"},
    {"tide status --cluster lab", "the cluster of that name"},
    {"tide status --json", "everything as one JSON object"},
  },
  options = {arguments.shared.cluster},
  schema = "tide.status/1",
  run = function(context)
    local view, err = cluster_view.attached(context, function(client) return look(context, client) end)
    if not view then return nil, err end
    if context.json then
      context:record({cluster = view.cluster, view = view.view},
        {nodes = view.nodes, tables = view.tables, slow = view.slow, runs = view.findings})
    elseif context.plain then
      print_plain(context, view)
    else
      print_for_people(context, view)
    end
    return 0
  end,
}
