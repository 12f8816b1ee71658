-- `tide runs logs` and `tide job logs`: the log of a run from its directory or from its cluster; or that from its
-- directory together with the logs of its nodes and its events.
local cluster_view = require "tide.cluster.view"
local core = require "tide.core"
local errors = require "tide.errors"
local history = require "tide.run.history"
local log_lines = require "tide.show.log_lines"
local log_query = require "tide.run.log_query"
local run_log = require "tide.run.run_log"
local text = require "tide.text"
local units = require "tide.units"

local run_logs = {}

local EVERY_S <const>, MERGED_S <const> = 0.2, 0.5 -- merged logs are read anew each time
local OLDER <const> = 9 -- files of a node's log before the one that is written to

---- run.log ----------------------------------------------------------------------------------------------------------

---Prints the log of a run, or what the options keep of it; with --follow until the run has ended.
---@param context tide.context
---@param read fun(after: integer?): {text: string, size: integer, next: integer, is_last: boolean}?, tide.error? a part
---  of the log behind a position; is_last: nothing is written to it any more
---@param from? integer position to begin at; nil: the newest part
---@return integer|nil exit, tide.error? err
function run_logs.output(context, read, from)
  local o <const> = context.options
  local keep <const> = log_query.filter(log_query.of(o, context.core.wall()))
  local deadline <const> = context.timeout_s and context.core.now() + context.timeout_s
  local partial, after, tail = "", from, o.last and ""
  while true do
    local got <const>, err = read(after)
    if not got then return nil, err end
    local before <const> = not after and got.next - #got.text or 0
    if before > 0 then
      got.text = got.text:gsub("^[^\n]*\n", "", 1)
      context:say(("(%s of the log precede)"):format(units.format_size(before)))
    end
    partial, after = partial .. got.text, got.next
    local is_read <const> = got.next >= got.size
    local is_over <const> = got.is_last and is_read
    local lines <const> = is_over and partial or partial:match "^.*\n" or ""
    partial = partial:sub(#lines + 1)
    local kept = keep(lines)
    if tail then
      tail = text.last_lines(tail .. kept, o.last)
      tail = tail ~= "" and tail .. "\n" or ""
      kept, tail = is_read and tail or "", not is_read and tail or nil
    end
    if kept ~= "" then context.write_out(o.raw and kept or text.harmless(kept)) end
    if is_over then return 0 end
    local exit <const> = cluster_view.pause(context.core, is_read and EVERY_S or 0, deadline)
    if exit then return exit end
  end
end

local function output(context, run)
  local o <const> = context.options
  return run_logs.output(context, function(after)
    local is_last <const> = not o.follow or not history.is_living(history.find(run.id, o.dir) or {})
    local some <const>, size <const>, next_at <const> = run_log.read(run.directory, after)
    if not some then
      return nil, errors.new("T0401", {message = ("run %s has no log"):format(run.id), where = run.directory})
    end
    return {text = some, size = size, next = next_at, is_last = is_last}
  end, 0)
end

---- with its nodes and its events ------------------------------------------------------------------------------------

local function content_of(path) return core.file_read(path) or "" end

-- The lines of each source of a run, oldest first: its own log, those of its nodes, its events.
local function sources_of(run, query)
  local own <const> = run.directory .. "/run.log"
  local keep <const> = log_query.filter(query)
  local sources <const> = {["run.log"] = log_lines.read(keep(content_of(own .. ".1") .. content_of(own)), "run")}
  if query.rank or query.err then return sources end -- the others have neither
  for _, name in ipairs(core.file_list(run.directory) or {}) do
    local node <const> = name:match "^node%-([%w_.-]+)%.log$"
    if node then
      local parts = {}
      for i = OLDER, 1, -1 do parts[#parts + 1] = content_of(("%s/%s.%d"):format(run.directory, name, i)) end
      parts[#parts + 1] = content_of(run.directory .. "/" .. name)
      sources[name] = log_lines.chosen(log_lines.read(table.concat(parts), node), {search = query.search})
    end
  end
  local events = {}
  for _, event in ipairs(history.events(run)) do
    if type(event.time) == "number" and type(event.text) == "string" then
      events[#events + 1] = {time = event.time, level = "info", node = tostring(event.kind), text = event.text}
    end
  end
  sources.events = log_lines.chosen(events, {search = query.search})
  return sources
end

-- Lines of a source that no earlier look had. A file that was moved on may have fewer than before.
local function fresh(seen, name, lines)
  local had <const>, out = seen[name] or {count = 0, time = 0}, {}
  for i, line in ipairs(lines) do
    local is_new = i > had.count
    if #lines < had.count then is_new = line.time > had.time end
    out[#out + 1] = is_new and line or nil
  end
  seen[name] = {count = #lines, time = #lines > 0 and lines[#lines].time or had.time}
  return out
end

local function merged(context, run)
  local o <const> = context.options
  local query <const>, seen, most = log_query.of(o, context.core.wall()), {}, o.last
  local deadline <const> = context.timeout_s and context.core.now() + context.timeout_s
  while true do
    local is_last <const> = not o.follow or not history.is_living(history.find(run.id, o.dir) or {})
    local lists = {}
    for name, lines in pairs(sources_of(run, query)) do lists[#lists + 1] = fresh(seen, name, lines) end
    log_lines.print(context, log_lines.chosen(log_lines.merge(lists), {level = o.level, node = o.node,
      since = query.since}), most)
    most = nil
    if is_last then return 0 end
    local exit <const> = cluster_view.pause(context.core, MERGED_S, deadline)
    if exit then return exit end
  end
end

---Prints the log of a run. Levels, nodes and the fields of --json and --plain are those of merged lines.
---@param context tide.context
---@param run tide.past_run
---@return integer|nil exit, tide.error? err
function run_logs.of_directory(context, run)
  local o <const> = context.options
  local is_merged <const> = o.all or o.level or o.node or context.json or context.plain
  return (is_merged and merged or output)(context, run)
end

return run_logs
