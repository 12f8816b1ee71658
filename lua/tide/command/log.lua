-- `tide log`: what the nodes of a cluster, or of a run that is over, have written.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local errors = require "tide.errors"
local history = require "tide.run.history"
local log_lines = require "tide.show.log_lines"
local text = require "tide.text"

local EVERY_S <const> = 0.5
local OLDER <const> = 9 -- files before the one that is written to

local function print_lines(context, lines)
  for _, line in ipairs(lines) do
    if context.json then
      context:record({time = line.time, level = line.level,
        node = line.node, text = line.text})
    elseif context.plain then
      context:print(table.concat({("%.3f"):format(line.time), line.level, text.clean(line.node),
        text.clean(line.text)}, "\t"))
    else
      context:print(log_lines.text(line))
    end
  end
end

local function wanted(context)
  local o <const> = context.options
  return {level = o.level, node = o.node, since = o.since and context.core.wall() - o.since}
end

-- The newest of them, limited by --last.
local function newest(context, lines)
  local most <const> = context.options.last
  return most and table.move(lines, math.max(1, #lines - most + 1), #lines, 1, {}) or lines
end

---- a cluster --------------------------------------------------------------------------------------------------------

-- Lines that no earlier look had, by node.
local function look(client, seen)
  local rows, err = client.gather "log"
  if not rows then return nil, err end
  local lists = {}
  for _, row in ipairs(rows) do
    local list = {}
    for _, line in ipairs(row.answer and row.answer.lines or {}) do
      if line.number > (seen[row.id] or 0) then
        seen[row.id] = line.number
        list[#list + 1] = {time = line.time, level = line.level, node = row.name, text = line.text}
      end
    end
    lists[#lists + 1] = list
  end
  return log_lines.merge(lists)
end

local function of_cluster(context)
  local o <const>, chosen <const> = context.options, wanted(context)
  local deadline <const> = context.timeout_s and context.core.now() + context.timeout_s
  return cluster_view.attached(context, function(client)
    local seen, first = {}, true
    while true do
      local lines, err = look(client, seen)
      if not lines then return nil, err end
      lines = log_lines.chosen(lines, chosen)
      print_lines(context, first and newest(context, lines) or lines)
      first = false
      if not o.follow then return 0 end
      local exit <const> = cluster_view.pause(context.core, EVERY_S, deadline)
      if exit then return exit == 124 and 124 or 0 end
    end
  end)
end

---- a run ------------------------------------------------------------------------------------------------------------

local function content_of(path)
  local file <const> = io.open(path, "rb")
  if not file then return "" end
  local content <const> = file:read "a" or ""
  file:close()
  return content
end

local function lines_of_run(run)
  local lists = {log_lines.read(content_of(run.directory .. "/run.log.1") .. content_of(run.directory .. "/run.log"),
    "run")}
  for _, name in ipairs(require("tide.core").file_list(run.directory) or {}) do
    local node <const> = name:match "^node%-([%w_.-]+)%.log$"
    if node then
      local parts = {}
      for i = OLDER, 1, -1 do parts[#parts + 1] = content_of(("%s/%s.%d"):format(run.directory, name, i)) end
      parts[#parts + 1] = content_of(run.directory .. "/" .. name)
      lists[#lists + 1] = log_lines.read(table.concat(parts), node)
    end
  end
  local events = {}
  for _, event in ipairs(history.events(run)) do
    if type(event.time) == "number" and type(event.text) == "string" then
      events[#events + 1] = {time = event.time, level = "info", node = tostring(event.kind), text = event.text}
    end
  end
  lists[#lists + 1] = events
  return log_lines.merge(lists)
end

local function of_run(context, run)
  local o <const>, chosen <const> = context.options, wanted(context)
  local deadline <const> = context.timeout_s and context.core.now() + context.timeout_s
  local shown = 0
  while true do
    local lines <const> = log_lines.chosen(lines_of_run(run), chosen)
    if shown == 0 then
      print_lines(context, newest(context, lines))
    else
      print_lines(context, table.move(lines, shown + 1, #lines, 1, {}))
    end
    shown = math.max(#lines, shown)
    local now <const> = o.follow and history.find(run.id, o.dir)
    if not now or now.state ~= "running" and now.state ~= "queued" then return 0 end
    local exit <const> = cluster_view.pause(context.core, EVERY_S, deadline)
    if exit then return exit == 124 and 124 or 0 end
  end
end

return {
  name = "log",
  brief = "log lines of nodes and runs: filter, merge, follow",
  summary = "Prints log lines oldest first: of the nodes of a running cluster, the newest 256 of each, or with --run "
    .. "of a run that the directory keeps, whole: its nodes, what its script and workers printed, and what happened. "
    .. "Times are in UTC.",
  examples = {
    {"tide log", "the nodes of the one cluster that runs"},
    {"tide log -f --level warn", "follow until Ctrl-C, only warnings and errors"},
    {"tide log --run last --since 10m", "of the newest run, its last ten minutes"},
    {"tide log --run last --node n2 --json", "one node, a JSON object a line"},
  },
  options = {
    arguments.shared.cluster,
    {name = "run", type = "string", value = "RUN", doc = "of this run: id, beginning of one, name or `last`"},
    {name = "dir", type = "string", value = "DIR", doc = "where runs are kept (default .tide/runs)"},
    {name = "follow", short = "f", doc = "follow new lines"},
    {name = "level", type = "string", choices = {"debug", "info", "warn", "error"}, value = "LEVEL",
     doc = "only this level and above"},
    {name = "node", type = "string", value = "NODE",
     doc = "only of this node; lines of the script and its workers are of `run`"},
    {name = "since", type = "duration", doc = "only what is not older than this"},
    {name = "last", type = "integer", min = 1, value = "N", doc = "only the last N lines, to begin with"},
  },
  stays = function(o) return o.follow == true end,
  schema = "tide.log/1",
  run = function(context)
    local o <const> = context.options
    if not o.run then
      if o.dir then return nil, errors.new("T0107", {message = "--dir requires --run",
        help = "tide log --run last --dir DIR"}) end
      return of_cluster(context)
    end
    local run, err = history.find(o.run, o.dir)
    if not run then return nil, err end
    return of_run(context, run)
  end,
}
