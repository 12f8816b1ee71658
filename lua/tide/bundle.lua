-- The modules of a script, which travel with it: the driver reads them, every other role gets their text. So no node
-- runs code from its own disk that was not sent.
--
-- What travels is what the driver has loaded, and what `require "name"` with a literal name says in the script and in
-- those modules, for what only workers load. Tide's own modules and Lua's are everywhere.
local core = require "tide.core"
local script = require "tide.script"

local bundle = {}

local BYTES_MAX <const>, COUNT_MAX <const> = 8 << 20, 256

---Names that `require` is called with as a literal, in order.
---@param source string of Lua
---@return {name: string, line: integer}[]
function bundle.required(source)
  local found = {}
  local at, line, counted = 1, 1, 1
  while true do
    local from <const> = source:find("[-\"'%[]", at)
    if not from then return found end
    local code <const> = source:sub(math.max(at, from - 40), from - 1)
    local comment <const> = source:sub(from, from + 1) == "--"
    local level <const> = source:match(comment and "^%-%-%[(=*)%[" or "^%[(=*)%[", from)
    local quote <const> = source:match("^[\"']", from)
    local name
    if level then
      local first <const> = source:find("[", from, true) + #level + 2
      local last, after = source:find("]" .. level .. "]", first, true)
      name, at = source:sub(first, (last or #source + 1) - 1), (after or #source) + 1
    elseif comment then
      at = (source:find("\n", from, true) or #source) + 1
    elseif quote then
      local last = from + 1
      while last <= #source do
        local c <const> = source:sub(last, last)
        if c == quote or c == "\n" then break end
        last = last + (c == "\\" and 2 or 1)
      end
      name, at = source:sub(from + 1, last - 1), last + 1
    else
      at = from + 1
    end
    if name and not comment and ("\n" .. code):find "[^%w_.:]require%s*%(?%s*$" then
      local _, lines = source:sub(counted, from):gsub("\n", "")
      line, counted = line + lines, from + 1
      found[#found + 1] = {name = name, line = line}
    end
  end
end

local function is_everywhere(name)
  return package.preload[name] ~= nil or core.embedded(name) ~= nil or name:find "^tide%f[.%z]" ~= nil
    or type(rawget(_G, name)) == "table" and package.loaded[name] == rawget(_G, name)
end

-- Adds what a text requires, and what that requires.
local function add_required(source, path, modules)
  for _, wanted in ipairs(bundle.required(source)) do
    local name <const> = wanted.name
    if not modules[name] and not is_everywhere(name) and not script.c_modules[name] then
      local module <const> = script.read_module(name)
      if module then
        modules[name] = module
        add_required(module.text, module.path, modules)
      elseif not package.searchpath(name, package.cpath) then
        error(script.error("T0221", ("module `%s` is not found"):format(name), {
          where = ("%s:%d"):format(path, wanted.line), state = "no run was begun",
          help = ("it is looked for beside the script, as %s.lua, and in LUA_PATH; load what may be missing by "
            .. "pcall(require, \"%s\")"):format(name:gsub("%.", "/"), name)}), 0)
      end
    end
  end
end

---All that travels, by name: text, path and sha. Raises T0221 where something is missing or cannot travel.
---@return table<string, {path: string, sha: string, text: string?}>
function bundle.collect()
  for name, path in pairs(script.c_modules) do
    error(script.error("T0221", ("module `%s` is a C module (%s), which does not travel"):format(name, path), {
      state = "no run was begun", help = "require it inside tide.main, where only this process needs it"}), 0)
  end
  local modules = {}
  for name, module in pairs(script.modules) do modules[name] = module end
  add_required(script.source or "", script.path, modules)
  for _, module in pairs(script.modules) do
    if module.text then add_required(module.text, module.path, modules) end
  end
  local count, bytes = 0, 0
  for _, module in pairs(modules) do count, bytes = count + 1, bytes + #(module.text or "") end
  if count > COUNT_MAX or bytes > BYTES_MAX then
    error(script.error("T0221", ("%d modules of %d bytes are more than travel with a script: %d of 8 MiB"):format(count,
      bytes, COUNT_MAX), {state = "no run was begun", help = "read data from files, tide.data.*"}), 0)
  end
  return modules
end

return bundle
