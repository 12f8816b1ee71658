-- Workers that do not come to a report after their run was stopped: they are named, with the line of the script
-- that each is at, and when their time is over the run is cancelled. Methods of tide.controller.
local core = require "tide.core"
local stacks = require "tide.cluster.stacks"

local methods <const>, from_driver <const> = {}, {}
local late_workers = {methods = methods, from_driver = from_driver}

local NAME_S <const> = 10
local INTERRUPTED_EXIT <const> = 130
local NAMED_MAX <const> = 8

---Workers that have not come to a report, each with the line that it is at. Blocks for the looks at them.
---@return string "worker 2 on n2 is at train.lua:31, ..."
function methods:late_workers()
  local late, lines = {}, stacks.by_address(stacks.gather {run = self.a.run})
  for _, w in ipairs(self:running()) do
    if not w.waits then
      local line <const> = lines[w.address]
      late[#late + 1] = ("worker %d on %s%s"):format(w.rank, w.node.name, line and " is at " .. line or "")
    end
  end
  if #late > NAMED_MAX then
    late[NAMED_MAX] = ("and %d more"):format(#late - NAMED_MAX + 1)
    for i = #late, NAMED_MAX + 1, -1 do late[i] = nil end
  end
  return #late > 0 and table.concat(late, ", ") or "no worker is late"
end

---The run was asked to stop: workers that do not come are named, and ended after `within_s`; nil: they are not.
function methods:await_stop(within_s)
  if within_s then self.stop_by = math.min(self.stop_by or math.huge, core.now() + within_s) end
  self.name_late_at = self.name_late_at or core.now() + NAME_S
end

-- Beside the loop: a look at workers takes a while.
local function name_late(self, now)
  core.fiber(function()
    local late <const>, by = self:late_workers(), self.stop_by
    self:emit {kind = "log", text = ("no report for %d s: %s%s"):format(NAME_S, late,
      by and (": cancelled in %.0f s"):format(by - now) or "")}
  end)
end

local function cancel_late(self)
  core.fiber(function()
    local why <const> = "it did not stop in time: " .. self:late_workers()
    if self.life:is "over" then return end
    self:cancel_run(why, self.stop_why == "interrupted" and INTERRUPTED_EXIT or nil)
  end)
end

---Called now and then.
function methods:look_for_late()
  if not self.name_late_at or self.life:is "over" then return end
  local now <const> = core.now()
  if now >= (self.stop_by or math.huge) then
    self.stop_by = nil
    cancel_late(self)
  elseif now >= self.name_late_at then
    self.name_late_at = math.huge
    name_late(self, now)
  end
end

---The workers that delay the end: {} -> {late}.
function from_driver.late(self) return {late = self:late_workers()} end

return late_workers
