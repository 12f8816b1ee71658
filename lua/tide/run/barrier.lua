-- Where the workers of a run meet: reports and barriers. Methods of tide.controller.
--
-- A worker comes to reports and barriers one after the other, and those of all workers are the same in the same order:
-- what it comes to first is the first that it passes. At a report it waits; a barrier it may have come to without
-- waiting (`async`), and have come to others since. `waits` is the first that it has come to and others have not,
-- `later` are those behind it. A meeting is complete when it is the first of every worker that still runs. When the
-- first ones of all differ, they will for ever, and the run fails instead of hanging.
--
-- A worker that is lost is taken out of all meetings, with the values that it gave to barriers that have not passed.
-- One that returns has passed all that it came to. Workers join at a report, where none is at anything else.
--
-- The answer to a report goes out when all are there. While the driver iterates over reports it is held back until the
-- driver asks for the next one, so that an evaluation in the body of that loop sees the parameters of exactly this
-- report.
local core = require "tide.core"
local extensions = require "tide.extensions"
local params = require "tide.run.params"
local report = require "tide.report"
local script = require "tide.script"

local methods <const> = {}
local barrier = {methods = methods}

---@return boolean whether it has begun and not returned
local function runs(w)
  return w.state ~= "done" and w.state ~= "joining" and w.state ~= "waiting" and w.state ~= "lost"
end

---Notifies a worker that the first of what it has come to is complete; it may have come to the next.
local function pass(self, w, message)
  message.id = w.waits.id
  self:count_wait(w)
  self:send_worker(w, message)
  w.waits = w.later and table.remove(w.later, 1)
end

---Numbers of all workers, over what their completed chunks reported. What is alike counts once.
local function sum_of(workers, sum)
  local each = {}
  for i, w in ipairs(workers) do
    each[i] = w.report
    report.add(sum, w.report)
  end
  for _, w in ipairs(workers) do
    for k, v in pairs(w.report.alike or {}) do sum[k] = v end
  end
  return sum, each
end

local function bytes_of(value)
  if type(value) == "string" then return #value end
  if type(value) ~= "table" then return type(value) == "userdata" and core.limit "run_barrier_bytes" or 16 end
  local bytes = 0
  for _, piece in ipairs(value) do bytes = bytes + #piece end
  return bytes
end

