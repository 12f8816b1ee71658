-- The policy host: seats that decide when they are due, validation of their plans, faults and successors, swaps,
-- guards, shadows, rollback, and a journal of all of it. It knows neither the network nor the simulator; what it needs
-- of them is a driver:
--
--   now() -> seconds                                 the run's clock
--   snapshot(kind, scope, needs) -> view             plain; without needs: the state plans are validated against
--   apply(kind, scope, actions, epoch) -> true | nil, why     carries out what plan.diff gives, in that order
--   signals(kind, scope) -> {[name] = true}          what is measured
--   notify(event)                                    something a person should see; optional
--   printed(seat, text)                              what a policy printed; optional
--   things(kind, scope) -> {[metric] = {[id] = samples}}      what is measured of each thing; optional, for canaries
--
-- Drivers: the job controller (live.lua, also under `tide sim`), tests, and replay (replay.lua, which applies nothing).
-- Times and epochs order everything: one epoch per change of a policy, stamped on what is applied.
local canary = require "tide.policy.canary"
local contract = require "tide.policy.contract"
local core = require "tide.core"
local errors = require "tide.errors"
local guard = require "tide.policy.guard"
local journal = require "tide.policy.journal"
local plan = require "tide.policy.plan"
local seat = require "tide.policy.seat"
local source = require "tide.policy.source"

local host = {}
host.__index = host

local VIEWS_BYTES <const> = 8 << 20 -- of one answer

---@param o {driver: table, seed?: integer, timed?: boolean, journal?: table}
function host.new(o)
  return setmetatable({
    driver = o.driver, seed = o.seed or 0, timed = o.timed or false, journal = o.journal or journal.new(),
    seats = {}, order = {}, epoch = 0, metrics = {},
  }, host)
end

local function key_of(kind, scope) return kind .. "\0" .. scope end

function host:notify(event)
  event.at = self.driver.now()
  if self.driver.notify then self.driver.notify(event) end
end

-- What the seat's policy printed in its last step, lines of text.
function host:show_printed(s)
  local lines <const> = s.printed or ""
  s.printed = nil
  if lines ~= "" and self.driver.printed then self.driver.printed(s:name(), lines) end
end

