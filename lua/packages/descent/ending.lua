-- How a fit ends: its gap is within the tolerance, or nothing gets better any more, which is as near as f64 comes. And
-- what it says of what it did not fit. Used by all that have a certificate.
local ending = {}

local STEPS <const> = 10 -- without a better value
local LEAST <const> = 1e-14 -- what counts as better, as a share of the value
local NOTED <const> = 10 -- columns that a line names
local NEARER <const> = 0.9 -- and of the gap

---@class tide.ending the best so far; plain numbers, so that it travels with a state
---@field value number
---@field gap number
---@field since integer steps without a better value or gap

---One step more.
---@param best? tide.ending nil: the first step
---@param value number that falls
---@param gap number
---@return tide.ending best
---@return boolean over whether nothing got better for many steps
function ending.look(best, value, gap)
  if not best then return {value = value, gap = gap, since = 0}, false end
  local better <const> = value < best.value - LEAST * math.abs(best.value) or gap < NEARER * best.gap
  local since <const> = better and 0 or best.since + 1
  return {value = math.min(value, best.value), gap = math.min(gap, best.gap), since = since}, since >= STEPS
end

---The warning of a fit that ends with a larger gap than the tolerance.
---@param why string
---@param tolerance number
---@param gap number
---@param objective number
---@return string
function ending.unmet(why, tolerance, gap, objective)
  return ("warning: tolerance %.3g is not reached: %s at a gap of %.3g, %.3g of the objective"):format(tolerance, why,
    gap, gap / math.max(math.abs(objective), 1e-300))
end

---What the log says of columns that stay 0.
---@param constant integer[]
---@param columns integer of all
---@return string
function ending.constant(constant, columns)
  return ("note: %d of %d columns are constant, their coefficients stay 0: %s%s"):format(#constant, columns,
    table.concat(constant, ", ", 1, math.min(#constant, NOTED)), #constant > NOTED and ", .." or "")
end

---Why, where the last digits are reached.
ending.STILL = "nothing gets better any more in f64"

return ending
