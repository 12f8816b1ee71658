-- `tide runs VERB`: what is left of the runs of a directory.
local arguments = require "tide.cli.arguments"
local artifacts = require "tide.run.artifacts"
local chart = require "tide.chart"
local csv = require "tide.csv"
local errors = require "tide.errors"
local gc = require "tide.run.gc"
local history = require "tide.run.history"
local list_of = require "tide.command.artifacts"
local log_query = require "tide.run.log_query"
local notes = require "tide.run.notes"
local listing = require "tide.command.listing"
local report_of = require "tide.report"
local run_log = require "tide.run.run_log"
local run_logs = require "tide.command.run_logs"
local tensorboard = require "tide.show.tensorboard"
local text = require "tide.text"
local units = require "tide.units"

local COLUMNS <const> = {
  {key = "id", title = "run"}, {key = "name"}, {key = "state"},
  {key = "took_s", title = "took", format = "duration"}, {key = "reports"}, {key = "loss", format = "rough"},
  {key = "examples_per_s", title = "ex/s", format = "count"}, {key = "seed"}, {key = "arguments", title = "options"},
}
local TAGS <const> = {key = "tags"} -- a column where a run has some
local AXES <const> = {n = "report", elapsed_s = "seconds", examples = "examples"}
local FORMATS <const> = {"csv", "json", "tensorboard"}
local LOG_LINES <const> = 10

local function root_of(context) return context.options.dir or history.ROOT end

