-- Finds the modules tide.NAME and tide.NAME.x of lua/packages/NAME, as the program does (lua/host/state.c).
local SHAPES <const> = "lua/?.lua;lua/?/init.lua"

---@param name string of a module
---@return string? path in the source tree
local function find(name)
  return package.searchpath(name, SHAPES) or package.searchpath(name:gsub("^tide%.", "packages."), SHAPES)
end

table.insert(package.searchers, 2, function(name)
  local path <const> = name:find "^tide" and find(name)
  return path and assert(loadfile(path)), path
end)

return find
