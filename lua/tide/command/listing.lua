-- What the listing commands share: --sort, --where, --watch, and the three forms of output.

local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local table_view = require "tide.show.table_view"

local listing = {}

local OPTIONS <const> = {
  arguments.shared.cluster,
  {name = "sort", type = "string", value = "FIELD",
   doc = "order by a field: numbers from the largest, text from A"},
  {name = "reverse", doc = "turn the order of --sort round"},
  {name = "where", type = "string", value = "EXPR", doc = "only records for which a Lua expression holds"},
  {name = "watch", type = "duration", doc = "print again after this time until interrupted"},
}

local WATCH_MIN_S <const> = 0.2

---Prints records in the form asked for.
---@param context tide.context
---@param rows table[]
---@param columns tide.column[]
---@param last? integer only so many, from the end
---@return 0? exit code
---@return tide.error? err
function listing.print(context, rows, columns, last)
  local o <const> = context.options
  local err
  if o.where then rows, err = table_view.where(rows, columns, o.where) end
  if rows and o.sort then rows, err = table_view.sort(rows, columns, o.sort, o.reverse) end
  if not rows then return nil, err end
  if last and #rows > last then rows = table.move(rows, #rows - last + 1, #rows, 1, {}) end
  local lines
  if context.json then
    lines = table_view.json_lines(rows, context.schema, context.core.json_encode)
  elseif context.plain then
    lines = table_view.plain_lines(rows, columns)
  else
    lines = context:table_lines(rows, columns)
  end
  if #lines > 0 then context:print(table.concat(lines, "\n")) end
  return 0
end

-- Prints once, or again and again with --watch until a signal, --timeout or an error.
local function print_until_done(command, context, client)
  local core <const> = context.core
  local every <const> = context.options.watch and math.max(WATCH_MIN_S, context.options.watch)
  local deadline <const> = context.timeout_s and core.now() + context.timeout_s
  while true do
    local view, err = (command.collect or cluster_view.collect)(context, client)
    if not view then return nil, err end
    local ok, problem = listing.print(context, command.rows(view, context), command.columns)
    if not ok then return nil, problem end
    if not every then return 0 end
    local exit <const> = cluster_view.pause(core, every, deadline)
    if exit then return exit end
    if not context.json and not context.plain then context:print "" end
  end
end

---Makes a listing command.
---@param command table name, brief, summary, examples, columns, schema, rows(view, context), options; collect(context,
---  client) -> view: by default cluster_view.collect
---@return table command
function listing.command(command)
  local own = command.options or {}
  command.options = table.move(OPTIONS, 1, #OPTIONS, #own + 1, table.move(own, 1, #own, 1, {}))
  function command.run(context)
    return cluster_view.attached(context, function(client) return print_until_done(command, context, client) end)
  end
  return command
end

return listing
