-- Events of a run's controller for the driver. Methods of tide.controller.
--
-- Events are a stream (tide.stream), encoded one by one, since a message holds a bounded number of values and bytes,
-- and a driver may do something else for an hour. The entries of a report's workers
-- are encoded in groups. What waits is bounded too: of what is too much the oldest go, lines of the log first, then
-- reports; the driver gets the number of dropped ones. Everything else (a failure, the end) stays.
local core = require "tide.core"
local events = require "tide.cluster.events"
local pieces = require "tide.pieces"
local stream = require "tide.stream"

local methods <const> = {}
local outbox = {methods = methods}

local LEFT_OUT <const> = {logs = "(%d lines left out)",
                          reports = "(%d reports left out: the driver did not ask for them in time)"}

local function encoded(event)
  local workers <const> = event.workers
  if type(workers) ~= "table" then return core.encode(event) end
  local sent = {}
  for k, v in pairs(event) do sent[k] = v end
  sent.workers = {}
  local group, fields = {}, 0
  local most <const> = core.limit "run_report_fields"
  for i, each in ipairs(workers) do
    group[#group + 1] = each
    for _, list in ipairs {each, each.alike} do
      for _ in pairs(list) do fields = fields + 1 end
    end
    if fields >= most or i == #workers then
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

-- Lets the oldest reports go until less than three quarters of what may wait is there.
local function shed_reports(self)
  local box <const> = self.outbox
  local most <const> = core.limit "run_backlog_bytes"
  if box.bytes <= most then return end
  for number = box.first, box.last do
    if box.bytes < most * 3 // 4 then return end
    local entry <const> = box.items[number]
    if entry and entry.tag.kind == "report" then
      if number > box.sent then self.left_out.reports = self.left_out.reports + 1 end
      box:drop(number)
    end
  end
end

---@return tide.stream
function methods:new_outbox()
  self.left_out, self.logs, self.logs_sent = {logs = 0, reports = 0}, 0, 0
  return stream.new {
    once = true, items_max = math.huge, shed = function() shed_reports(self) end,
    with = function(answer)
      local last <const> = self.outbox.items[answer.last]
      self.logs_sent = last and last.tag.logs or self.logs_sent
      answer.progress = self.progress_changed and self:progress() or nil
      self.progress_changed = false
    end,
  }
end

local function put(self, event)
  local text <const> = encoded(event)
  if event.kind == "log" then self.logs = self.logs + 1 end
  self.outbox:put(pieces.of(text), #text, {kind = event.kind, logs = self.logs})
end

-- Behind what was kept.
local function tell_left_out(self)
  for kind, what in pairs(LEFT_OUT) do
    local count <const> = self.left_out[kind]
    self.left_out[kind] = 0
    if count > 0 then put(self, {kind = "log", text = what:format(count)}) end
  end
end

---The driver asks for events.
---@param message table
---@param after? integer number of the last one that it has
function methods:read_events(message, after)
  tell_left_out(self)
  return self.outbox:read(message, after or 0)
end

---Notifies the driver, and the cluster's events.
---@param event table {kind=, ...}
function methods:emit(event)
  if event.kind == "log" and self.logs - self.logs_sent >= core.limit "run_log_lines" then
    self.left_out.logs = self.left_out.logs + 1
    return
  end
  events.of_run(self, event)
  put(self, event)
end

return outbox
