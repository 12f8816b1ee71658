-- Workers that do not come to a report after their run was told to stop: they are named, with the line of the script
-- that each is at, and when their time is over the run is cancelled. Methods of tide.controller.
local core = require "tide.core"

local late_workers = {}

local NAME_S <const> = 10
local INTERRUPTED_EXIT <const> = 130

function late_workers.extend(controller)
  ---@return string[] "worker 2 on n2 (train.lua:31)"
  function controller:late_workers()
    local list = {}
    for _, w in ipairs(self:running()) do
      if not w.waits then list[#list + 1] = ("worker %d on %s"):format(w.rank, w.node.name) end
    end
    return list
  end

  ---The run was told to stop: workers that do not come are named, and ended after `within_s`; nil: they are not.
  function controller:await_stop(within_s)
    if within_s then self.stop_by = math.min(self.stop_by or math.huge, core.now() + within_s) end
    self.name_late_at = self.name_late_at or core.now() + NAME_S
  end

  -- Beside the loop: a look at workers takes a while.
  local function name_late(self)
    core.fiber(function()
      local late <const> = table.concat(self:late_workers(), ", ")
      self:emit {kind = "log", text = ("has not come to a report for %d s: %s"):format(NAME_S, late)}
    end)
  end

  local function cancel_late(self)
    core.fiber(function()
      local why <const> = "it did not stop in time: " .. table.concat(self:late_workers(), ", ")
      if self.finished or self.failed then return end
      self:cancel_run(why, self.stopping == "interrupted" and INTERRUPTED_EXIT or nil)
    end)
  end

  ---Called now and then.
  function controller:look_for_late()
    if not self.name_late_at or self.finished or self.failed then return end
    local now <const> = core.now()
    if now >= (self.stop_by or math.huge) then
      self.stop_by = nil
      cancel_late(self)
    elseif now >= self.name_late_at then
      self.name_late_at = math.huge
      name_late(self)
    end
  end
end

return late_workers