-- A row for tables and expressions: params are fields of their own where no other has the name.
local function row_of(run)
  local row = {}
  for k, v in pairs(type(run.params) == "table" and run.params or {}) do
    if type(v) ~= "table" then row[k] = v end
  end
  for k, v in pairs(run) do
    if type(v) ~= "table" then row[k] = v end
  end
  row.tags = table.concat(run.tags or {}, " ")
  row.schema = nil -- that of the file
  row.began = run.started_at and os.date("%F %T", run.started_at // 1 | 0)
  row.arguments = type(run.args) == "table" and table.concat(run.args, " ") or nil
  return row
end

local function list(context)
  local rows, columns = history.list(root_of(context)), table.move(COLUMNS, 1, #COLUMNS, 1, {})
  for i, run in ipairs(rows) do
    if run.tags and columns[#columns] ~= TAGS then columns[#columns + 1] = TAGS end
    rows[i] = row_of(run)
  end
  if #rows == 0 then context:say(("no runs are kept in %s"):format(text.clean(root_of(context)))) end
  return listing.print(context, rows, columns, context.options.last)
end

-- First, least, greatest and last value of each curve.
local function curves_of(reports)
  local rows = {}
  for _, name in ipairs(history.names(reports)) do
    local row
    for _, report in ipairs(reports) do
      local v <const> = report_of.value(report, name)
      if v then
        row = row or {curve = name, first = v, least = v, greatest = v}
        row.least, row.greatest, row.last = math.min(row.least, v), math.max(row.greatest, v), v
      end
    end
    rows[#rows + 1] = row
  end
  return rows
end

local CURVE_COLUMNS <const> = {{key = "curve"}, {key = "first"}, {key = "least"}, {key = "greatest"}, {key = "last"}}

local function show(context, runs)
  local run <const> = runs[1]
  local reports <const>, events <const> = history.reports(run), history.events(run)
  if context.json then
    run.curves, run.events = curves_of(reports), events
    if #run.curves == 0 then run.curves = nil end
    if #run.events == 0 then run.events = nil end
    context:print(context.core.json_encode(run))
    return 0
  end
  context:field("run", run.name and ("%s (%s)"):format(run.id, run.name) or run.id)
  if type(run.error) == "table" then
    local place <const> = run.error.where and run.error.where .. ": " or ""
    context:field("error", ("%s %s%s"):format(run.error.code or "", place, run.error.message or ""))
  end
  context:field("state", run.why and ("%s: %s"):format(run.state, run.why) or run.state)
  context:field("began", run.started_at and os.date("%F %T", run.started_at // 1 | 0))
  context:field("took", run.took_s and units.format_duration(run.took_s))
  context:field("script", run.script)
  context:field("params", text.assignments(run.params))
  context:field("seed", run.seed)
  context:field("person", run.user)
  context:field("tags", run.tags and table.concat(run.tags, " "))
  context:field("note", run.note)
  context:field("host", run.host and ("%s, pid %s, tide %s"):format(run.host, run.pid or "?", run.version or "?"))
  context:field("commit", run.git)
  context:field("reports", #reports)
  context:field("directory", run.directory)
  local words = {"tide run", run.script and text.shell_word(run.script)}
  for _, word in ipairs(type(run.args) == "table" and run.args or {}) do words[#words + 1] = text.shell_word(word) end
  context:field("again", run.script and table.concat(words, " "))
  if #reports > 0 then
    context:print ""
    context:print(table.concat(context:table_lines(curves_of(reports), CURVE_COLUMNS), "\n"))
  end
  for i, event in ipairs(events) do
    if i == 1 then context:print "" end
    if i > #events - LOG_LINES then
      context:print(("%s  %-10s %s"):format(os.date("%T", (event.time or 0) // 1 | 0), text.clean(event.kind or ""),
        text.clean(event.text or "")))
    end
  end
  local log <const> = text.last_lines(run_log.read(run.directory) or "", LOG_LINES)
  if log ~= "" then context:print("\n" .. text.clean_lines(log)) end
  return 0
end

local function list_artifacts(context, runs)
  return list_of(context, artifacts.list(runs[1].directory), runs[1].id)
end

-- Removes runs that are over: by age, and the oldest until the rest has a size. Those with the tag `keep` stay.
local function collect(context, o)
  if not o.older and not o.size then
    return nil, errors.new("T0103", {message = "`tide runs gc` requires --older, --size or both",
      help = "tide runs gc --older 30d --size 20GB --dry-run"})
  end
  local found <const> = gc.plan(history.list(root_of(context)), {older_s = o.older, bytes = o.size,
    now = context.core.wall()})
  local bytes = 0
  for _, each in ipairs(found.remove) do
    local ok, err = true, nil
    if not o.dry_run then ok, err = gc.remove(each.run.directory) end
    if not ok then return nil, err end
    bytes = bytes + each.bytes
    context:say(("%s %s, %s (%s)"):format(o.dry_run and "would remove" or "removed", each.run.id,
      units.format_size(each.bytes), each.why))
  end
  return context:tell({removed = #found.remove, bytes = bytes, left_bytes = found.bytes - bytes,
    dry_run = o.dry_run or nil}, ("%s %d of %d runs, %s; %s stays"):format(o.dry_run and "would remove" or "removed",
    #found.remove, found.count, units.format_size(bytes), units.format_size(found.bytes - bytes)))
end

---- compare ----------------------------------------------------------------------------------------------------------

-- What differs between runs: script, seed, options and params, one row each.
local function differences(runs)
  local values, names = {}, {}
  local function note(i, name, value)
    if value == nil then return end
    if not values[name] then values[name], names[#names + 1] = {}, name end
    values[name][i] = type(value) == "table" and table.concat(value, " ") or tostring(value)
  end
  for i, run in ipairs(runs) do
    note(i, "script", run.sha256 and run.sha256:sub(1, 12))
    note(i, "commit", run.git and run.git:sub(1, 12))
    note(i, "seed", run.seed)
    note(i, "options", type(run.args) == "table" and run.args)
    for k, v in pairs(type(run.params) == "table" and run.params or {}) do
      if type(v) ~= "table" then note(i, "params." .. k, v) end
    end
  end
  table.sort(names)
  local rows = {}
  for _, name in ipairs(names) do
    local row, same = {what = name}, true
    for i, run in ipairs(runs) do
      row[run.id] = values[name][i] or "-"
      same = same and values[name][i] == values[name][1]
    end
    if not same then rows[#rows + 1] = row end
  end
  return rows
end

local function compare(context, runs)
  local o <const> = context.options
  local metric <const>, x <const> = o.metric or "loss", o.x or "n"
  local series, rows, known = {}, {}, {}
  for i, run in ipairs(runs) do
    local reports <const> = history.reports(run)
    for _, name in ipairs(history.names(reports)) do known[name] = true end
    local points <const> = history.curve(reports, metric, x)
    local row = row_of(run)
    row.points = #points
    for _, p in ipairs(points) do
      row.least = math.min(row.least or p[2], p[2])
      row.greatest, row.last = math.max(row.greatest or p[2], p[2]), p[2]
    end
    rows[i] = row
    series[i] = {name = run.name and ("%s %s"):format(run.name, run.id:sub(-4)) or run.id, points = points}
  end
  local there = false
  for _, s in ipairs(series) do there = there or #s.points > 0 end
  if not there then
    return nil, errors.new("T0401", {message = ("none of these runs has a curve `%s`"):format(text.clean(metric)),
      help = next(known) and "there are: " .. table.concat(text.sorted_keys(known), ", ") or "they made no reports"})
  end
  if o.to then
    local ok, err = chart.write(o.to,
      {{title = metric, x = AXES[x], y = metric, log_y = o.log or nil, series = series}})
    if not ok then
      return nil, errors.new("T0403", {message = ("the chart cannot be written: %s"):format(err.message), where = o.to})
    end
    context:say(("wrote %s"):format(text.clean(o.to)))
  end
  local columns <const> = {{key = "id", title = "run"}, {key = "name"}, {key = "state"}, {key = "points"},
    {key = "least"}, {key = "greatest"}, {key = "last"}, {key = "took_s", title = "took", format = "duration"}}
  local code, err = listing.print(context, rows, columns, context.options.last)
  if not code or context.json or context.plain then return code, err end
  local differs <const> = differences(runs)
  if #differs > 0 then
    local heads = {{key = "what", title = "differs"}}
    for _, run in ipairs(runs) do heads[#heads + 1] = {key = run.id} end
    context:print ""
    context:print(table.concat(context:table_lines(differs, heads), "\n"))
  end
  return 0
end

---- export -----------------------------------------------------------------------------------------------------------

local exports = {}

function exports.csv(context, runs)
  local seen, of = {}, {}
  for i, run in ipairs(runs) do
    of[i] = history.reports(run)
    for _, name in ipairs(history.names(of[i])) do seen[name] = true end
  end
  local fields <const>, records <const> = {"run", "n", "time", "elapsed_s"}, {}
  table.move(text.sorted_keys(seen), 1, #text.sorted_keys(seen), #fields + 1, fields)
  for i, run in ipairs(runs) do
    for _, report in ipairs(of[i]) do
      records[#records + 1] = setmetatable({run = run.id}, {__index = function(_, name)
        return report_of.value(report, name)
      end})
    end
  end
  return {[context.options.to or ""] = csv.records(fields, records)}
end

function exports.json(context, runs)
  local lines = {}
  for i, run in ipairs(runs) do
    local reports <const>, events <const> = history.reports(run), history.events(run)
    run.schema = context.schema
    run.reports_list = #reports > 0 and reports or nil
    run.events = #events > 0 and events or nil
    lines[i] = context.core.json_encode(run)
  end
  return {[context.options.to or ""] = table.concat(lines, "\n") .. "\n"}
end

function exports.tensorboard(context, runs)
  local to <const> = context.options.to
  if not to then
    return nil, errors.new("T0103", {message = "--to is missing: a directory, for `tensorboard --logdir`",
      help = "tide runs export last --format tensorboard --to board"})
  end
  local files = {}
  for _, directory in ipairs {to} do context.core.mkdir(directory) end
  for _, run in ipairs(runs) do
    local reports <const> = history.reports(run)
    context.core.mkdir(to .. "/" .. run.id)
    files[("%s/%s/%s"):format(to, run.id, tensorboard.name(run))] =
      tensorboard.file(reports, report_of.value, history.names(reports), run.started_at or 0)
  end
  return files
end

local function export(context, runs)
  local files, err = exports[context.options.format or "csv"](context, runs)
  if not files then return nil, err end
  for _, path in ipairs(text.sorted_keys(files)) do
    if path == "" then
      context.write_out(files[path])
    else
      local ok, problem = context.core.file_write(path, files[path])
      if not ok then
        return nil, errors.new("T0403", {message = ("the export cannot be written: %s"):format(problem.message),
          where = path})
      end
      context:say(("wrote %s"):format(text.clean(path)))
    end
  end
  return 0
end

-- The first name is the run, the rest is what is noted.
local function noted(context, o)
  local run, err = history.find(o.run, root_of(context))
  if not run then return nil, err end
  local changed, problem = notes.changed(run, {note = o.text and table.concat(o.text, " "), tags = o.tags})
  if not changed then return nil, problem end
  local ok, why = notes.write(run.directory, changed)
  if not ok then return nil, why end
  context:say(("%s: %s"):format(run.id, o.text and "noted"
    or #changed.tags > 0 and "tags " .. table.concat(changed.tags, " ") or "no tags"))
  return 0
end

-- A verb of some of the runs that are kept: f(context, runs).
local function of_runs(f)
  return function(context, o)
    local runs = {}
    for i, name in ipairs(o.runs or {o.run}) do
      local run, err = history.find(name, root_of(context))
      if not run then return nil, err end
      runs[i] = run
    end
    return f(context, runs)
  end
end

local RUN <const> = {name = "run", doc = "id, the beginning of one, name (the newest), or `last`"}

return {
  name = "runs",
  brief = "past runs: list, show, logs, artifacts, compare, export, note, tag, gc",
  summary = "Works with the runs that a directory keeps in .tide/runs: lists them, shows one, compares learning "
    .. "curves, exports them, keeps notes about them.",
  examples = {
    {"tide runs", "all of them, oldest first"},
    {"tide runs list --where 'loss < 0.9 and rank == 64' --sort loss", "those, by a param too"},
    {"tide runs show last", "one: how it ended, its curves, its log"},
    {"tide runs logs last --rank 2 --search loss", "its whole log, or lines of it"},
    {"tide runs logs last --all --since 10m", "with the logs of its nodes and its events"},
    {"tide runs gc --older 30d --size 20GB -n", "what would be removed; those with the tag `keep` stay"},
    {"tide runs compare 20261126-1 mf-3 --to loss.svg", "their learning curves over each other"},
    {"tide runs export last --format csv --to curves.csv", "each report a line; also json"},
    {"tide runs export last --format tensorboard --to board", "then: tensorboard --logdir board"},
    {"tide runs note mf-3 'the baseline of the paper'", "one text a run; an empty one removes it"},
    {"tide runs tag mf-3 baseline lr=low draft-", "adds two tags, removes one; `--where 'tags:find \"baseline\"'`"},
  },
  verbs = {
    {name = "list", doc = "all of them", run = list},
    {name = "show", doc = "one: how it ended, its curves, its log", arguments = {RUN}, run = of_runs(show)},
    {name = "logs", doc = "its whole log, or lines of it", arguments = {RUN}, schema = "tide.log/1",
     stays = function(o) return o.follow == true end,
     run = of_runs(function(context, runs) return run_logs.of_directory(context, runs[1]) end)},
    {name = "artifacts", doc = "the files that it keeps", arguments = {RUN}, schema = "tide.artifact/1",
     run = of_runs(list_artifacts)},
    {name = "gc", doc = "removes ended runs by age and size; those with the tag `keep` stay",
     schema = "tide.gc/1", run = collect},
    {name = "compare", doc = "compares learning curves", schema = "tide.comparison/1",
     run = of_runs(compare), arguments = {{name = "runs", many = 2, doc = "the runs"}}},
    {name = "export", doc = "the reports of runs", arguments = {{name = "runs", many = 1, doc = "the runs"}},
     run = of_runs(export)},
    {name = "note", doc = "a text about a run", arguments = {RUN, {name = "text", many = 1, doc = "the text"}},
     run = noted},
    {name = "tag", doc = "adds tags to a run; `draft-` removes one",
     arguments = {RUN, {name = "tags", many = 1, doc = "such as baseline, lr=low, draft-"}}, run = noted},
  },
  verb = "list",
  schema = "tide.pastrun/1",
  options = {
    {name = "dir", type = "string", value = "DIR", doc = "where runs are kept (default .tide/runs)"},
    {name = "where", of = "list, compare", type = "string", value = "EXPR",
     doc = "only runs for which a Lua expression holds"},
    {name = "sort", of = "list, compare", type = "string", value = "FIELD",
     doc = "order by a field: numbers from the largest, text from A"},
    {name = "reverse", of = "list, compare", doc = "turn the order of --sort round"},
    {name = "last", type = "integer", min = 1, value = "N", of = "list, logs", doc = "only the last N"},
    {name = "metric", type = "string", value = "NAME", of = "compare", doc = "the curve (default loss)"},
    {name = "x", type = "string", choices = {"n", "elapsed_s", "examples"}, value = "AXIS",
     of = "compare", doc = "over reports (n, default), elapsed_s or examples"},
    {name = "log", of = "compare", doc = "a logarithmic axis"},
    {name = "format", type = "string", choices = FORMATS, value = "FORMAT",
     of = "export", doc = "csv (default), json or tensorboard"},
    {name = "to", of = "compare, export", type = "string", value = "PATH",
     doc = "the SVG of compare; file or directory of export"},
    {name = "dry-run", short = "n", of = "gc", doc = arguments.shared.dry_run.doc},
    {name = "older", of = "gc", type = "duration", doc = "runs that ended longer ago"},
    {name = "size", of = "gc", type = "size", doc = "the oldest runs, until the others take no more than this"},
    {name = "follow", short = "f", of = "logs", doc = "follow new lines until the run ends"},
    {name = "all", short = "a", of = "logs", doc = "with the logs of its nodes and its events, by time"},
    {name = "level", of = "logs", type = "string", choices = {"debug", "info", "warn", "error"}, value = "LEVEL",
     doc = "of all: only this level and above"},
    {name = "node", of = "logs", type = "string", value = "NODE",
     doc = "of all: only of this node; lines of the script and its workers are of `run`"},
    table.unpack(log_query.OPTIONS),
  },
}
