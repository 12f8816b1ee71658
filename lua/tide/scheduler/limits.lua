-- How many slots a submitted run takes: {min, max, sizes, weight, preemptible}, as its owner gives them. Pure.
local checks = require "tide.checks"
local declared = require "tide.declared"
local errors = require "tide.errors"
local text = require "tide.text"

local limits = {}

local function refuse(what, message, help)
  return nil, errors.new("T0113", {message = ("%s: %s"):format(what, message), state = "nothing was started",
    help = help})
end

local function check_sizes(what, l)
  if l.sizes == nil or l.sizes == "pow2" then return true end
  if type(l.sizes) ~= "table" or #l.sizes == 0 then
    return refuse(what, "`sizes` is \"pow2\" or a list of numbers of slots")
  end
  for _, size in ipairs(l.sizes) do
    if not (math.type(size) == "integer" and checks.within(declared.limits[1], size)) then
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

---Limits are as they must be, and at least one number of slots of a cluster of `total` meets them. Counts in `l` become
---integers.
---@param l any
---@param what string the call, for errors
---@param total? integer
---@return true|nil, table? err
function limits.check(l, what, total)
  local read <const>, wrong = checks.read(what, declared.limits, l, "T0113")
  if not read then
    wrong.state = "nothing was started"
    return nil, wrong
  end
  declared.picked(declared.limits, read, l)
  if l.min and l.max and l.min > l.max then
    return refuse(what, ("`min` = %d is above `max` = %d"):format(l.min, l.max))
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

---@param o table options of a command
---@return table|nil limits nil: none is given
---@return table? err
function limits.read(o)
  local out <const> = {min = o.min, max = o.max, sizes = o.sizes, weight = o.weight}
  if not next(out) then return nil end
  if o.sizes and o.sizes ~= "pow2" then
    out.sizes = {}
    for word in (o.sizes .. ","):gmatch "([^,]*)," do
      local n <const> = math.tointeger(tonumber(word))
      if not n then
        return nil, errors.new("T0104", {message = ("--sizes %s: pow2, or numbers of slots"):format(
          text.clean(o.sizes))})
      end
      out.sizes[#out.sizes + 1] = n
    end
  end
  local ok, err = limits.check(out, "limits of slots")
  if not ok then return nil, err end
  return out
end

return limits
