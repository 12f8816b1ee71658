-- `tide table show`: one parameter table in full: where accesses go, how rows move, which keys are hot.
local arguments = require "tide.arguments"
local cluster_view = require "tide.cluster_view"
local errors = require "tide.errors"
local heat = require "tide.heat"
local table_view = require "tide.table_view"
local text = require "tide.text"

local NODES <const> = {
  {key = "node"}, {key = "rows", format = "count"}, {key = "pulls_local", title = "pulls", format = "count"},
  {key = "pulls_remote", title = "remote", format = "count"},
  {key = "pushes_local", title = "pushes", format = "count"},
  {key = "pushes_remote", title = "remote", format = "count"}, {key = "queued", format = "count"},
  {key = "local_share", title = "local", format = "share"},
  {key = "relocated_in", title = "rows in", format = "count"}, {key = "relocated_out", title = "out", format = "count"},
  {key = "location_used", title = "straight", format = "count"},
  {key = "location_stale", title = "stale", format = "count"},
  {key = "bytes_out", title = "wire out", format = "size"},
}

local KEYS <const> = {
  {key = "key"}, {key = "accesses", format = "count"}, {key = "share", format = "share"},
  {key = "reads", format = "count"}, {key = "writes", format = "count"}, {key = "by"},
}

-- "n1 70 %, n2 30 %": whose workers access a key.
local function by_node(k)
  local parts = {}
  for _, node in ipairs(text.sorted_keys(k.nodes)) do
    local n <const> = k.nodes[node]
    parts[#parts + 1] = ("%s %.0f %%"):format(node, 100 * (n.reads + n.writes) / k.accesses)
  end
  return table.concat(parts, ", ")
end

---What is known of a table, over all nodes.
---@param context tide.context
---@param cluster table
---@param name string
---@param top integer
---@return table? found
---@return tide.error? err
local function look(context, cluster, name, top)
  local view, err = cluster_view.collect(context, cluster)
  if not view then return nil, err end
  local found, names = {name = name, nodes = {}, times = {}}, {}
  for _, sum in ipairs(view.tables) do
    names[#names + 1] = sum.name
    if sum.name == name then found.sum = sum end
  end
  if not found.sum then
    return nil, errors.new("T0401", {message = ("no table `%s`"):format(text.clean(name)),
      help = text.did_you_mean(name, names) or "`tide tables` lists them"})
  end
  for _, part in ipairs(view.table_parts) do
    if part.name == name then
      found.nodes[#found.nodes + 1] = part
      heat.add_times(found.times, part.relocate_hist)
    end
  end
  table.sort(found.nodes, function(a, b) return a.node < b.node end)
  local rows, problem = cluster.gather("hottest", {tables = {name}, count = math.max(4 * top, 40)})
  if not rows then return nil, errors.from(problem) end
  local answers = {}
  for _, row in ipairs(rows) do answers[row.name] = row.answer and row.answer[name] end
  found.hottest = heat.merge(answers, top)
  for _, k in ipairs(found.hottest) do k.by = by_node(k) end
  return found
end

local function print_found(context, found)
  local p50 <const>, p99 <const> = heat.quantile(found.times, 0.5), heat.quantile(found.times, 0.99)
  if context.json then
    context:print(context.core.json_encode {schema = "tide.locality/1", name = found.name, sum = found.sum,
      nodes = found.nodes, hottest = found.hottest, relocate_p50_s = p50, relocate_p99_s = p99})
    return
  end
  local o <const> = {width = context.terminal.width, unicode = context.terminal.utf8,
                     color = context:colored "stdout"}
  local lines <const> = context.plain and table_view.plain_lines or table_view.lines
  context:print(table.concat(lines(found.nodes, NODES, o), "\n"))
  if p50 and not context.plain then
    context:print(("\nrows come in %.3g ms (median; 99 %% within %.3g ms)"):format(1e3 * p50, 1e3 * p99))
  end
  if #found.hottest > 0 then
    context:print("\n" .. table.concat(lines(found.hottest, KEYS, o), "\n"))
  end
end

return {
  name = "table",
  brief = "one parameter table: locality, moves, hot keys",
  summary = "Shows one table: what each node accesses where, rows that move and how long they take, the hottest " ..
    "keys and whose workers access them (estimated from 1 access in 64, older ones counting less).",
  examples = {
    {"tide table show mf.rows", "nodes, times of moves, ten keys"},
    {"tide table show mf.rows --svg locality.svg", "and a chart of accesses on the node and elsewhere"},
  },
  arguments = {
    {name = "verb", doc = "show"},
    {name = "table", doc = "name of the table, as `tide tables` shows it"},
  },
  options = {
    arguments.shared.cluster,
    {name = "top", type = "integer", value = "N", doc = "hottest keys to show (default 10, at most 100)"},
    {name = "svg", type = "string", value = "FILE", doc = "write a chart of local and remote accesses by node"},
  },
  run = function(context)
    local o <const> = context.options
    if o.verb ~= "show" then
      return nil, errors.new("T0105", {message = ("`%s` is no verb of tide table"):format(text.clean(o.verb)),
        help = "tide table show NAME"})
    end
    local top <const> = math.min(math.max(o.top or 10, 0), 100)
    local found, err = cluster_view.attached(context, function(cluster)
      return look(context, cluster, o.table, top)
    end)
    if not found then return nil, err end
    print_found(context, found)
    if o.svg then
      local chart <const> = heat.locality_chart("Accesses to " .. found.name, found.nodes)
      local ok, problem = require("tide.chart").write(o.svg, {chart})
      if not ok then return nil, errors.from(problem) end
    end
    return 0
  end,
}
