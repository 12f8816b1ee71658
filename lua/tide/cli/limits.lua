-- The options of commands that start runs: how many slots a scheduling policy may give them.
local errors = require "tide.errors"
local text = require "tide.text"

local limits = {
  {name = "min", type = "integer", min = 1, value = "N",
   doc = "with a scheduling policy: slots that it needs at least"},
  {name = "max", type = "integer", min = 1, value = "N", doc = "slots that it takes at most"},
  {name = "sizes", type = "string", value = "SIZES", doc = "the only numbers of slots that it takes: pow2, or 1,2,6"},
  {name = "weight", type = "number", value = "X", doc = "how much it counts among others (default 1)"},
}

---@param o table options of the command
---@return table|nil limits nil: none is given
---@return table? err
function limits.read(o)
  local sizes = o.sizes
  if sizes and sizes ~= "pow2" then
    sizes = {}
    for word in (o.sizes .. ","):gmatch "([^,]*)," do
      local n <const> = math.tointeger(tonumber(word))
      if not n then
        return nil, errors.new("T0104", {message = ("--sizes %s: pow2, or numbers of slots"):format(
          text.clean(o.sizes))})
      end
      sizes[#sizes + 1] = n
    end
  end
  if not (o.min or o.max or sizes or o.weight) then return nil end
  local out = {min = o.min, max = o.max, sizes = sizes, weight = o.weight}
  local ok, err = require("tide.scheduler.limits").check(out, "limits of slots")
  if not ok then return nil, err end
  return out
end

---The words of `tide run` that say so.
---@param o table min, max, sizes, weight
---@return string[]
function limits.words(o)
  local words = {}
  for _, name in ipairs {"min", "max", "sizes", "weight"} do
    local v <const> = o[name]
    if v ~= nil then
      words[#words + 1] = "--" .. name
      words[#words + 1] = type(v) == "table" and table.concat(v, ",") or tostring(v)
    end
  end
  return words
end

return limits
