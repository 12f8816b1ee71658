-- `tide table show NAME`: one table, node by node and worker by worker.
local arguments = require "tide.arguments"
local cluster_view = require "tide.cluster_view"
local errors = require "tide.errors"
local staleness = require "tide.staleness"
local table_show = require "tide.table_show"
local text = require "tide.text"

-- Of view.table_parts those of the table.
local function parts_of(view, name)
  local parts, names = {}, {}
  for _, part in ipairs(view.table_parts) do
    if part.name == name then parts[#parts + 1] = part end
    names[part.name] = true
  end
  if #parts > 0 then return parts end
  return nil, errors.new("T0401", {message = ("no table `%s` in this cluster"):format(text.clean(name)),
    help = text.did_you_mean(name, text.sorted_keys(names)) or "`tide tables` lists them"})
end

return {
  name = "table",
  brief = "one table: what its workers saw and waited for",
  summary = "Shows one table of a cluster: how it is used on each node and, if it has clocks, how old the rows were "
    .. "that each worker read, how long it waited, and what was sent for what reason.",
  examples = {
    {"tide table show mf.columns", "for people"},
    {"tide table show mf.columns --chart ages.svg", "and a picture of how old the rows were"},
    {"tide table show mf.columns --json", "exact figures as one object"},
  },
  arguments = {
    {name = "verb", doc = "show"},
    {name = "table", doc = "name of the table, as `tide tables` shows it"},
  },
  options = {
    arguments.shared.cluster,
    {name = "chart", type = "string", value = "FILE", doc = "write the picture there (SVG)"},
  },
  run = function(context)
    local o <const> = context.options
    if o.verb ~= "show" then
      return nil, errors.new("T0105", {message = ("`%s` is no verb of tables"):format(text.clean(o.verb)),
        help = "`tide table show NAME` is all there is"})
    end
    local view, err = cluster_view.read(context)
    if not view then return nil, err end
    local parts
    parts, err = parts_of(view, o.table)
    if not parts then return nil, err end
    local s <const> = table_show.staleness(parts)
    if o.chart and not s then
      return nil, errors.new("T0113", ("table `%s` is sequential: there are no ages to draw"):format(o.table))
    end
    if o.chart then
      local ok, problem = staleness.write(o.chart, {{name = o.table, staleness = s}})
      if not ok then return nil, errors.from(problem) end
    end
    if context.json then
      local workers = {}
      for number, w in pairs(s and s.workers or {}) do
        w.worker = number
        workers[#workers + 1] = w
      end
      table.sort(workers, function(a, b) return a.worker < b.worker end)
      if s then s.workers = workers end
      context:print(context.core.json_encode {schema = "tide.staleness/1", name = o.table, nodes = parts,
                                              staleness = s})
    else
      context:print(table_show.text(o.table, parts, {width = context.terminal.width, unicode = context.terminal.utf8,
                                                     color = context:colored "stdout"}))
    end
    return 0
  end,
}
