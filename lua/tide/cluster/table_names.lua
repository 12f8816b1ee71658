-- Names of tables. A run's own are called after it, "mf-17.factors"; people and tools may leave out what is clear:
-- "mf.factors" and "factors" find it where only one table fits.
local checks = require "tide.checks"
local core = require "tide.core"
local errors = require "tide.errors"
local text = require "tide.text"

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

---The whole name of a table that a person names.
---@param wanted string
---@param names string[] of all tables
---@return string|nil name, tide.error? err T0401
function table_names.pick(wanted, names)
  local name <const>, fitting <const> = table_names.resolve(wanted, names)
  if name then return name end
  if #fitting > 1 then
    return nil, errors.new("T0401", {message = ("several tables could be `%s`"):format(text.clean(wanted)),
      help = "name one: " .. table.concat(fitting, ", ")})
  end
  return nil, checks.unknown("T0401", "no table `%s` in this cluster", wanted, names, "`tide tables` lists them")
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
