-- Names of tables. A run's own are called after it, "mf-17.factors"; people and tools may leave out what is clear:
-- "mf.factors" and "factors" find it where only one table fits.
local core = require "tide.core"

local table_names = {}

---@param wanted string
---@param names string[] of all tables
---@return string|nil name the one that is meant
---@return string[] fitting those that could be
function table_names.resolve(wanted, names)
  local fitting = {}
  local job, key = wanted:match "^(.-)%.(.+)$"
  for _, name in ipairs(names) do
    if name == wanted then return name, {name} end
    local of_job <const> = job and name:sub(1, #job + 1) == job .. "-" and name:sub(#job + 2):match "^%d+%.(.+)$" == key
    if of_job or name:sub(-#wanted - 1) == "." .. wanted then fitting[#fitting + 1] = name end
  end
  return #fitting == 1 and fitting[1] or nil, fitting
end

---@param wanted string
---@return table|nil handle, table? err, string[] known names of all tables
function table_names.find(wanted)
  local known = {}
  for i, entry in ipairs(core.tables() or {}) do known[i] = entry.name end
  local name <const> = table_names.resolve(wanted, known)
  local handle, err = core.table_find(name or wanted)
  return handle, err, known
end

return table_names
