-- The file that a process of Tide's writes its log to: moved on when it is large. An actor that lives as long as the
-- process calls it now and then.
local core = require "tide.core"

local BYTES <const>, KEPT <const> = 64 << 20, 4 -- of the file, and how many older ones stay
local said = false

return function()
  if core.simulated() then return end
  local ok, err = core.log_rotate(BYTES, KEPT)
  if ok == nil and not said then
    said = true
    core.log("warn", "the log cannot be moved on: " .. tostring(err.message))
  end
end
