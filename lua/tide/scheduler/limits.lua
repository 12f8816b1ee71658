-- How many slots a submitted run takes: {min, max, sizes, weight, preemptible}, as its owner gives them. Pure.
local errors = require "tide.errors"
local text = require "tide.text"

local limits = {}

---@class tide.scheduler.limits
---@field min? integer slots below which it waits; 1
---@field max? integer slots above which it gets none; those of the cluster
---@field sizes? "pow2"|integer[] the only numbers of slots that it takes
---@field weight? number how much its speed counts among others; 1
---@field preemptible? boolean false: it keeps its slots until it ends; true
local FIELDS <const> = {min = true, max = true, sizes = true, weight = true, preemptible = true}

local SLOTS_MOST <const> = 1 << 16
local WEIGHT_MOST <const> = 1e6

local function refuse(what, message, help)
  return nil, errors.new("T0113", {message = ("%s: %s"):format(what, message), state = "nothing was started",
    help = help})
end

local function is_count(v) return math.type(v) == "integer" and v >= 1 and v <= SLOTS_MOST end

local function check_sizes(what, l)
  if l.sizes == nil or l.sizes == "pow2" then return true end
  if type(l.sizes) ~= "table" or #l.sizes == 0 then
    return refuse(what, "`sizes` is \"pow2\" or a list of numbers of slots")
  end
  for _, size in ipairs(l.sizes) do
    if not is_count(size) then
      return refuse(what, ("`sizes` has %s, which is no number of slots"):format(tostring(size)))
    end
  end
  return true
end

---Does the run take this number of slots?
---@param l table min, max, sizes
---@param n integer
---@return boolean
function limits.allows(l, n)
  if n < (l.min or 1) or n > (l.max or math.huge) then return false end
  if l.sizes == "pow2" then return n & (n - 1) == 0 end
  if not l.sizes then return true end
  for _, size in ipairs(l.sizes) do
    if size == n then return true end
  end
  return false
end

---Limits are as they must be, and at least one number of slots of a cluster of `total` meets them.
---@param l any
---@param what string the call, for errors
---@param total? integer
---@return true|nil, table? err
function limits.check(l, what, total)
  if type(l) ~= "table" then return refuse(what, "limits are a table") end
  for key in pairs(l) do
    if not FIELDS[key] then
      return refuse(what, ("there is no limit `%s`"):format(text.clean(tostring(key))),
        text.did_you_mean(tostring(key), text.sorted_keys(FIELDS)))
    end
  end
  for _, key in ipairs {"min", "max"} do
    if l[key] ~= nil and not is_count(l[key]) then
      return refuse(what, ("`%s` = %s is no number of slots"):format(key, tostring(l[key])))
    end
  end
  if l.min and l.max and l.min > l.max then
    return refuse(what, ("`min` = %d is above `max` = %d"):format(l.min, l.max))
  end
  if l.weight ~= nil and not (type(l.weight) == "number" and l.weight > 0 and l.weight <= WEIGHT_MOST) then
    return refuse(what, ("`weight` = %s is no number above 0"):format(tostring(l.weight)))
  end
  if l.preemptible ~= nil and type(l.preemptible) ~= "boolean" then
    return refuse(what, "`preemptible` is true or false")
  end
  local ok, err = check_sizes(what, l)
  if not ok then return nil, err end
  for n = 1, total or 0 do
    if limits.allows(l, n) then return true end
  end
  if not total then return true end
  return refuse(what, ("no grant of the %d slots of the cluster is one of its sizes (min %s, max %s%s)"):format(total,
    l.min or 1, l.max or "any", l.sizes and ", sizes given" or ""), "it would wait for ever")
end

return limits