---@param kind string
---@param scope? string
---@return table|nil seat, table? err
function host:seat(kind, scope)
  if scope then
    local found = self.seats[key_of(kind, scope)]
    if found then return found end
  else
    local found
    for _, s in ipairs(self.order) do
      if s.kind == kind then
        if found then
          return nil, errors.new("T0303", ("there are several seats for %s: name the scope"):format(kind))
        end
        found = s
      end
    end
    if found then return found end
  end
  local names = {}
  for i, s in ipairs(self.order) do names[i] = s:name() end
  return nil, errors.new("T0303", ("there is no seat for %s policies here; there are: %s"):format(tostring(kind),
    #names > 0 and table.concat(names, ", ") or "none"))
end

---- views and records ---------------------------------------------------------------------------------------------

function host:view_of(s)
  local now = self.driver.now()
  local needs = s.current.policy.needs
  local beside = s.shadowed and now <= s.shadowed.ends and s.shadowed.version
  if beside then needs = table.move(beside.policy.needs, 1, #beside.policy.needs, #needs + 1, {table.unpack(needs)}) end
  local view = self.driver.snapshot(s.kind, s.scope, needs)
  view.now, view.tick, view.reason, view.last = now, s.tick + 1, s.reasons, s.last
  view.age = view.age or {}
  return view, needs
end

function host:record(s, what, fields)
  fields.what, fields.at, fields.kind, fields.scope, fields.epoch = what, self.driver.now(), s.kind, s.scope, self.epoch
  fields.canary = s.trial ~= nil or nil
  self.journal:append(fields)
end

---- deciding ------------------------------------------------------------------------------------------------------

local function explain(p)
  return type(p.why) == "string" and p.why or nil
end

-- What a plan said about each thing it touched: cluster.policy.why().
local function note_why(s, actions, p, now)
  local function note(a, id)
    local text = type(p.why) == "table" and p.why[id] or explain(p)
    local name = a.field .. (id and " " .. id or "")
    s.whys[name] = {text = text or ("%s %s"):format(name, a.shrink and "shrinks" or "changes"), at = now,
                    policy = s.current.policy.name, version = s.current.policy.version}
  end
  for _, a in ipairs(actions) do
    if a.field == "drop" then
      for _, id in ipairs(a.value) do note(a, id) end
    else
      note(a, a.id)
    end
  end
end

---Hands the seat to its successor: an earlier version that did not fail, else the kind's fallback.
function host:take_over(s, why)
  local failed = s.current
  failed.failed = why
  local candidate = s:previous_good()
  local version = candidate and s:prepare({text = candidate.text, path = candidate.path, sha = candidate.sha},
    candidate.params, candidate.saved)
  if not version then version = assert(s:prepare(assert(s:fallback()))) end
  self:replace(s, version, "take-over", why)
  self:notify {kind = "policy_failed", seat = s:name(), policy = failed.policy.name, reason = why,
               now = version.policy.name}
end

function host:fault(s, kind, message, fields)
  local now = self.driver.now()
  s.last = {status = "rejected", errors = message}
  fields.verdict, fields.fault = kind, message
  self:record(s, "decision", fields)
  local too_many = s:faulted(now)
  if s.trial then return canary.withdraw(self, s.of, ("%s: %s"):format(kind, message), true) end
  if s.guard then
    self:notify {kind = "policy_fault", seat = s:name(), policy = s.current.policy.name, reason = message}
    return self:trip(s, ("%s in the guard's window: %s"):format(kind, message))
  end
  if too_many or not s:rebuild() then return self:take_over(s, message) end
  self:notify {kind = "policy_fault", seat = s:name(), policy = s.current.policy.name, reason = message}
end

function host:carry_out(s, checked, now_state, fields)
  local began = self.driver.now()
  local actions = plan.diff(checked, now_state)
  local ok, why = true, nil
  if #actions > 0 then ok, why = self.driver.apply(s.kind, s.scope, actions, self.epoch) end
  local done_s = self.driver.now() - began
  s.last = {status = ok and "applied" or "partial", errors = not ok and tostring(why) or nil, done_s = done_s}
  fields.verdict, fields.actions = ok and "applied" or "partial", #actions
  fields.refused = not ok and tostring(why) or nil
  s.actions = s.actions + #actions
  note_why(s, actions, checked, began)
end

---One decision of a seat.
function host:decide(s)
  local now = self.driver.now()
  local view, needs = self:view_of(s)
  s.reasons, s.last_at, s.wake = {}, now, nil
  s.next_at = now + s.every
  local bytes, fault, view_bytes, seed = s:decide(view, needs)
  s.decisions = s.decisions + 1
  self:show_printed(s)
  local fields = {tick = s.tick, seed = seed, view = view_bytes, plan = bytes, version = s.current.number}
  self:run_shadow(s, view_bytes, seed, bytes)
  if not bytes then return self:fault(s, fault.kind, fault.message, fields) end
  local state = self.driver.snapshot(s.kind, s.scope)
  local verdict = plan.validate(s.kind, core.plain_decode(bytes), state, view, s.every)
  if not verdict.plan then return self:fault(s, "rejected", plan.describe(verdict.errors), fields) end
  fields.dropped = verdict.dropped > 0 and verdict.dropped or nil
  s.row = 0
  local checked = verdict.plan
  if checked.next_every then s.every, s.next_at = checked.next_every, now + checked.next_every end
  if checked.wake then s.wake = math.max(checked.wake, now) end
  if s.trial or s.canary then
    local part, why = canary.part(s, checked, state, view)
    if not part and s.trial then return self:fault(s, "rejected", why, fields) end
    if not part then canary.withdraw(self, s, why) end
    checked = part or {} -- the old policy's next decision is about everything again
  end
  self:carry_out(s, checked, state, fields)
  local saved, problem = s:save()
  fields.saved = saved
  if problem then return self:fault(s, problem.kind, problem.message, fields) end
  self:record(s, "decision", fields)
end

---Runs every seat that is due, looks at the guards.
---@return number when the next seat is due
function host:step()
  local next_at = math.huge
  for _, s in ipairs(self.order) do
    if s.guard then self:watch(s) end
    if s.canary then canary.watch(self, s) end
    if s:due() <= self.driver.now() then self:decide(s) end
    if s.canary and s.canary.seat:due() <= self.driver.now() then self:decide(s.canary.seat) end
    next_at = math.min(next_at, s:due(), s.guard and s.guard.ends or math.huge)
    if s.canary then next_at = math.min(next_at, s.canary.seat:due(), canary.ends(s.canary)) end
  end
  return next_at
end

---Something happened: seats that listen decide at once.
---@param name string
---@param id? integer
function host:event(name, id)
  for _, s in ipairs(self.order) do
    s:event(name, id)
    if s.canary then s.canary.seat:event(name, id) end
  end
end

---A sample of a metric that guards may watch.
function host:metric(name, value)
  if value ~= value then -- a loss that is no number trips every guard
    local why = ("%s is not a number"):format(name)
    for _, s in ipairs(self.order) do
      if s.canary then canary.withdraw(self, s, why, true) end
      if s.guard then self:trip(s, why) end
    end
    return
  end
  guard.sample(self.metrics, name, self.driver.now(), value)
end

---- changing policies ---------------------------------------------------------------------------------------------

---One record, one epoch: before it the old policy holds the seat, after it the new one.
function host:replace(s, version, what, why)
  if s.canary then canary.withdraw(self, s, "the seat got another policy") end
  self.epoch = self.epoch + 1
  self:record(s, what, {name = version.policy.name, version = version.policy.version, sha = version.sha,
    text = version.text, path = version.path, params = version.params, saved = version.saved, why = why,
    number = s.installed + 1, seed = self.seed, exports = version.policy.exports})
  s.guard, s.shadowed = nil, nil
  s:install(version, self.driver.now())
  self:show_printed(s)
end

---Makes a seat and puts a policy into it.
---@param kind string
---@param scope string
---@param ref? string|table the kind's fallback if nil
---@return table|nil seat, table? err
function host:add_seat(kind, scope, ref)
  local s = seat.new(kind, scope, {seed = self.seed, timed = self.timed, signals = self.driver.signals(kind, scope)})
  local found, err = source.find(ref or contract.kinds[kind].fallback)
  if not found then return nil, err end
  local version
  version, err = s:prepare(found)
  if not version then return nil, err end
  self.seats[key_of(kind, scope)] = s
  self.order[#self.order + 1] = s
  self:replace(s, version, "load")
  return s
end

-- A candidate's first decision, on the newest view: nothing of it is carried out.
function host:rehearse(s, found, params, saved)
  local trial, err = s:prepare(found, params, saved)
  if not trial then return nil, err end
  local view = self.driver.snapshot(s.kind, s.scope, trial.policy.needs)
  view.now, view.tick, view.reason, view.last, view.age = self.driver.now(), s.tick + 1, {}, {status = "none"}, {}
  local bytes, fault = trial.sandbox:decide(core.plain_encode(view), 0, source.budget(s.kind, self.timed))
  trial.sandbox:close()
  local why = fault and fault.message
  if bytes then
    local verdict = plan.validate(s.kind, core.plain_decode(bytes), self.driver.snapshot(s.kind, s.scope), view,
      trial.policy.every)
    why = not verdict.plan and plan.describe(verdict.errors) or nil
  end
  if why then
    return nil, errors.new("T0304", {message = ("policy `%s` fails on the newest view: %s"):format(found.path, why),
      where = why:match "^(.-:%d+): ", state = "nothing was changed"})
  end
  return true
end

---The seat that a policy is for, and the policy's source.
---@param ref string|table
---@param o {scope?: string, params?: table}
---@return tide.policy.seat|nil seat, table found_or_err
function host:aim(ref, o)
  local found, err = source.find(ref)
  if not found then return nil, err end
  local peek
  peek, err = source.load(found, {timed = self.timed, params = o.params})
  if not peek then return nil, err end
  peek.sandbox:close()
  local s
  s, err = self:seat(peek.policy.kind, o.scope)
  if not s then return nil, err end
  return s, found
end

---Puts another policy into its kind's seat; with `canary` first into a part of it (canary.lua).
---@param ref string|table
---@param o? {scope?: string, params?: table, guard?: table, canary?: table, force?: boolean, by?: string} by: a person
---@return table|nil {seat, old, new, epoch, guard}, table? err
function host:swap(ref, o)
  o = o or {}
  local s, found = self:aim(ref, o)
  if not s then return nil, found end
  if s.blocked[found.sha] and not o.force then
    return nil, errors.new("T0305", ("`%s` was rolled back: %s"):format(found.path, s.blocked[found.sha]))
  end
  local armed, err
  if o.guard and not o.canary then
    armed, err = guard.arm(self.metrics, o.guard, self.driver.now())
    if not armed then return nil, err end
  end
  local saved, fault = s:save()
  if fault then s:rebuild() end
  saved = saved or s:last_export()
  local ok
  ok, err = self:rehearse(s, found, o.params, saved)
  if not ok then return nil, err end
  if o.canary then return canary.begin(self, s, found, o, saved) end
  local version
  version, err = s:prepare(found, o.params, saved)
  if not version then return nil, err end
  version.by = o.by
  local old = s.current
  old.saved_at_swap = saved
  self:replace(s, version, "swap")
  s.blocked[found.sha] = nil
  s.guard = armed
  return {seat = s:name(), old = ("%s v%d"):format(old.policy.name, old.policy.version),
          new = ("%s v%d"):format(version.policy.name, version.policy.version), epoch = self.epoch,
          guard = armed and {metric = armed.metric, baseline = armed.baseline, limit = armed.limit} or nil}
end

---The same source with other parameters.
---@param kind string
---@param params table
function host:set(kind, params, o)
  local s, err = self:seat(kind, o and o.scope)
  if not s then return nil, err end
  local merged = {}
  for k, v in pairs(s.current.params) do merged[k] = v end
  for k, v in pairs(params) do merged[k] = v end
  local c = s.current
  return self:swap({text = c.text, path = c.path}, {scope = s.scope, params = merged, guard = o and o.guard,
    by = o and o.by})
end

-- The version that a rollback goes to: the newest earlier one that did not fail and is another one, for after a
-- rollback the list holds the same policy twice.
local function before_current(s)
  local c = s.current
  local params = core.plain_encode(c.params)
  for i = #s.versions - 1, 1, -1 do
    local v = s.versions[i]
    if not v.failed and (v.sha ~= c.sha or core.plain_encode(v.params) ~= params) then return v end
  end
  return nil
end

---Back to the version before, with the state it had at the swap (or its latest export); while a canary runs, back
---to the policy beside it.
---@param kind string
---@param o? {scope?: string, latest?: boolean, why?: string}
function host:rollback(kind, o)
  o = o or {}
  local s, err = self:seat(kind, o.scope)
  if not s then return nil, err end
  if s.canary then return canary.withdraw(self, s, o.why or "rolled back by hand") end
  local before = before_current(s)
  if not before then return nil, errors.new("T0306", ("%s has no earlier policy to return to"):format(s:name())) end
  local saved = before.saved
  if not o.latest then saved = before.saved_at_swap or before.saved end
  local version
  version, err = s:prepare({text = before.text, path = before.path, sha = before.sha}, before.params, saved)
  if not version then return nil, err end
  version.by = o.by
  local left = s.current
  self:replace(s, version, "rollback", o.why)
  return {seat = s:name(), old = ("%s v%d"):format(left.policy.name, left.policy.version),
          new = ("%s v%d"):format(version.policy.name, version.policy.version), epoch = self.epoch}
end

---- guards and shadows --------------------------------------------------------------------------------------------

function host:trip(s, why)
  local failed = s.current
  failed.failed = why
  s.blocked[failed.sha] = why
  s.guard = nil
  if s.canary then canary.withdraw(self, s, why) end
  local answer = self:rollback(s.kind, {scope = s.scope, why = why})
  if not answer then self:take_over(s, why) end
  self:notify {kind = "policy_rolled_back", seat = s:name(), policy = failed.policy.name, reason = why,
               now = s.current.policy.name}
end

function host:watch(s)
  local verdict, text = guard.look(self.metrics, s.guard, self.driver.now())
  if verdict == "breach" then return self:trip(s, text) end
  if verdict == "passed" then
    s.guard, s.current.guard_passed = nil, text
    self:notify {kind = "policy_guard_passed", seat = s:name(), policy = s.current.policy.name, reason = text}
  end
end

---Runs a policy beside the live one: on the same views, with its own state, nothing carried out.
---@param ref string|table
---@param o? {scope?: string, params?: table, for_?: number seconds}
function host:shadow(ref, o)
  o = o or {}
  local s, found = self:aim(ref, o)
  if not s then return nil, found end
  local version, err = s:prepare(found, o.params, s:last_export())
  if not version then return nil, err end
  s.shadowed = {version = version, ends = self.driver.now() + (o.for_ or 600), decisions = 0, same = 0, invalid = 0,
                faults = 0, since = self.driver.now(), fields = {}}
  return {seat = s:name(), policy = version.policy.name, for_ = o.for_ or 600}
end

local function count_fields(shadow, own, live)
  local seen = {}
  for _, p in ipairs {own or {}, live or {}} do
    for field in pairs(p) do seen[field] = true end
  end
  for field in pairs(seen) do
    local f = shadow.fields[field] or {same = 0, differs = 0}
    local same = core.plain_encode((own or {})[field]) == core.plain_encode((live or {})[field])
    if same then f.same = f.same + 1 else f.differs = f.differs + 1 end
    shadow.fields[field] = f
  end
end

function host:run_shadow(s, view_bytes, seed, live_bytes)
  local shadow = s.shadowed
  if not shadow or self.driver.now() > shadow.ends or not shadow.version.sandbox then return end
  shadow.decisions = shadow.decisions + 1
  local bytes, fault = shadow.version.sandbox:decide(view_bytes, seed, source.budget(s.kind, self.timed))
  if not bytes then
    shadow.faults, shadow.fault = shadow.faults + 1, fault.message
    shadow.version.sandbox:close()
    shadow.version.sandbox = nil
    return
  end
  local own = core.plain_decode(bytes)
  local verdict = plan.validate(s.kind, own, self.driver.snapshot(s.kind, s.scope), core.plain_decode(view_bytes),
    s.every)
  if not verdict.plan then shadow.invalid, shadow.fault = shadow.invalid + 1, plan.describe(verdict.errors) end
  if bytes == live_bytes then shadow.same = shadow.same + 1 end
  if bytes ~= live_bytes and not shadow.first then
    shadow.first = {tick = s.tick, own = own, live = live_bytes and core.plain_decode(live_bytes)}
  end
  if type(own) == "table" or own == nil then
    count_fields(shadow, own, live_bytes and core.plain_decode(live_bytes) or nil)
  end
end

---What runs beside a seat's policy, or did last: a canary with the figures of both groups, or a shadow.
---@return table|nil report, table? err
function host:report(kind, scope)
  local s, err = self:seat(kind, scope)
  if not s then return nil, err end
  local shadow = s.shadowed
  if s.canary or not shadow and s.trials then return canary.report(self, s) end
  if not shadow then
    return nil, errors.new("T0303", {message = ("%s has no shadow and no canary to report"):format(s:name()),
      help = "start one: tide policy shadow POLICY"})
  end
  return {policy = shadow.version.policy.name, decisions = shadow.decisions, same = shadow.same,
          invalid = shadow.invalid, faults = shadow.faults, fault = shadow.fault, fields = shadow.fields,
          first_difference = shadow.first, running = self.driver.now() <= shadow.ends}
end

---- asking --------------------------------------------------------------------------------------------------------

---What a check decides on: the recorded views of a seat, the newest within VIEWS_BYTES, and the policy that made the
---plans. The caller runs the candidate in its own process: one that takes all its time stalls no worker.
---@param kind string
---@param scope? string
---@return table|nil plain data for replay.check, table? err
function host:recorded(kind, scope)
  local s, err = self:seat(kind, scope)
  if not s then return nil, err end
  local c <const>, all <const> = s.current, s:recorded()
  local first, bytes = #all + 1, 0
  while first > 1 and bytes + #all[first - 1].view <= VIEWS_BYTES do
    first = first - 1
    bytes = bytes + #all[first].view
  end
  return {kind = s.kind, scope = s.scope, seed = s.seed, saved = s:last_export(), signals = s.signals,
          timed = self.timed, current = {text = c.text, path = c.path, sha = c.sha, params = c.params},
          views = table.move(all, first, #all, 1, {}), left_out = first - 1}
end

---@return table[] one entry a seat
function host:list()
  local list = {}
  for i, s in ipairs(self.order) do
    local c = s.current
    list[i] = {seat = s:name(), kind = s.kind, scope = s.scope, name = c.policy.name, version = c.policy.version,
               since_s = self.driver.now() - c.since, decisions = s.decisions, actions = s.actions, errors = s.errors,
               epoch = self.epoch, guarded = s.guard ~= nil, canary = s.canary and canary.text(s.canary),
               sha = c.sha:sub(1, 12), last = s.last.status, last_errors = s.last.errors, params = c.params}
  end
  return list
end

---What holds each seat, as a checkpoint records it.
---@return table[] {seat, name, version, sha}
function host:holders()
  local list = {}
  for i, s in ipairs(self.order) do
    local c <const> = s.current
    list[i] = {seat = s:name(), name = c.policy.name, version = c.policy.version, sha = c.sha}
  end
  return list
end

---@return table[]|nil versions of a seat, oldest first, table? err
function host:history(kind, scope)
  local s, err = self:seat(kind, scope)
  if not s then return nil, err end
  local list = {}
  for i, v in ipairs(s.versions) do
    list[i] = {number = v.number, name = v.policy.name, version = v.policy.version, sha = v.sha:sub(1, 12),
               path = v.path, since = v.since, params = v.params, failed = v.failed, guard = v.guard_passed,
               by = v.by, current = v == s.current}
  end
  table.move(canary.history(s), 1, #(s.trials or {}), #list + 1, list)
  table.sort(list, function(a, b)
    if a.since ~= b.since then return a.since < b.since end
    return (a.number or 0) < (b.number or 0)
  end)
  return list
end

---The last plan that touched a thing: "batch 3", "alloc 7", or any part of such a name.
---@param what string
---@return table[]
function host:why(what)
  local list = {}
  for _, s in ipairs(self.order) do
    for name, entry in pairs(s.whys) do
      if name == what or name:find(what, 1, true) then
        list[#list + 1] = {seat = s:name(), what = name, why = entry.text, at = entry.at, policy = entry.policy}
      end
    end
  end
  table.sort(list, function(a, b)
    if a.seat ~= b.seat then return a.seat < b.seat end
    return a.what < b.what
  end)
  return list
end

---Takes seats up where a journal ends: the same source, parameters and last accepted export.
---@param records table[] of journal.read
function host:recover(records)
  local latest = {}
  for _, r in ipairs(records) do
    local key = key_of(r.kind, r.scope)
    if r.text and not r.canary then -- a canary that was not promoted is gone
      latest[key] = {kind = r.kind, scope = r.scope, text = r.text, path = r.path, params = r.params, saved = r.saved}
    end
    if r.what == "decision" and not r.canary and r.saved and latest[key] then latest[key].saved = r.saved end
    self.epoch = math.max(self.epoch, r.epoch)
  end
  local keys = {}
  for key in pairs(latest) do keys[#keys + 1] = key end
  table.sort(keys)
  for _, key in ipairs(keys) do
    local l = latest[key]
    local s = self.seats[key]
    local version = s and s:prepare({text = l.text, path = l.path, sha = core.sha256(l.text)}, l.params, l.saved)
    if version then self:replace(s, version, "recover") end
  end
end

function host:close()
  for _, s in ipairs(self.order) do
    if s.current.sandbox then s.current.sandbox:close() end
    if s.canary then s.canary.seat.current.sandbox:close() end
    if s.shadowed and s.shadowed.version.sandbox then s.shadowed.version.sandbox:close() end
  end
  if self.journal.close then self.journal.close() end
end

return host