---What they gave, of some ranks when workers are lost, as it goes into messages: lists of {rank, value, encoded}.
---@return table[] batches the last one may be empty
local function values_of(workers)
  local batch, bytes = {}, 0
  local batches = {batch}
  local values_most <const>, bytes_most <const> = core.limit "run_barrier_values", core.limit "run_barrier_bytes"
  for _, w in ipairs(workers) do
    local value <const> = w.waits.value
    if value ~= nil then
      local more <const> = bytes_of(value)
      if bytes > 0 and bytes + more > bytes_most or #batch >= values_most then
        batch, bytes = {}, 0
        batches[#batches + 1] = batch
      end
      bytes = bytes + more
      batch[#batch + 1] = {rank = w.rank, value = value, encoded = w.waits.encoded}
    end
  end
  return batches
end

---@return string|nil where all of these workers are first
---@return string? places where they are, when these differ
local function place_of(workers)
  local counts, parts = {}, {}
  for _, w in ipairs(workers) do
    local place <const> = w.waits.kind == "barrier" and "barrier `" .. w.waits.name .. "`" or w.waits.kind
    counts[place] = (counts[place] or 0) + 1
  end
  for place, n in pairs(counts) do parts[#parts + 1] = ("%d at %s"):format(n, place) end
  table.sort(parts)
  return #parts == 1 and workers[1].waits.kind or nil, table.concat(parts, ", ")
end

-- Calls the job's on_report: what it returns becomes part of the params, where that travels to the workers, and a
-- reason ends the run.
---@return true|nil ok, table? err
local function consult(self, sum)
  local view <const>, told <const> = {id = self.a.run, params = self.params, state = self.state, n = self.clock}, {}
  for k, v in pairs(sum) do told[k] = v end -- its own: it may write into it
  local began <const> = core.now()
  local ok, answer, reason = xpcall(self.job.on_report, script.failure, view, told)
  self.on_report_s = (self.on_report_s or 0) + core.now() - began
  if not ok then return nil, answer end
  local who <const> = ("on_report of job `%s`"):format(self.a.job)
  if reason ~= nil and type(reason) ~= "string" then
    return nil, script.error("T0113", ("%s: the reason to stop is a string, not a %s"):format(who, type(reason)))
  end
  self.given_up = reason
  if answer == nil then return true end
  local err
  ok, err = params.check(answer, nil, {who = who})
  if ok then self:change_params(answer) end
  return ok, err
end

methods.runs = runs

---@return table[] workers that have not returned
function methods:running()
  local list = {}
  for _, w in ipairs(self.workers) do
    if runs(w) then list[#list + 1] = w end
  end
  return list
end

---A worker has come to a report or barrier.
---@param at {kind: "report"|"barrier", id: integer, name?: string, value?: any, async?: boolean}
function methods:arrive(w, at)
  at.since = core.now()
  if w.waits then
    w.later = w.later or {}
    w.later[#w.later + 1] = at
    return -- the others have not even come to what is before it
  end
  w.waits = at
  self:leave_queue(w)
  self:meet()
end

---Answers the workers that wait in a report. Here workers join, and dropped ones are notified.
function methods:release()
  local held = self.held
  if not held then return end
  if not held.stop and self.life:is "held_back" then
    held.due = true
    return
  end
  if not held.stop and self.life:is "to_leave" then self.life:fire "tell" end
  self.held = nil
  local waiting = {}
  for _, w in ipairs(self.workers) do
    if w.waits and w.waits.kind == "report" then waiting[#waiting + 1] = w end
  end
  local joined = (held.stop or self.departing) and {} or self:admit()
  for _, w in ipairs(waiting) do
    if w.dropped and self.policies then self.policies:ended(w.rank) end
  end
  for _, w in ipairs(waiting) do
    pass(self, w, {op = "answer", params = self.params, stop = held.stop or w.dropped or false,
             suspends = self.departing and not held.stop or nil,
             batch = self.policies and self.policies:batch_of(w.rank)})
  end
  self:begin_joined(joined)
end

---A report whose answer a pause has held back is answered now.
function methods:release_due()
  if self.held and self.held.due then self:release() end
end

---Whether a number of the reports has got no better for long enough. What is known of it is in the run's state, so
---a resumed run continues to count.
function methods:no_better(stop, sum)
  local per <const> = stop.per and sum[stop.per] or not stop.per and report.count_of(sum, stop.metric)
    or not stop.per and sum.examples
  local value = sum[stop.metric]
  local missing <const> = not value and stop.metric or stop.per and not per and stop.per
  if missing then
    self:fail(script.error("T0203", ("the stop rule's metric `%s` is not in the report"):format(missing)))
    return false
  end
  if per and per > 0 then
    value = value / per
  elseif stop.per then
    value = 0 / 0 -- of nothing: no better than any number
  end
  local known <const> = self.state.stop_rule or {since = 0}
  self.state.stop_rule = known
  local gain <const> = known.best and (stop.better == "more" and value - known.best or known.best - value)
  if value == value and (not gain or gain > (stop.by or 0)) then
    known.best, known.since = value, 0
  else
    known.since = known.since + 1
  end
  if known.since < stop.patience then return false end
  if not known.best then
    local why <const> = per == 0 and ("of 0 `%s`"):format(stop.per) or "not a number"
    self:fail(script.error("T0203", ("the stop rule's metric `%s` is %s in each of %d reports"):format(stop.metric, why,
      known.since)))
    return false
  end
  return true
end

---@return string|nil why the stop rule of the job ends the run now
function methods:stop_reason(sum)
  local stop = self.job.stop or {}
  if self.stop_why then return self.stop_why end
  if self.given_up then return self.given_up end
  if stop.epochs and self.clock >= stop.epochs then return "epochs" end
  local loss <const> = report.value(sum, "loss")
  if stop.loss and loss and loss <= stop.loss then return "loss" end
  if stop.metric and self:no_better(stop, sum) then return stop.metric end
  if self.stop_time_s and core.now() - self.started_at >= self.stop_time_s then return "time" end
  return nil
end

function methods:complete_report(waiting)
  self.clock = self.clock + 1
  local complete_at <const> = core.now()
  for _, w in ipairs(waiting) do w.waits.complete_at = complete_at end
  local sum, each = sum_of(waiting, self.chunks and self.chunks:take_sums() or {})
  self.partial, self.last = {}, sum
  self.done_examples = self.done_examples + (sum.examples or 0)
  self.progress_changed = true
  local event = {kind = "report"}
  for k, v in pairs(sum) do event[k] = v end
  event.n, event.clock, event.workers = self.clock, self.clock, each
  event.elapsed_s = core.now() - self.started_at
  if self.job.on_report then
    local ok, err = consult(self, sum)
    if not ok then return self:fail(err) end
  end
  if self.policies then
    local since <const> = core.now()
    self.policies:reported(waiting, sum)
    self.policies_s = (self.policies_s or 0) + core.now() - since
  end
  self:measure(waiting, sum)
  event.params = self.params
  event.stop = self:stop_reason(sum)
  self.stop_why = event.stop
  if event.stop then self.life:fire "stop" end
  self:record_report(event)
  self:evaluate_late()
  self:settle_workers()
  self.held = {stop = event.stop ~= nil}
  local hold = self.hold
  self:emit(event)
  if not hold then self:release() end
  self:look_for_rest()
end

---All workers have returned.
function methods:finish()
  if self.life:is "over" then return end
  local set <const> = self.chunks
  if set and set.pass > 0 and not set:over() and not self.stop_why then
    local text <const> = ("of pass %d over the data %d of %d chunks were not read: the workers have returned")
      :format(set.pass, set.missing, set.pieces)
    local has_left = self.has_retired
    for _, w in ipairs(self.workers) do has_left = has_left or w.dropped end
    if has_left then return self:fail(script.error("T0609", text)) end
    self:emit {kind = "log", text = text}
  end
  self:end_waiting()
  self.life:fire "finish"
  core.fiber(function()
    local err <const> = self:missing()
    if err then return self:fail(err) end
    self:evaluate_late()
    if self.job.checkpoint then self:last_checkpoint() end
    self:emit {kind = "finished"}
  end)
end

---Between two steps of a job that meets: those that wait to join begin.
---@return boolean whether there are any
function methods:admit_here()
  if self.departing then return false end
  local joined <const> = self:admit()
  self:begin_joined(joined)
  return #joined > 0
end

---@return boolean whether a waiting worker is to leave and was not notified
function methods.unheard(_, running)
  for _, w in ipairs(running) do
    local value <const> = w.waits.value
    if w.dropped and w.waits.name == "epoch" and not (type(value) == "table" and value.leaves) then return true end
  end
  return false
end

---Looks whether all that still run have met; called after every arrival and every end.
function methods:meet()
  if self.failed or self.held then return end
  for _, w in ipairs(self.workers) do
    if not w.waits and runs(w) then return end -- found soon while many still work: a round costs no square of them
  end
  local running = self:running()
  if #running == 0 and self.life:is "departing" then return self.life:fire "left" end
  if #running == 0 and self.life:is "away" then return end
  if #running == 0 then return self:finish() end
  local kind, places = place_of(running)
  if not kind then
    return self:fail(script.error("T0609", "the workers wait for different things: " .. places,
      {help = "every worker must reach the same reports and barriers"}))
  end
  if kind == "report" then return self:complete_report(running) end
  if kind == "chunk" and self.life:is "resting" then return self:look_for_rest() end
  if kind == "chunk" then
    return self:fail(script.error("T0609", "all workers wait for chunks that they hold themselves",
      {help = "w:chunks() inside a loop over w:chunks() cannot end"}))
  end
  if extensions.meets_midway(self.job) and running[1].waits.name == "epoch" and self:admit_here() then
    return -- they come here too
  end
  local stays <const> = extensions.meets_midway(self.job) and self:unheard(running)
  local batches <const> = values_of(running)
  for _, w in ipairs(running) do
    for k = 1, #batches - 1 do self:send_worker(w, {op = "values", id = w.waits.id, values = batches[k]}) end
    pass(self, w, {op = "pass", values = batches[#batches]})
  end
  if stays then self:ask_to_meet() end
  return self:meet() -- the last one to come may have been lost: then the others have come to the next
end

return barrier
