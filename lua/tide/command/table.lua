-- `tide table show NAME`: one table, node by node and worker by worker.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local errors = require "tide.errors"
local hot_keys = require "tide.show.hot_keys"
local locality = require "tide.show.locality"
local reader = require "tide.reader"
local staleness = require "tide.show.staleness"
local table_names = require "tide.cluster.table_names"
local table_show = require "tide.show.table"
local text = require "tide.text"
local units = require "tide.units"

local TOP_MAX <const> = 100

-- Of view.table_parts those of the table.
local function parts_of(view, name)
  local parts, names = {}, {}
  for _, part in ipairs(view.table_parts) do names[part.name] = true end
  local known <const> = text.sorted_keys(names)
  local found <const>, err = table_names.pick(name, known)
  for _, part in ipairs(view.table_parts) do
    if part.name == found then parts[#parts + 1] = part end
  end
  if found then return parts, nil, found end
  return nil, err
end

local function ask(context, request)
  return cluster_view.attached(context, function(client) return client.run("tide.command.job.inside", request) end)
end

-- `tide table set NAME rate=0.01 consistency=essp:4`.
local function set(context, o)
  local request = {op = "table.set", name = o.table}
  for _, word in ipairs(o.settings) do
    local key <const>, value <const> = word:match "^([%w_]+)=(.*)$"
    if key == "consistency" then
      request.consistency = value
    elseif key == "rate" and tonumber(value) then
      request.rate = tonumber(value)
    else
      return nil, errors.new("T0105", {message = ("`%s` is nothing to set"):format(text.clean(word)),
        help = "there are rate=0.01 and consistency=essp:4"})
    end
  end
  local answer <const>, problem <const> = ask(context, request)
  if not answer then return nil, problem end
  return context:tell(answer, ("table `%s`: %s"):format(text.clean(answer.name), table.concat({
    answer.rate and ("learning rate %g"):format(answer.rate) or "no learning rate",
    "consistency " .. answer.consistency}, ", ")))
end

-- `tide table drop NAME`.
local function drop(context, o)
  local ok, err = context:confirm(("Drop table `%s` with all its rows?"):format(text.clean(o.table)))
  if not ok then return nil, err end
  local answer, problem = ask(context, {op = "table.drop", name = o.table, force = o.force or false})
  if not answer then return nil, problem end
  return context:tell({name = answer.name, dropped = true},
    ("table `%s` is dropped"):format(text.clean(answer.name)))
end

-- `tide table export NAME --dir ckpt --since 3 --out patch.safetensors`: from files, without a cluster.
local function export(context, o)
  if not o.dir or not o.out then
    return nil, errors.new("T0105", {message = "`tide table export` requires --dir and --out",
      help = "tide table export rows --dir ckpt --since 3 --out patch.safetensors"})
  end
  if not o.out:find "%.safetensors$" then
    return nil, errors.new("T0105", {message = ("`%s` is no safetensors file"):format(text.clean(o.out)),
      help = "write to FILE.safetensors"})
  end
  local what <const>, err <const> = reader.export {dir = o.dir, table = o.table, since = o.since,
    path = o.out}
  if not what then return nil, err end
  return context:tell(what, ("%s: %d rows and %d keys that are gone, from generation %d to %d"):format(
    what.table, what.rows, what.gone, what.from, what.to))
end

-- `tide table follow NAME --dir cache`: copies a run's generations here, and each new one, until Ctrl-C.
local function follow(context, o)
  if not o.dir then
    return nil, errors.new("T0105", {message = "where to?", help = "tide table follow users --dir cache --every 1s"})
  end
  local every_s <const>, why <const> = units.parse_duration(o.every or "1s")
  if not every_s or every_s <= 0 then
    return nil, errors.new("T0105", {message = "--every: " .. (why or "a time above 0")})
  end
  local deadline <const> = context.timeout_s and context.core.now() + context.timeout_s
  return cluster_view.attached(context, function(client)
    local last, generation
    while true do
      local copied <const>, err = client.look("tide.run.follower.inside", {table = o.table, dir = o.dir})
      if not copied and o.once then return nil, err end
      local said <const> = err and errors.from(err).message
      if said and said ~= last then context:say("waiting: " .. said) end
      last = said
      if copied and copied.generation ~= generation then
        generation = copied.generation
        local told <const> = context:tell(copied, ("%s: generation %d, %s copied, %s old"):format(copied.table,
          copied.generation, units.format_size(copied.bytes), units.format_duration(copied.behind_s)))
        if o.once then return told end
      end
      local code <const> = cluster_view.pause(context.core, every_s, deadline)
      if code then return code end
    end
  end)
end

local TABLE <const> = {name = "table", doc = "name of the table, as `tide tables` shows it"}

local function show(context, o)
  local parts, found
  local ok, err = cluster_view.attached(context, function(client)
    local view, problem = cluster_view.collect(context, client)
    if not view then return nil, problem end
    local name
    parts, problem, name = parts_of(view, o.table)
    o.table = name or o.table
    if not parts then return nil, problem end
    found, problem = locality.look(client, o.table, parts, math.min(math.max(o.top or 10, 0), TOP_MAX))
    return found, problem
  end)
  if not ok then return nil, err end
  table.sort(parts, function(a, b) return a.node < b.node end)
  local s <const> = table_show.staleness(parts)
  if o.chart and not s then
    return nil, errors.new("T0117", ("table `%s` is sequential and has no staleness to draw"):format(o.table))
  end
  if o.chart then
    local written, problem = staleness.write(o.chart, {{name = o.table, staleness = s}})
    if not written then return nil, errors.from(problem) end
  end
  if o.svg then
    local chart <const> = hot_keys.locality_chart("Accesses to " .. o.table, parts)
    local written, problem = require("tide.chart").write(o.svg, {chart})
    if not written then return nil, errors.from(problem) end
  end
  if context.json then
    local workers = {}
    for number, w in pairs(s and s.workers or {}) do
      w.worker = number
      workers[#workers + 1] = w
    end
    table.sort(workers, function(a, b) return a.worker < b.worker end)
    if s then s.workers = workers end
    context:record({name = o.table, nodes = parts,
      staleness = s, hottest = hot_keys.to_data(found.hottest), relocate_p50_s = found.relocate_p50_s,
      relocate_p99_s = found.relocate_p99_s})
  else
    local form <const> = {width = context.terminal.width, unicode = context.terminal.utf8,
                          color = context:colored "stdout"}
    context:print(table_show.text(o.table, parts, form) .. "\n\n" .. locality.text(parts, found, form))
  end
  return 0
end

return {
  name = "table",
  brief = "one table: locality, relocations, hot keys, staleness, waits",
  summary = "Shows one table of a cluster: how it is used on each node, rows that move and how long they take, the "
    .. "hottest keys and whose workers access them (estimated from 1 access in 64, older ones counting less); if it "
    .. "has clocks, how old the rows were that each worker read, how long it waited, and what was sent for what "
    .. "reason.",
  examples = {
    {"tide table show mf.columns", "for people"},
    {"tide table show mf.columns --chart ages.svg", "and a picture of how old the rows were"},
    {"tide table show mf.columns --svg locality.svg", "and of accesses on the node and elsewhere"},
    {"tide table show mf.columns --json", "exact figures as one object"},
    {"tide table set mf.columns rate=0.01", "another learning rate for all nodes, from now on"},
    {"tide table drop hits -y", "drops it on all nodes, with its rows"},
    {"tide table follow users --dir cache --every 1s", "copies what a run publishes to this machine, for tide.reader"},
    {"tide table export rows --dir ckpt --since 3 --out patch.safetensors", "rows changed since, deleted keys"},
  },
  verbs = {
    {name = "show", doc = "locality, moves, hot keys, ages", arguments = {TABLE},
     schema = "tide.staleness/1", run = show},
    {name = "set", doc = "another learning rate or consistency, from now on", run = set,
     arguments = {TABLE, {name = "settings", many = 1, doc = "rate=0.01, consistency=essp:4"}}},
    {name = "drop", doc = "drops it on all nodes, with its rows", arguments = {TABLE}, run = drop},
    {name = "export", doc = "rows changed since a generation, from files", arguments = {TABLE}, run = export},
    {name = "follow", doc = "copies generations of a run here as they come", arguments = {TABLE}, run = follow},
  },
  schema = "tide.table/1",
  options = {
    arguments.shared.cluster, arguments.shared.yes,
    {name = "force", of = "drop", doc = "also if an active run uses it"},
    {name = "dir", type = "string", value = "DIR", of = "export, follow",
     doc = "the directory of the checkpoints; of follow: of the copies"},
    {name = "every", type = "string", value = "TIME", of = "follow", doc = "between two looks (default 1s)"},
    {name = "once", of = "follow", doc = "ends when the directory is up to date"},
    {name = "since", type = "integer", min = 0, value = "N",
      of = "export", doc = "changes after this generation (default 0: all rows)"},
    {name = "out", type = "string", value = "FILE", of = "export", doc = "the safetensors file"},
    {name = "chart", of = "show", type = "string", value = "FILE", doc = "write the picture of ages there (SVG)"},
    {name = "top", of = "show", type = "integer", value = "N", doc = "hottest keys to show (default 10, at most 100)"},
    {name = "svg", of = "show", type = "string", value = "FILE",
     doc = "write a chart of local and remote accesses by node"},
  },
}
