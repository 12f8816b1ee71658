-- The life of a run, as its cluster sees it: what its controller reports to the keeper of runs (runs.lua), and the
-- verbs that come from there: pause, resume, set, workers, stop, cancel. Methods of tide.controller.
--
-- A pause begins at the next report of all, or at once for workers that wait for a chunk: no worker is answered until
-- the run is resumed, and `stop.time` pauses. With `release` it begins at a report, or between two steps of a job
-- that meets, and the workers leave there: their slots are free, the tables stay. When it is resumed, workers begin
-- anew wherever there are slots, like those that join (elastic_workers.lua), so it is for jobs whose work is bound to
-- no rank. What a net's workers leave in w.state, the new ones find there.
local core = require "tide.core"
local errors = require "tide.errors"
local events = require "tide.cluster.events"
local extensions = require "tide.extensions"
local keeper = require "tide.keeper"
local notes = require "tide.run.notes"
local params = require "tide.run.params"
local report = require "tide.report"
local script = require "tide.script"
local service = require "tide.service"

local methods <const>, from_driver <const> = {}, {}
local run_life = {methods = methods, from_driver = from_driver}

local SLOT_TRIES <const> = 25
local GRANT_S <const> = 7 * 24 * 3600
local STOPPED <const> = {["on request"] = true, interrupted = true, ["its time is over"] = true}

---- the controller -------------------------------------------------------------------------------------------------

---Changes params from the next report on; workers that got the former ones keep those.
---@param changes table<string, any>
function methods:change_params(changes)
  local merged = {}
  for k, v in pairs(self.params) do merged[k] = v end
  for k, v in pairs(changes) do merged[k] = v end
  self.params = merged
end

