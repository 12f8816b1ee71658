-- Reads the annotations (LuaLS) of a module's text: what its functions take and return, and what they are for.
--
-- One source for all: the `---` comments of the modules themselves, and of the files in lua/tide/meta, which declare
-- what C provides. The prompt, `tide help`, the reference manual and the editor's definitions are made of them.
local text = require "tide.text"

local annotations = {}

---@class tide.annotation
---@field name string as scripts write it, `tensor:axpy`
---@field arguments string "(a, x)"
---@field doc string
---@field params {name: string, optional: boolean, type: string, doc: string, fields: table[]|nil}[]
---@field returns string[]
---@field line integer where it is in its module
---@field comment string[] its annotation, line by line
---@field hidden boolean|nil `---@package`: not for scripts

-- "sort?: string, node?: string" of "{sort?: string, node?: string}" as a list of {name, type}.
local function fields_of(type_text)
  local inner = type_text and type_text:match "^{(.*)}"
  if not inner then return nil end
  local list = {}
  for name, kind in inner:gmatch "([%w_]+)%??:%s*([^,{}]+)" do list[#list + 1] = {name = name, type = kind} end
  return list
end

-- A type and what follows it: the type ends at the first blank outside of brackets that no ":", "," or "|" precedes.
local function split_type(rest)
  local depth = 0
  for at = 1, #rest do
    local c <const> = rest:sub(at, at)
    if c:find "[{(<]" then depth = depth + 1 end
    if c:find "[})>]" then depth = depth - 1 end
    if c == " " and depth == 0 and not rest:sub(at - 1, at - 1):find "[:,|]" then
      return rest:sub(1, at - 1), rest:sub(at + 1):match "^%s*(.*)$"
    end
  end
  return rest, ""
end

-- Lines of an annotation that continue in the next one, which is indented, as one line.
local function joined(comment)
  local list = {}
  for _, c in ipairs(comment) do
    if c:find "^%s" and list[#list] and list[#list]:find "^@" then
      list[#list] = list[#list] .. " " .. c:match "^%s*(.-)%s*$"
    else
      list[#list + 1] = c
    end
  end
  return list
end

local function parameter(line)
  local name, optional, rest = line:match "^@%a+%s+([%w_.]+)(%??)%s+(.*)$"
  if not name then return nil end
  local kind, doc = split_type(rest)
  return {name = name, optional = optional == "?", type = kind, doc = doc, fields = fields_of(kind)}
end

local function new_entry(name, arguments, comment, line)
  local entry = {name = name, arguments = arguments, doc = {}, params = {}, returns = {}, line = line,
                 comment = comment}
  for _, c in ipairs(joined(comment)) do
    if c:find "^@param" then
      entry.params[#entry.params + 1] = parameter(c)
    elseif c:find "^@return" then
      entry.returns[#entry.returns + 1] = c:match "^@return%s+(.*)$"
    elseif c:find "^@package" then
      entry.hidden = true
    elseif not c:find "^@" then
      entry.doc[#entry.doc + 1] = c
    end
  end
  entry.doc = table.concat(entry.doc, " ")
  return entry
end

-- Arguments of a method as its caller writes them.
local function as_method(arguments)
  return (arguments:gsub("^%(_%s*,%s*", "("):gsub("^%(_%)", "()"):gsub("^%(self%s*,%s*", "("):gsub("^%(self%)", "()"))
end

local function arguments_of(comment)
  local list = {}
  for _, c in ipairs(joined(comment)) do
    local each = c:find "^@param" and parameter(c)
    if each then list[#list + 1] = each.name .. (each.optional and "?" or "") end
  end
  return #list > 0 and "(" .. table.concat(list, ", ") .. ")" or ""
end

---Reads the annotations of a module's text: of `function own.name(...)`, `function own:name(...)`, and of
---`own.name = ...` where an annotation stands above it.
---@param source string
---@param own string the module's local name in it
---@param prefix string put before each name
---@param anonymous? string the name of a function without one, `return function(...)`, that has an annotation
---@return tide.annotation[]
function annotations.parse(source, own, prefix, anonymous)
  local list, comment, number = {}, {}, 0
  local method <const> = prefix:sub(-1) == ":"
  for line in (source .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local remark <const> = line:match "^%s*%-%-%-%s?([^-].*)$"
    local name, arguments = line:match("^%s*function " .. own .. "[.:]([%w_]+)(%b())")
    if not name and #comment > 0 then
      name = line:match("^" .. own .. "%.([%w_]+) = ")
      arguments = name and arguments_of(comment)
    end
    if not name and anonymous and #comment > 0 then
      arguments = line:match "^%s+return function(%b())" or line:match("^local function " .. anonymous .. "(%b())")
      name, arguments = arguments and anonymous, arguments and as_method(arguments)
    end
    if remark then
      comment[#comment + 1] = remark
    elseif name then
      local entry = new_entry(prefix .. name, method and as_method(arguments) or arguments, comment, number)
      local tail <const> = line:match "%-%->%s*(.*)$"
      if tail then entry.returns[#entry.returns + 1] = tail end
      entry.hidden = entry.hidden or name:find "^__" ~= nil
      list[#list + 1] = entry
      comment = {}
    else
      comment = {}
    end
  end
  return list
end

---The class that a module's text declares: its text and fields.
---@param source string
---@param class string "tide.worker"
---@return {doc: string, fields: table[], comment: string[]}|nil
function annotations.class(source, class)
  local found
  for line in (source .. "\n"):gmatch "(.-)\n" do
    local remark <const> = line:match "^%-%-%-%s?([^-].*)$"
    if remark and remark:match "^@class ([%w_.]+)" == class then
      found = {doc = remark:match "^@class [%w_.]+%s*:?%s*(.*)$", fields = {}, comment = {remark}}
    elseif found and remark then
      found.comment[#found.comment + 1] = remark
    elseif found then
      break
    end
  end
  if not found then return nil end
  for _, c in ipairs(joined(found.comment)) do
    if c:find "^@field" then found.fields[#found.fields + 1] = parameter(c) end
  end
  return found
end

---A function and its arguments on one line.
---@param entry tide.annotation
---@return string
function annotations.hint(entry)
  local parts = {}
  for _, param in ipairs(entry.params) do
    if param.fields and #param.fields > 0 then
      local keys = {}
      for i, field in ipairs(param.fields) do keys[i] = field.name .. "=" end
      parts[#parts + 1] = "{" .. table.concat(keys, ", ") .. "}"
    else
      parts[#parts + 1] = param.name .. (param.optional and "?" or "")
    end
  end
  if #entry.params == 0 then return entry.name .. entry.arguments end
  return entry.name .. "(" .. table.concat(parts, ", ") .. ")"
end

---What people read of a function.
---@param entry tide.annotation
---@param columns? integer default 90
---@return string
function annotations.text(entry, columns)
  columns = columns or 90
  local lines = {annotations.hint(entry)}
  local function add(first, rest, words)
    for i, line in ipairs(text.wrap(words, columns - #rest)) do
      lines[#lines + 1] = (i == 1 and first or rest) .. line
    end
  end
  if entry.doc ~= "" then add("  ", "  ", entry.doc) end
  for _, param in ipairs(entry.params) do
    add(("  %-10s "):format(param.name), (" "):rep(13),
      ("%s%s %s"):format(param.type or "", param.optional and " (optional)" or "", param.doc))
  end
  for _, returned in ipairs(entry.returns) do add("  returns    ", (" "):rep(13), returned) end
  return table.concat(lines, "\n")
end

return annotations
