-- What numbers of layers, update rules, schedules and models may be. NaN is of no range.
local ranges = {}

local ALL <const> = {
  share = {"a number from 0 to below 1", function(x) return x >= 0 and x < 1 end},
  part = {"a number from 0 to 1", function(x) return x >= 0 and x <= 1 end},
  rate = {"a finite number of 0 or more", function(x) return x >= 0 and x < math.huge end},
  size = {"a finite number above 0", function(x) return x > 0 and x < math.huge end},
  number = {"a finite number", function(x) return x > -math.huge and x < math.huge end},
  factor = {"a finite number of 1 or more", function(x) return x >= 1 and x < math.huge end},
  count = {"a whole number of 1 or more", function(x) return math.type(x) == "integer" and x >= 1 end},
}

---Why x is no number of that range.
---@param x any
---@param range string
---@return string|nil "-1, not a finite number of 0 or more"
function ranges.problem(x, range)
  local says <const>, holds <const> = table.unpack(ALL[range])
  return not (type(x) == "number" and holds(x)) and ("%s, not %s"):format(x, says) or nil
end

return ranges