---@return string state
---@return string? why
function methods:run_state()
  local life <const> = self.life
  if life:is "cancelled" then return "stopped", self.cancelled end
  if life:is "failed" then return "failed", errors.line(self.failed) end
  if life:is "finished" then
    local why <const> = self.stop_why
    if STOPPED[why] then return "stopped", why end
    return self.given_up and "stopped" or "done", why and "stop: " .. tostring(why)
  end
  if life:is "away" then return "suspended", life:is "asking" and "waits for slots" or self.rest.why end
  if life:is "stopping" then return "stopping", tostring(self.stop_why) end
  if life:is "starting" then return "starting", self.waits_to_start end
  if life:is "paused" then return "paused" end
  return "running", life:is "resting" and ("pausing for %d s"):format((core.now() - self.rest.since) // 1) or nil
end

---Reports this run's state to the keeper of runs: now and then, and at once when it changes. A new keeper
---learns of the run by it.
---@param now? boolean
function methods:tell_runs(now)
  if not self.a.number then return end
  local state, why = self:run_state()
  local changed <const> = state ~= self.told_state
  if not (now or changed) and core.now() - (self.told_at or 0) < core.limit "run_tell_every" then return end
  local address <const> = keeper.find()
  if not address then return end
  self.told_at, self.told_state = core.now(), state
  local loss <const> = report.value(self.last or {}, "loss")
  local done <const> = self.done_examples + (self.partial.examples or 0)
  local before <const> = self.told_done
  local rate <const> = before and core.now() > before.at and (done - before.done) / (core.now() - before.at) or nil
  if not before or core.now() - before.at >= core.limit "run_tell_every" then
    self.told_done, self.told_rate = {done = done, at = core.now()}, rate
  end
  local told <const> = {op = "tell", n = self.a.number, uid = self.a.run, state = state, why = why,
    workers = #self:running(), params = self.told_params ~= self.params and self.params or nil,
    progress = {report = self.clock, loss = loss, examples = done, rate = rate, total = self:total()}}
  self:tell_of_slots(told)
  core.send(address, told, "answer")
  self.told_params = self.params
end

-- Appends a line to a file of the run's directory. A full disk is reported once, and the run continues.
local function append(self, name, line)
  if not self.a.directory or self.closed or core.simulated() then return end
  line.time = core.wall()
  self.kept = self.kept or {}
  local file <const> = self.kept[name] or io.open(("%s/%s.jsonl"):format(self.a.directory, name), "a")
  self.kept[name] = file
  local ok, why = file, "it cannot be opened"
  if file then ok, why = file:write(core.json_encode(line), "\n") end
  if ok then ok, why = file:flush() end
  if not ok and not self.kept_told then
    self.kept_told = true
    self:emit {kind = "log", text = ("%s.jsonl could not be written: %s"):format(name, tostring(why))}
  end
end

---A line of reports.jsonl in the run's directory: the numbers of a report, summed over workers.
function methods:record_report(event)
  local line = {}
  for k, v in pairs(event) do
    if type(v) == "number" and v == v and v < math.huge and v > -math.huge then line[k] = v end
  end
  append(self, "reports", line)
end

---A line of events.jsonl: something that happened to the run.
function methods:record_event(kind, text)
  append(self, "events", {kind = kind, text = text and require("tide.text").clean_lines(text)})
end

function methods:close_records()
  for _, file in pairs(self.kept or {}) do file:close() end
  self.kept = nil
end

---Do all workers wait for what a pause holds back?
local function all_rest(self)
  local running <const> = self:running()
  for _, w in ipairs(running) do
    if not w.waits or w.waits.kind == "barrier" then return false end
  end
  return #running > 0
end

---What is remembered of a pause, and of the time without workers.
---@param why? string where the pause begins with this
---@return {since: number, callers: table[], resumers: table[], why: string?, rested_at: number?, nodes: table?,
---  at: number?} callers, resumers: messages that are not answered yet
function methods:rest_now(why)
  self.rest = self.rest or {since = core.now(), callers = {}, resumers = {}, why = why}
  return self.rest
end

-- Answers those that wait for something with an error.
local function disappoint(list, err)
  for i = #list, 1, -1 do core.answer_error(table.remove(list, i), err) end
end

-- The time that workers have rested does not count.
local function count_rest(self)
  local rest <const> = self.rest
  if rest.rested_at then self.started_at, rest.rested_at = self.started_at + core.now() - rest.rested_at, nil end
end

---Called when workers may have come to rest, and now and then.
function methods:look_for_rest()
  local rest <const> = self.rest
  if not rest then return end
  if self.life:is "pausing" and all_rest(self) then
    self.life:fire "rest"
    rest.rested_at = core.now()
  end
  local callers <const> = rest.callers
  if self.life:is "paused" or self.life:is "away" then
    rest.callers = {}
    if callers[1] then self:tell_runs(true) end
    for _, message in ipairs(callers) do core.answer(message, {state = (self:run_state())}) end
  elseif callers[1] and core.now() - rest.since > core.limit "run_pause_patience" then
    disappoint(callers, script.error("T0507", ("the workers have not come to a report for %.0f s"):format(
      core.limit "run_pause_patience"),
      {state = "the run pauses at that report; `resume` cancels the pause"}))
  end
end

-- Of a verb: whether the run has ended.
local function refuse_ended(self)
  if self.life:is "over" then
    return script.error("T0513", ("the run has ended: %s"):format((self:run_state())))
  end
end

---The run ends: notifies waiters for its pause or resumption.
function methods:end_waiting()
  if not self.rest then return end
  local err <const> = script.error("T0513", "the run ends: " .. (self:run_state()))
  disappoint(self.rest.callers, err)
  disappoint(self.rest.resumers, err)
end

-- Why a run cannot pause now.
local function cannot_pause(self, release)
  local err <const> = refuse_ended(self)
  if err then return err end
  if self.life:is "stopping" then return script.error("T0513", "the run is stopping") end
  if self.life:is "starting" then return script.error("T0513", "the run has not started") end
  local why <const> = release and self:fixed_workers()
  if not why then return nil end
  return script.error("T0513", "the workers of this run cannot leave: " .. why, {help = self.job.checkpoint
    and "stop it, which writes a checkpoint, and continue from that: tide submit --resume DIR SCRIPT"
    or "pause it without --release: it keeps its slots. With the job's field `checkpoint` it can be stopped and "
      .. "resumed"})
end

from_driver["verb.pause"] = function(self, request, message)
  local err <const> = cannot_pause(self, request.release)
  if err then return nil, err end
  table.insert(self:rest_now().callers, message)
  if request.release then -- it stays so until it is resumed, whatever a policy decides
    self.rest.why = nil
    self.life:fire "release"
  elseif self.life:is "running" then
    self.life:fire "pause"
  end
  self:look_for_rest()
  return service.LATER
end

---Workers leave at the next report, or between two steps.
---@param why? string
function methods:begin_to_leave(why)
  self:rest_now().why = why
  count_rest(self) -- they continue to their next report, if they do not wait in one already
  self:release_due()
  self:hand_out()
  self:leave_between_steps()
  self:look_for_rest()
end

---Suspended, perhaps about to resume: it stays so.
function methods:stay_suspended()
  self.rest.why = nil
  for _, w in ipairs(self.workers) do
    if w.state == "joining" or w.state == "waiting" then self:let_go(w) end
  end
  disappoint(self.rest.resumers, script.error("T0210", "the run was paused again before it resumed", {exit = 1}))
  if self.a.shared then core.fiber(keeper.ask, {op = "slots.less", n = self.a.number}) end
end

---All workers leave with the answer to this report, or where a job that meets does so.
function methods:let_all_leave()
  local nodes = {}
  for _, w in ipairs(self.workers) do
    local comes <const>, goes <const> = w.state == "joining" or w.state == "waiting", self.runs(w)
    if comes or goes then nodes[w.node.name] = (nodes[w.node.name] or 0) + 1 end
    if comes then self:let_go(w) elseif goes then w.dropped = true end
  end
  self.departing = nodes
end

---All workers of a job that meets leave between two steps, unless they wait in a report: then they leave there.
function methods:leave_between_steps()
  if not extensions.meets_midway(self.job) or self.held or not self.life:is "to_leave" then return end
  self.life:fire "tell"
  for _, w in ipairs(self:running()) do self:send_worker(w, {op = "stop", suspends = true}) end
  self:ask_to_meet()
end

---The last of them has left: what is left are the tables, and what workers that meet say of where they stand.
function methods:suspend()
  local rest <const> = self:rest_now()
  rest.nodes, rest.at = self.departing, core.now()
  self.departing, self.wanted = nil, nil
  for _, w in ipairs(self.workers) do
    if w.dropped and w.state == "done" then
      local state <const> = extensions.of(self.job, "meeting") and (self.records[w.rank] or {}).state or {}
      if state.steps and state.steps >= (self.left_off or state).steps then self.left_off = state end
      self:let_go(w)
    elseif self.a.shared and (w.state == "joining" or w.state == "waiting") then
      self:let_go(w)
    end
  end
  if self.a.shared then
    core.fiber(function() keeper.ask {op = "slots.less", n = self.a.number} end)
  end
  self:tell_runs(true)
  self:look_for_rest()
  local early <const> = rest.resumers -- they asked while workers were leaving
  rest.resumers = {}
  for _, message in ipairs(early) do self:resume(message) end
end

---@param name string
local function node_named(self, name)
  for _, node in ipairs(self.a.nodes) do
    if node.name == name and not node.lost then return node end
  end
end

---Starts workers where slots were granted: {[name of node] = count}. Nodes that came since are loaded first.
function methods:use_slots(grant)
  for _, name in ipairs(require("tide.text").sorted_keys(grant)) do
    local node = node_named(self, name)
    if not node then
      node = self:node_of(name)
      if node then
        self:watch(node, {node = node})
        self.a.nodes[#self.a.nodes + 1] = node
        if self.policies then self.policies:joined(node) end
      end
    end
    if node then
      node.workers, node.vacant = node.workers + grant[name], nil
      self:add_workers(node, grant[name])
    else -- it is gone again
      self.coming = math.max((self.coming or 0) - grant[name], 0)
      core.fiber(keeper.ask, {op = "slots.less", n = self.a.number, grant = {[name] = grant[name]}})
    end
  end
end

---A node that this run's script had started has joined a shared cluster: its slots are this run's, if they are free.
function methods:use_joined(node)
  if node.workers == 0 then return end
  core.fiber(function()
    for _ = 1, SLOT_TRIES do
      local answer <const> = keeper.ask {op = "slots.more", n = self.a.number, slots = node.workers}
      if answer then return self:use_slots(answer.grant) end
      core.sleep(0.2) -- the keeper of runs may not have the node in its view yet
    end
    self.coming = math.max((self.coming or 0) - node.workers, 0)
  end)
end

---The run is suspended as before, since no worker has come back, or there are no slots for one.
---@param err table
function methods:not_awake(err)
  disappoint(self.rest.resumers, err)
  self:tell_runs(true)
end

---The same where a policy gives it other slots.
function methods:still_parked() self:tell_runs(true) end

---Suspended, and those that come back are all there: they begin. It does not wait for those lost meanwhile.
function methods:look_for_awake()
  if not self.life:is "coming_back" then return end
  local waiting = 0
  for _, w in ipairs(self.workers) do
    if w.state == "joining" then return end
    if w.state == "waiting" then waiting = waiting + 1 end
  end
  if waiting > 0 then return self.life:fire "awake" end
  self.life:fire("alone", script.error("T0509", "the run lost all its new workers while they started",
    {state = "the run is suspended", help = self.a.number and ("tide job resume %s-%d"):format(
      self.a.job, self.a.number) or "run:resume()"}))
end

---Workers are there again.
function methods:begin_again()
  local rest <const> = self.rest
  self.started_at, self.rest = self.started_at + core.now() - rest.at, nil
  local left <const> = self.left_off
  self:begin_joined(self:admit(), left and left.epoch == self.clock and left or nil)
  self:hand_out()
  self:tell_runs(true)
  for _, message in ipairs(rest.resumers) do core.answer(message, {state = (self:run_state())}) end
end

---A suspended run on a shared cluster waits for slots, as at its beginning.
function methods:ask_for_slots()
  local rest <const> = self.rest
  rest.asked = (rest.asked or 0) + 1
  local asked <const> = rest.asked
  core.fiber(function()
    local answer <const>, err = keeper.ask({op = "grant", n = self.a.number}, GRANT_S)
    if not self.life:is "asking" or self.rest ~= rest or rest.asked ~= asked then -- it was stopped, or paused again
      if answer then keeper.ask {op = "slots.less", n = self.a.number} end
      return self:tell_runs(true)
    end
    if not answer then return self.life:fire("refused", err) end
    self.order = answer.order or self.order
    self.life:fire(answer.order and "ordered" or "granted")
    self:use_slots(answer.grant)
    self:look_for_awake()
  end)
end

---A suspended run on its script's own cluster starts workers where it had them.
function methods:wake_there()
  core.fiber(function()
    self:use_slots(self.rest.nodes)
    self:look_for_awake()
  end)
end

---It is answered when workers are there again, or cannot be.
---@param message table
function methods:resume(message)
  table.insert(self.rest.resumers, message)
  if self.life:is "suspended" then self.life:fire(self.a.shared and "ask" or "wake") end
  return service.LATER
end

---Workers continue: the pause is over, or is cancelled.
function methods:go_on()
  count_rest(self)
  local rest <const> = self.rest
  self.rest = nil
  disappoint(rest.callers, script.error("T0210", "the run was resumed before it paused", {exit = 1}))
  self:release_due()
  self:hand_out()
  self:meet()
  self:tell_runs(true)
end

from_driver["verb.resume"] = function(self, _, message)
  local err <const> = refuse_ended(self)
  if err then return nil, err end
  if self.life:is "away" or self.life:is "departing" then return self:resume(message) end
  if not self.life:may "resume" then
    return nil, script.error("T0513", "the run is not paused: " .. (self:run_state()))
  end
  self.life:fire "resume"
  return {state = (self:run_state())}
end

from_driver["verb.set"] = function(self, request)
  local err, ok = refuse_ended(self), nil
  if not err then ok, err = params.check(request.params, self.params, {new = request.new}) end
  if not ok then return nil, err end
  self:change_params(request.params)
  self:emit {kind = "params", params = self.params, changes = request.params}
  self:tell_runs(true)
  return {params = self.params}
end

from_driver["verb.workers"] = function(self, request)
  local err = refuse_ended(self)
  local count <const> = request.count
  if not err and (math.type(count) ~= "integer" or count < 1) then
    err = script.error("T0113", ("%s is no number of workers: a whole number from 1 on"):format(tostring(count)),
      {help = count == 0 and "pause with release lets all workers go" or nil})
  end
  if not err and self.life:is "away" then err = script.error("T0513", "the run is suspended: resume it first") end
  if err then return nil, err end
  local why <const> = self:fixed_workers()
  if why then return nil, script.error("T0513", "its workers cannot change: " .. why) end
  local before <const> = #self:running()
  local refused <const>, problem = self:set_workers(count)
  if refused then return nil, problem or script.error("T0117", refused) end
  events.of_resize(self, before, count, "as requested")
  return {workers = count}
end

from_driver["verb.stop"] = function(self, request)
  local err <const> = refuse_ended(self)
  if err then return nil, err end
  self.from_driver.stop(self, {reason = request.reason or "on request", within_s = request.within_s})
  self:tell_runs(true)
  return {state = (self:run_state())}
end

---Ends the workers now.
---@param why string
---@param exit? integer
function methods:cancel_run(why, exit)
  self.cancelled = why
  self:fail(script.error("T0210", "the run was cancelled: " .. why, {exit = exit or 1}))
  self:tell_runs(true)
end

from_driver["verb.cancel"] = function(self, request)
  local err <const> = refuse_ended(self)
  if err then return nil, err end
  local late <const> = self:late_workers()
  if not self.life:is "over" then self:cancel_run(("%s; %s"):format(request.why or "on request", late)) end
  return {state = (self:run_state())}
end

---A note or tags of the run have changed.
function from_driver.noted(self, request)
  if not self.a.directory or core.simulated() then return nil end
  return notes.write(self.a.directory, request)
end

---The keeper of runs considers this run ended: it must not meet its successors.
function from_driver.disowned(self)
  if not self.life:is "over" then
    self:fail(script.error("T0509", "the cluster holds this run for lost", {exit = 5,
      state = "its workers were ended and its tables dropped"}))
  end
end

return run_life
