-- Interrupts, which are SIGINT, SIGTERM and SIGHUP: the code that ends this process in order polls core.interrupted,
-- and what does not come in time is ended by the process's own alarms, whatever its threads do.
local core = require "tide.core"
local errors = require "tide.errors"

local interrupts = {
  HEED_S = 10, ---@type number how long a SIGTERM or SIGHUP waits for code that looks at it
}

---@param message string
---@param state? string
---@return tide.error
function interrupts.error(message, state) return errors.new("T0210", {message = message, state = state}) end

---From now on interrupts end this process at last.
---@param o {before?: integer, count: integer, patient?: boolean} count: the one that ends it, beyond those `before`;
---patient: a SIGTERM that is not looked at does not
function interrupts.limit(o)
  local function text(message) return errors.format(interrupts.error(message), {}) .. "\n" end
  core.interrupt_limit {
    count = (o.before or (core.interrupted())) + o.count, killed = text(("interrupted %s: killed"):format(
      o.count == 2 and "twice" or o.count .. " times")),
    patience = not o.patient and interrupts.HEED_S or nil,
    unheeded = text(("interrupted, and not ended for %d s: killed"):format(interrupts.HEED_S)),
  }
end

return interrupts
