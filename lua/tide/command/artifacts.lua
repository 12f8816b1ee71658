-- Files that a run keeps, as `tide job artifacts` and `tide runs artifacts` print them.
local listing = require "tide.command.listing"
local text = require "tide.text"

local COLUMNS <const> = {{key = "name"}, {key = "bytes", title = "size", format = "size"}, {key = "rank"},
  {key = "node"}, {key = "kept"}, {key = "sha256"}}

---@param context tide.context
---@param rows tide.artifact[]
---@param run string as the person named it
---@return integer|nil exit code, tide.error? err
return function(context, rows, run)
  for _, row in ipairs(rows) do row.kept = os.date("%F %T", (row.time or 0) // 1 | 0) end
  if #rows == 0 then
    context:say(("run %s keeps no files: w:artifact(NAME, VALUE) keeps one"):format(text.clean(run)))
  end
  return listing.print(context, rows, COLUMNS)
end
