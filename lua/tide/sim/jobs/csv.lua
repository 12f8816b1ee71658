-- Comma-separated files with a header: columns by name, every mistake with file and line. Names and numbers alone: a
-- cell may be in quotes, and has no comma.
local errors = require "tide.errors"

local open <const> = io.open -- scripts lose theirs

local csv = {}

---What is wrong in a file, as an error.
---@param path string
---@param line integer
function csv.fail(path, line, message)
  local where <const> = ("%s:%d"):format(path, line)
  error(errors.new("T0205", {message = where .. ": " .. message, where = where}), 0)
end

local function split(line)
  local words = {}
  for word in (line .. ","):gmatch "([^,]*)," do
    word = word:match "^%s*(.-)%s*$"
    words[#words + 1] = word:match '^"([^"]*)"$' or word
  end
  return words
end

local function header(path, line, columns)
  local at, count = {}, 0
  for i, name in ipairs(split(line)) do at[name], count = i, i end
  for _, column in ipairs(columns) do
    if not at[column.name] and not column.optional then
      csv.fail(path, 1, ("the column `%s` is missing"):format(column.name))
    end
  end
  return at, count
end

local function value_of(path, line, column, word)
  if column.text then
    if word == "" then csv.fail(path, line, ("`%s` is empty"):format(column.name)) end
    return word
  end
  if word == "" and column.empty then return false end
  local v = tonumber(word)
  if not v or v ~= v or v == math.huge or v == -math.huge then
    csv.fail(path, line, ("`%s` is `%s`, not a number"):format(column.name, word))
  end
  return v
end

---Reads a file; raises what is wrong with it.
---@param path string
---@param columns {name: string, text?: boolean, optional?: boolean, empty?: boolean}[] those that are read; others may
---  be there. empty: a cell of it may be, and is false
---@return table<string, any[]> columns by name, and `line`, where each row stands
function csv.read(path, columns)
  local file, why = open(path, "rb")
  if not file then error(errors.new("T0205", {message = tostring(why)}), 0) end
  local all, problem = file:read "a"
  file:close()
  if not all then error(errors.new("T0205", {message = ("%s: %s"):format(path, tostring(problem))}), 0) end
  all = all:gsub("^\xef\xbb\xbf", "")
  if not all:find "%S" then csv.fail(path, 1, "the file has no rows") end
  local out = {line = {}}
  local at, width
  local line = 0
  for text in (all:sub(-1) == "\n" and all or all .. "\n"):gmatch "([^\n]*)\n" do
    line = line + 1
    text = text:gsub("\r$", "")
    if not at then
      at, width = header(path, text, columns)
      for _, column in ipairs(columns) do out[column.name] = at[column.name] and {} end
    elseif text:find "%S" then
      local words = split(text)
      if #words ~= width then
        csv.fail(path, line, ("%d fields, the header has %d"):format(#words, width))
      end
      for _, column in ipairs(columns) do
        local list = out[column.name]
        if list then list[#list + 1] = value_of(path, line, column, words[at[column.name]]) end
      end
      out.line[#out.line + 1] = line
    end
  end
  if #out.line == 0 then csv.fail(path, line, "the file has no rows") end
  return out
end

return csv
