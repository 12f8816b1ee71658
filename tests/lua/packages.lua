-- Finds the modules tide.NAME and tide.NAME.x of lua/packages/NAME, as the program does (lua/host/state.c).
local SHAPES <const> = "lua/?.lua;lua/?/init.lua"

---@param name string of a module
---@return string? path in the source tree
local function find(name)
  return package.searchpath(name, SHAPES) or package.searchpath(name:gsub("^tide%.", "packages."), SHAPES)
end

local files <const> = package.searchers[2]
package.searchers[2] = function(name)
  local path <const> = name:find "^tide%." and find(name)
  if path then -- its chunk has the module's name
    local file <close> = assert(io.open(path))
    return assert(load(file:read "a", ("@lua/%s.lua"):format((name:gsub("%.", "/"))))), path
  end
  return files(name)
end

return find
