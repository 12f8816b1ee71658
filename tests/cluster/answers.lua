-- Published actors whose answers and quotas a client meets: tide submit answers.lua.
local tide = require "tide"

local Answers = tide.actor {
  name = "answers", opens = "read",
  bytes = function() return "\255\254" end,
  sum = function(_, ...)
    local total = 0
    for _, x in ipairs {...} do total = total + x end
    return {total = total}
  end,
  slow = function(_, seconds) tide.sleep(seconds) end,
}
local Limited = tide.actor {
  name = "limited", opens = "read", quota = {rate = 0.01, outstanding = 1},
  ping = function() return 1 end,
}

tide.main(function()
  local cluster <close> = tide.cluster {}
  local a <close> = cluster:group(Answers, {}, {on = "n2", publish = "answers"})
  local b <close> = cluster:group(Limited, {}, {on = "n1", publish = "limited"})
  tide.sleep(120)
  return a, b
end)
