-- What a run's controller has to tell the driver. Methods of tide.controller.
--
-- Events wait here, encoded one by one, until the driver polls, and go in messages of bounded size: a message holds a
-- bounded number of values and bytes, and a driver may do something else for an hour. The entries of a report's workers
-- are encoded in groups. What waits is bounded too: of what is too much the oldest go, lines of the log first, then
-- reports; how many went the driver is told. Everything else (a failure, the end) stays.
local core = require "tide.core"
local events = require "tide.cluster.events"
local pieces = require "tide.run.pieces"

local methods <const> = {}
local outbox = {methods = methods}

local BACKLOG_BYTES <const> = 64 << 20 -- of what waits
local MESSAGE_BYTES <const> = 1 << 20  -- of events in one message, unless a single one is larger
local MESSAGE_EVENTS <const> = 512
local GROUP_FIELDS <const> = 16384     -- of the workers of a report that are encoded together
local LOGS_MAX <const> = 1000          -- lines of the log that wait

local function encoded(event)
  local workers <const> = event.workers
  if type(workers) ~= "table" then return core.encode(event) end
  local sent = {}
  for k, v in pairs(event) do sent[k] = v end
  sent.workers = {}
  local group, fields = {}, 0
  for i, each in ipairs(workers) do
    group[#group + 1] = each
    for _, list in ipairs {each, each.alike} do
      for _ in pairs(list) do fields = fields + 1 end
    end
    if fields >= GROUP_FIELDS or i == #workers then
      sent.workers[#sent.workers + 1] = pieces.of(core.encode(group))
      group, fields = {}, 0
    end
  end
  return core.encode(sent)
end

---@param text string|string[] as in a message of the controller
---@return table event
function outbox.decoded(text)
  local event <const> = core.decode(pieces.whole(text))
  if event.kind == "report" then
    local workers = {}
    for _, group in ipairs(event.workers) do
      local list <const> = core.decode(pieces.whole(group))
      table.move(list, 1, #list, #workers + 1, workers)
    end
    event.workers = workers
  end
  return event
end

---@return table of outbox:emit
function outbox.new() return {first = 1, last = 0, bytes = 0, logs = 0, dropped_logs = 0, dropped_reports = 0} end

local function take(box)
  local entry <const> = box[box.first]
  box[box.first] = nil
  box.first = box.first + 1
  if not entry then return nil end -- one that was dropped
  box.bytes = box.bytes - #entry.text
  if entry.kind == "log" then box.logs = box.logs - 1 end
  return entry
end

local function put(box, kind, text)
  box.last = box.last + 1
  box[box.last] = {kind = kind, text = text}
  box.bytes = box.bytes + #text
  if kind == "log" then box.logs = box.logs + 1 end
end

-- Lets the oldest reports go until less than three quarters of what may wait is there.
local function drop_reports(box)
  for i = box.first, box.last do
    local entry <const> = box[i]
    if box.bytes < BACKLOG_BYTES * 3 // 4 then return end
    if entry and entry.kind == "report" then
      box.bytes = box.bytes - #entry.text
      box[i] = false
      box.dropped_reports = box.dropped_reports + 1
    end
  end
end

-- Behind what was kept.
local function tell_dropped(box, list)
  for _, kind in ipairs {"logs", "reports"} do
    local count <const> = box["dropped_" .. kind]
    if count > 0 then
      local what <const> = kind == "logs" and "(%d lines left out)"
        or "(%d reports left out: the driver did not ask for them in time)"
      list[#list + 1] = core.encode {kind = "log", text = what:format(count)}
      box["dropped_" .. kind] = 0
    end
  end
end

---Answers the driver's poll, if it waits.
function methods:flush()
  if not self.poll then return end
  local box <const> = self.outbox
  local list, bytes = {}, 0
  while box.first <= box.last and #list < MESSAGE_EVENTS do
    local entry = box[box.first]
    if entry and bytes > 0 and bytes + #entry.text > MESSAGE_BYTES then break end
    bytes = bytes + (entry and #entry.text or 0)
    entry = take(box)
    if entry then list[#list + 1] = pieces.of(entry.text) end
  end
  if box.first > box.last then tell_dropped(box, list) end
  core.answer(self.poll, {events = list, progress = self.progress_changed and self:progress() or nil})
  self.poll, self.progress_changed = nil, false
end

---@return boolean whether something waits for the driver
function methods:has_events() return self.outbox.first <= self.outbox.last end

---Tells the driver, and the cluster's events.
---@param event table {kind=, ...}
function methods:emit(event)
  local box <const> = self.outbox
  if event.kind == "log" and box.logs >= LOGS_MAX then
    box.dropped_logs = box.dropped_logs + 1
    return
  end
  put(box, event.kind, encoded(event))
  if box.bytes > BACKLOG_BYTES then drop_reports(box) end
  events.of_run(self, event)
  self:flush()
end

return outbox
