-- Options of `tide run`, `submit` and `sim` that a script may override. What the script says counts; an option of the
-- command line that has no effect is named in a warning, once.
local declared = require "tide.declared"
local text = require "tide.text"
local units = require "tide.units"

local flags = {}
flags.__index = flags

local OF_CLUSTER <const> = {nodes = true, workers = true, trace = true, dashboard = true,
                            silence = true} -- the others are of runs

-- "--nodes 4", "--min 1 --max 8".
local function words_of(name, value)
  if name == "limits" then return table.concat(declared.words(declared.limits, value), " ") end
  if name == "memory" and type(value) == "number" then value = units.format_size(value) end
  return "--" .. name:gsub("_", "-") .. (value ~= true and " " .. tostring(value) or "")
end

---@param values table<string, any> options with their values, of the command or of a configuration
---@param given table<string, boolean> names of those that the user gave
---@param warn fun(text: string)
---@return tide.flags
function flags.new(values, given, warn)
  return setmetatable({values = values, given = given, warn = warn, done = {}}, flags)
end

---The value that counts.
---@param name string
---@param own any what the script says; nil: nothing
---@return any
function flags:value(name, own)
  local value <const> = self.values[name]
  if own == nil then
    self:used(name)
    return value
  end
  local said <const> = words_of(name, own)
  if value == nil or said == words_of(name, value) then
    self:used(name)
  else
    self:refuse(name, ("%s in the script says %s"):format(OF_CLUSTER[name] and "tide.cluster" or "cluster:start",
      said:gsub("%-%-", "")))
  end
  return own
end

---An option that has had its effect.
---@param name string
function flags:used(name) self.done[name] = true end

---An option that has none.
---@param name string
---@param why string
function flags:refuse(name, why)
  if not self.done[name] and self.given[name] then
    self.warn(("%s has no effect: %s"):format(words_of(name, self.values[name]), why))
  end
  self:used(name)
end

---The script has ended: names options that nothing has asked for.
function flags:warn_unused()
  for _, name in ipairs(text.sorted_keys(self.given)) do
    self:refuse(name, OF_CLUSTER[name] and "the script made no cluster" or "the script started no run")
  end
end

return flags
