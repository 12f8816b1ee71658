-- Values as files on the disk of the prompt's machine: CSV of records, rows and tensors; JSON.
--
-- The node writes the text in pieces, the client appends them. A file is new: nothing that exists is written over.
local csv = require "tide.csv"
local errors = require "tide.errors"
local render = require "tide.console.render"
local text = require "tide.text"

local save = {}

local PIECE_BYTES <const> = 64 << 10
local FILE_MAX <const> = 256 << 20

---- on the node ---------------------------------------------------------------------------------------------------

local SCALAR <const> = {["nil"] = true, number = true, string = true, boolean = true}

local function line_of(count, value_at)
  return csv.line(count, function(i)
    local value <const> = value_at(i)
    if SCALAR[type(value)] then return value end
    return "<" .. type(value) .. ">"
  end)
end

local function is_tensor(value)
  return type(value) == "userdata" and tostring(value):find "^[fiu]%d+%[" ~= nil
end

-- Of all records: what the first one lacks is not to be lost.
local function fields_of(records)
  local seen = {}
  for i = 1, rawlen(records) do
    for key in next, rawget(records, i) do seen[key] = true end
  end
  return text.sorted_keys(seen)
end

-- The lines of a CSV file, one call each; the names of records' fields are the first.
local function csv_lines(value)
  local row = 0
  if is_tensor(value) then
    local rows <const>, columns <const> = value:rows(), value:columns()
    return function()
      row = row + 1
      if row > rows then return nil end
      return csv.line(columns, function(i) return value:text((row - 1) * columns + i) end)
    end
  end
  local first <const> = type(value) == "table" and rawget(value, 1)
  if type(first) ~= "table" then
    error(errors.new("T0113", {message = "a CSV file is made of records, rows or a tensor",
      help = "save(value, \"x.json\") takes anything"}), 0)
  end
  local fields <const> = rawlen(first) == 0 and fields_of(value) or nil
  if fields then row = -1 end
  return function()
    row = row + 1
    if row == 0 then return line_of(#fields, function(i) return tostring(fields[i]) end) end
    local own <const> = rawget(value, row)
    if type(own) ~= "table" then return nil end
    if fields then return line_of(#fields, function(i) return rawget(own, fields[i]) end) end
    return line_of(rawlen(own), function(i) return rawget(own, i) end)
  end
end

local function json_lines(value)
  local done = false
  return function()
    if done then return nil end
    done = true
    local json, cut = render.data(table.pack(value))
    if cut then
      error(errors.new("T0402", {message = "the value has more than 10,000 items or 1 MiB as JSON",
        help = "records and tensors of any size can be a CSV file"}), 0)
    end
    return (json and json:match "^{\"value\":(.*)}$" or "null") .. "\n"
  end
end

local FORMATS <const> = {csv = csv_lines, json = json_lines}

---Writes a value to a file of the client.
---@param session table
---@param value any
---@param path string ends in .csv or .json
---@return integer bytes
function save.to_client(session, value, path)
  local lines_of <const> = FORMATS[path:match "%.(%w+)$" or ""]
  if not lines_of then
    error(errors.new("T0105", {message = ("save: `%s` is neither .csv nor .json"):format(text.clean(path))}), 0)
  end
  local lines <const>, bytes, first = lines_of(value), 0, true
  local last
  repeat
    local piece, size = {}, 0
    while size < PIECE_BYTES do
      local line <const> = lines()
      last = not line
      if last then break end
      piece[#piece + 1], size = line, size + #line
    end
    bytes = bytes + size
    local ok, err = session.ask_client {op = "console.save", path = path, text = table.concat(piece), first = first,
                                        last = last}
    if not ok then error(errors.from(err), 0) end
    first = false
  until last
  return bytes
end

---- at the client -------------------------------------------------------------------------------------------------

local open = {} -- path -> {file=, bytes=}

local function given_up(path, code, message, help)
  if open[path] then open[path].file:close() end
  open[path] = nil
  return nil, errors.new(code, {message = message, help = help})
end

local QUOTES <const> = {{'"', '"'}, {"'", "'"}, {"[[", "]]"}}

---Whether a line that was typed here names a file: as a whole word in quotes. A node's request alone is not trusted.
---@param line? string
---@param path any
---@return boolean
function save.names(line, path)
  if type(line) ~= "string" or type(path) ~= "string" then return false end
  for _, quotes in ipairs(QUOTES) do
    if line:find(quotes[1] .. path .. quotes[2], 1, true) then return true end
  end
  return false
end

---A piece of a file that the node writes. The line must name the file.
---@param request table {path=, text=, first=, last=}
---@param line string what was typed
---@return table? answer
---@return tide.error? err
function save.piece(request, line)
  local path <const> = request.path
  if type(request.text) ~= "string" or not save.names(line, path) then
    return nil, errors.new("T0505", "the line does not name this file")
  end
  if request.first then
    local exists <const> = io.open(path, "rb")
    if exists then
      exists:close()
      return nil, errors.new("T0403", {message = ("`%s` exists"):format(text.clean(path)),
        help = "choose another name: nothing is written over"})
    end
    local file, why = io.open(path, "wb")
    if not file then return nil, errors.new("T0403", {message = text.clean(why)}) end
    open[path] = {file = file, bytes = 0}
  end
  local own <const> = open[path]
  if not own then return nil, errors.new("T0505", "this file was not begun") end
  own.bytes = own.bytes + #request.text
  if own.bytes > FILE_MAX then
    return given_up(path, "T0403", ("`%s` would have more than 256 MiB"):format(text.clean(path)), "save a part of it")
  end
  local ok, why = own.file:write(request.text)
  if ok and request.last then ok, why = own.file:close() end
  if not ok then return given_up(path, "T0403", ("`%s`: %s"):format(text.clean(path), tostring(why))) end
  if request.last then open[path] = nil end
  return {}
end

return save
