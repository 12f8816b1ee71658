-- Errors as values: made from a code of the catalogue, printed for people or machines.
--
-- An error is a table {code, name, message, where, node, ...}: `code` from the catalogue, `name` shared with C.
-- Functions return `nil, err` for expected failures and raise the same table for a caller's mistake. Whatever else is
-- raised (strings of Lua, tables from C that carry a name alone) becomes such a table by `errors.from`.
--
-- Fields: message (one sentence), where ("mf.lua:31"), where_note ("in busiest"), node, actor, state (of the world:
-- "nothing changed"), help (instead of the catalogue's remedy), cause (another error), trace, retry_after_s, exit.

local catalogue = require "tide.catalogue"
local core = require "tide.core"
local text = require "tide.text"

local errors = {catalogue = catalogue}

---Codes by the name shared with C.
---@type table<string, string>
errors.by_name = {}
for code, entry in pairs(catalogue) do
  if entry.generic then errors.by_name[entry.name] = code end
end

local FAMILIES <const> = {
  T01 = "usage and options", T02 = "scripts", T03 = "policies", T04 = "data and files", T05 = "cluster and links",
  T06 = "store and jobs", T07 = "checkpoints", T08 = "roles", T09 = "kernels", T10 = "starting and stopping processes",
}
errors.families = FAMILIES

local FALLBACK_CODE <const> = "T1099"
local SOURCE_BYTES_MAX <const> = 1 << 20
local CAUSES_MAX <const> = 8
local LINE_MAX <const> = 500 -- columns of a message in errors.line

local metatable = {__name = "tide.error"}

---@class tide.error
---@field code string
---@field name string
---@field message string
---@field where? string
---@field where_note? string
---@field node? string
---@field actor? string
---@field state? string
---@field help? string
---@field cause? tide.error
---@field trace? string
---@field retry_after_s? number
---@field exit? integer

---Makes an error. An unknown code (of a newer node, say) is kept.
---@param code string
---@param message? string|table the message, or the fields
---@param fields? table when a message is given: the other fields
---@return tide.error
function errors.new(code, message, fields)
  local err = {}
  if type(message) == "table" then
    fields = message
  elseif message ~= nil then
    err.message = message
  end
  for k, v in pairs(fields or {}) do err[k] = v end
  local entry <const> = catalogue[code] or {}
  err.code = code
  err.name = err.name or entry.name
  err.message = tostring(err.message or entry.title or "failed")
  return setmetatable(err, metatable)
end

---@param value any
---@return boolean
function errors.is(value) return getmetatable(value) == metatable end

---Raises errors.new(code, message, fields).
function errors.raise(code, message, fields) error(errors.new(code, message, fields), 0) end

local TEXTS <const> = {message = true, name = true, where = true, where_note = true, node = true, actor = true,
                       state = true, help = true, trace = true}
local SHOWN_MAX <const>, VALUE_BYTES <const> = 8, 60

local function value_text(value)
  if type(value) == "string" then return '"' .. text.clean(value:sub(1, VALUE_BYTES)) .. '"' end
  return type(value) == "table" and "{...}" or tostring(value):match "^[^:]*"
end

---What a table says that a script raised: its message, reason or first string, and its other fields.
local function told_by(value)
  local meta <const> = getmetatable(value)
  if type(meta) == "table" and meta.__tostring then return tostring(value) end
  local main_key
  for _, key in ipairs {"message", "reason", 1} do
    if type(value[key]) == "string" and not main_key then main_key = key end
  end
  local parts, left = {}, 0
  for key, v in pairs(value) do
    local known <const> = key == main_key or key == "cause" or TEXTS[key] and type(v) == "string" and key ~= "name"
    if not known then parts[#parts + 1] = (type(key) == "string" and key .. " = " or "") .. value_text(v) end
  end
  table.sort(parts)
  for i = #parts, SHOWN_MAX + 1, -1 do parts[i], left = nil, left + 1 end
  if left > 0 then parts[#parts + 1] = ("and %d more"):format(left) end
  local rest <const> = table.concat(parts, ", ")
  if main_key then return rest == "" and value[main_key] or ("%s (%s)"):format(value[main_key], rest) end
  return rest == "" and "an empty table was raised" or ("a table was raised: {%s}"):format(rest)
end

---Any raised or returned value as an error. Tables keep their fields; a table with a name alone (from C) gets the
---code of that name; of other tables the message shows all fields; "file:line: message" of Lua becomes where and
---message.
---@param value any
---@param code? string code for strings, and for tables that have neither code nor known name; default T1099
---@return tide.error
function errors.from(value, code)
  if errors.is(value) then return value end
  if type(value) ~= "table" then
    local message = tostring(value)
    local file, line, rest = message:match("^([^\n]-):(%d+): (.*)$")
    if file and not file:find("^%[string ") then
      return errors.new(code or FALLBACK_CODE, {where = file .. ":" .. line, message = rest})
    end
    return errors.new(code or FALLBACK_CODE, message)
  end
  local fields = {}
  for k, v in pairs(value) do
    if not TEXTS[k] or type(v) == "string" then fields[k] = v end
  end
  local own <const> = type(fields.code) == "string" and fields.code:match("^T%d%d%d%d$")
    or errors.by_name[fields.name]
  if not own then fields.message = told_by(value) end
  local chosen <const> = own or code or FALLBACK_CODE
  if fields.cause ~= nil then fields.cause = errors.from(fields.cause, code) end
  if fields.name and not chosen then fields.name = nil end
  return errors.new(chosen, fields)
end

---Exit code of a command that fails with `err`.
---@param err tide.error
---@return integer
function errors.exit(err)
  return math.tointeger(err.exit) or (catalogue[err.code] or {}).exit or 1
end

local function help_of(err)
  return err.help or (catalogue[err.code] or {}).remedy
end

-- The names a message quotes: `x`, 'x', "x" of Lua, and the token of "near 'x'".
local function quoted_names(message)
  local names = {}
  for pattern in ("`([^`]+)`\0'([^']+)'"):gmatch("[^\0]+") do
    for name in message:gmatch(pattern) do names[#names + 1] = name end
  end
  return names
end

-- Position of the only occurrence of a quoted name as a whole word of the line; nil when there is none or several.
local function caret(line, message)
  for _, name in ipairs(quoted_names(message)) do
    local word <const> = name:find("^[%w_]+$") ~= nil
    local count, first, at = 0, nil, 1
    while true do
      local from, to = line:find(name, at, true)
      if not from then break end
      local whole <const> = not word
        or not (line:sub(from - 1, from - 1):find("[%w_]") or line:sub(to + 1, to + 1):find("[%w_]"))
      if whole then
        count, first = count + 1, first or from
      end
      at = to + 1
    end
    if count == 1 then return first, #name end
  end
  return nil
end

local function read_source(path)
  local file = io.open(path, "r")
  if not file then return nil end
  local content = file:read(SOURCE_BYTES_MAX)
  file:close()
  return content
end

-- Excerpts are of Lua files only: a place that came over the wire must not make us read a device or a pipe.
local function source_line(where, read)
  local path, number = where:match("^@?(.-%.lua):(%d+)")
  if not path then return nil end
  local content <const> = (read or read_source)(path)
  if not content then return nil end
  local at = 0
  for line in (content .. "\n"):gmatch("(.-)\r?\n") do
    at = at + 1
    if at == tonumber(number) then return line, number end
  end
  return nil
end

---Whether a place is a line of the program's own modules, which does not help a user.
---@param where string
---@return boolean
function errors.is_inside(where)
  local module <const> = tostring(where):match("^@?(tide/[%w_/]+)%.lua:%d+$")
  local name <const> = module and module:gsub("/", ".")
  return name ~= nil and (package.loaded[name] ~= nil or core.embedded(name) ~= nil)
end

local function paint_with(color)
  if not color then return function(_, s) return s end end
  return function(code, s) return "\27[" .. code .. "m" .. s .. "\27[0m" end
end

local function add_excerpt(out, err, options, paint)
  local line, number = source_line(err.where, options.read)
  if not line then return end
  line = text.clean((line:gsub("\t", "  ")))
  local gutter <const> = (" "):rep(#number)
  local shown <const> = text.cut(line, math.max(20, (options.width or 100) - #number - 3), options.unicode)
  out[#out + 1] = paint("34", gutter .. " |")
  out[#out + 1] = paint("34", number .. " |") .. " " .. shown
  local from, length = caret(line, err.message)
  -- Under a cut or non-ASCII line the caret would point beside the name.
  if from and utf8.len(line) == #line and from + length - 1 <= #shown then
    out[#out + 1] = paint("34", gutter .. " |") .. " " .. (" "):rep(from - 1) .. paint("31", ("^"):rep(length))
  end
end

local function origin(err)
  if not err.node then return "" end
  local who <const> = err.actor and " (" .. text.clean(err.actor) .. ")" or ""
  return "on " .. text.clean(err.node) .. who .. ": "
end

local function add_causes(out, err)
  local cause, count = err.cause, 0
  while type(cause) == "table" and count < CAUSES_MAX do
    local place <const> = cause.where and " (" .. text.clean(cause.where) .. ")" or ""
    out[#out + 1] = ("  = because %s%s%s"):format(origin(cause), text.clean(cause.message or cause.name or "?"), place)
    cause, count = cause.cause, count + 1
  end
end

---The error for people: what, where with the source line, why, state of the world, what to do.
---@param err tide.error
---@param options? {color?:boolean, unicode?:boolean, width?:integer, verbose?:boolean, read?:fun(path:string):string?}
---@return string lines without a final newline
function errors.format(err, options)
  options = options or {}
  local paint <const> = paint_with(options.color)
  local message = text.clean_lines(err.message):gsub("\n", "\n  ")
  local out = {paint("1;31", ("error[%s]"):format(text.clean(err.code))) .. ": " .. origin(err) .. message}
  if err.where and (options.verbose or not errors.is_inside(err.where)) then
    local where = text.clean((tostring(err.where):gsub("^@", "")))
    if err.where_note then where = where .. ", " .. text.clean(err.where_note) end
    out[#out + 1] = paint("34", "  -->") .. " " .. where
    add_excerpt(out, err, options, paint)
  end
  add_causes(out, err)
  if err.state then out[#out + 1] = "  = " .. text.clean(err.state) end
  if err.retry_after_s then out[#out + 1] = ("  = try again in %.3g s"):format(err.retry_after_s) end
  if options.verbose and err.trace then
    out[#out + 1] = text.clean_lines(err.trace)
  end
  local help = help_of(err)
  help = help and text.clean(help) or ""
  if help ~= "" then help = help .. (help:find("[?.!]$") and " " or "; ") end
  out[#out + 1] = paint("36", "help:") .. " " .. help .. "more: tide help " .. text.clean(err.code)
  return table.concat(out, "\n")
end

---The error in one line: "mf.lua:31: attempt to index a nil value (on n2, worker mf/3)".
---@param err tide.error
---@return string
function errors.line(err)
  local place <const> = err.where and not errors.is_inside(err.where) and tostring(err.where)
  local where <const> = place and place:gsub("^@", "") .. ": " or ""
  local who <const> = err.node and (" (on %s%s)"):format(err.node, err.actor and ", " .. err.actor or "") or ""
  return where .. text.cut(err.message:match "^[^\n]*", LINE_MAX, false) .. who
end

---The error for machines: plain data with a schema.
---@param err tide.error
---@return table
function errors.to_data(err)
  local cause = err.cause and errors.to_data(errors.from(err.cause)) or nil
  if cause then cause.schema = nil end
  return {
    schema = "tide.error/1", code = err.code, name = err.name, message = err.message, where = err.where,
    node = err.node, actor = err.actor, state = err.state, help = help_of(err), retry_after_s = err.retry_after_s,
    exit = errors.exit(err), cause = cause,
  }
end

metatable.__tostring = function(err) return errors.format(err) end

---The long form of a catalogued code, at most 80 columns wide.
---@param code string
---@return string? page
function errors.explain(code)
  local entry <const> = catalogue[code]
  if not entry then return nil end
  local out = {("%s: %s (%s)"):format(code, entry.title, FAMILIES[code:sub(1, 3)]), ""}
  for _, line in ipairs(text.wrap(entry.explanation, 80)) do out[#out + 1] = line end
  out[#out + 1] = ""
  for _, line in ipairs(text.wrap("What to do: " .. entry.remedy .. ".", 80)) do out[#out + 1] = line end
  out[#out + 1] = ""
  out[#out + 1] = ("Name in Lua and C: %s (TIDE_%s). Exit code of a command: %d."):format(entry.name, entry.name,
    entry.exit)
  return table.concat(out, "\n")
end

return errors
