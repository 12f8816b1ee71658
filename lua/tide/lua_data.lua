-- Files of Lua that are data and not code: configuration, shares of persons. They run with an empty environment,
-- without the methods of strings, bounded in steps and memory.
local lua_data = {}

local STEPS_MAX <const> = 100000
local MEMORY_KIB_MAX <const> = 4096

-- Methods of strings are out of reach meanwhile: ("x"):rep(1e9) would not be stopped by steps.
local function run_bounded(chunk)
  local strings <const> = debug.getmetatable ""
  local index <const> = strings.__index
  local steps = 0
  local limit <const> = collectgarbage "count" + MEMORY_KIB_MAX
  strings.__index = nil
  local function stop(why)
    debug.sethook()
    error(why .. ": the file is data", 3)
  end
  local function watch()
    steps = steps + 1
    if steps > STEPS_MAX then stop "it takes too long" end
    if collectgarbage "count" > limit then stop "it needs too much memory" end
  end
  local ok, result = pcall(function()
    debug.sethook(watch, "", 1)
    local value <const> = chunk()
    debug.sethook()
    return value
  end)
  debug.sethook()
  strings.__index = index
  return ok, result
end

---What a file returns.
---@param source string
---@param path string for errors
---@return boolean ok
---@return any value or, as text, why there is none
function lua_data.read(source, path)
  local chunk <const>, why = load(source, "@" .. path, "t", {})
  if not chunk then return false, tostring(why) end
  local ok <const>, result = run_bounded(chunk)
  if not ok then return false, tostring(result) end
  return true, result
end

return lua_data
