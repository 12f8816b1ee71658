-- Policies over recorded views, offline: the dry run of a check, and the replay of a journal. Open loop: recorded views
-- do not react to what another policy would have done.
local contract = require "tide.policy.contract"
local core = require "tide.core"
local errors = require "tide.errors"
local plan = require "tide.policy.plan"
local seat = require "tide.policy.seat"
local source = require "tide.policy.source"
local text = require "tide.text"

local replay = {}

local FAULTS_MAX <const> = 3

local function quantile(list, q) return core.k.quantile(list, q) end

-- A candidate in a seat of its own, over views; after a fault it starts from its last export, as in the host.
local function start(kind, scope, seed, found, params, saved, timed)
  local s = seat.new(kind, scope, {seed = seed, timed = timed})
  local version, err = s:prepare(found, params, saved)
  if not version then return nil, err end
  s:install(version, 0)
  return s
end

-- Signals that a policy needs and a recorded view does not hold: the policy of that time did not request them.
local function note_lacking(needs, entry, lacking)
  local held = {}
  for _, name in ipairs(entry.needs) do held[name] = true end
  for _, name in ipairs(needs) do
    if not held[name] and not name:find "^kernel%." then lacking[name] = true end
  end
end

---Dry run over the recorded views of a live seat, with the state threaded from its last export. `lacks` names signals
---that the policy needs and some of the views do not hold: then it says little of what the policy would do.
---@param recorded table of host:recorded
---@param found table of source.find, the candidate with its parameters
---@return table|nil report, table? err
function replay.check(recorded, found)
  local kind <const>, scope <const>, seed <const> = recorded.kind, recorded.scope, recorded.seed
  local s, err = start(kind, scope, seed, found, found.params, recorded.saved, recorded.timed)
  if not s then return nil, err end
  local ok, why = contract.check_needs(s.current.policy.needs, recorded.signals)
  if not ok then return nil, errors.new("T0302", ("policy `%s` is refused: %s"):format(found.path, why)) end
  local reference = start(kind, scope, seed, recorded.current, recorded.current.params, recorded.saved)
  local report = {policy = s.current.policy.name, version = s.current.policy.version, views = 0, valid = 0, faults = 0,
                  differs = 0, actions = 0, memory_bytes = 0}
  local times, lacking = {}, {}
  for _, entry in ipairs(recorded.views) do
    if report.faults == FAULTS_MAX then break end
    report.views = report.views + 1
    local view = core.plain_decode(entry.view)
    note_lacking(s.current.policy.needs, entry, lacking)
    local verdict, bytes, fault, usage = replay.decide(s, entry.view, view, entry.seed)
    times[#times + 1] = usage.seconds
    if usage.log and usage.log ~= "" then report.printed = usage.log end
    report.memory_bytes = math.max(report.memory_bytes, usage.memory_peak_bytes or 0)
    if verdict then
      report.valid, report.actions = report.valid + 1, report.actions + #plan.diff(verdict, view)
    else
      report.faults, report.fault, report.fault_view = report.faults + 1, report.fault or fault, report.fault_view
        or report.views
    end
    local _, other = replay.decide(reference, entry.view, view, entry.seed)
    if other ~= bytes then
      report.differs = report.differs + 1
      report.first_difference = report.first_difference or report.views
    end
  end
  report.p50_s, report.p99_s = quantile(times, 0.5), quantile(times, 0.99)
  report.ok = report.faults == 0
  local not_tried <const> = #recorded.views + recorded.left_out - report.views
  if not_tried > 0 then report.not_tried = not_tried end
  report.lacks = next(lacking) and table.concat(text.sorted_keys(lacking), ", ") or nil
  s.current.sandbox:close()
  reference.current.sandbox:close()
  return report
end

---One decision offline.
---@return table|nil plan, string|nil bytes, string? fault, table usage of the sandbox
function replay.decide(s, view_bytes, view, seed)
  local sandbox = s.current.sandbox
  if not sandbox then return nil, nil, "its state could not be rebuilt", {} end
  local bytes, fault = sandbox:decide(view_bytes, seed, source.budget(s.kind, s.timed))
  local usage <const> = sandbox:usage()
  local verdict = bytes and plan.validate(s.kind, core.plain_decode(bytes), view, view, s.every)
  if verdict and verdict.plan then
    if verdict.plan.next_every then s.every = verdict.plan.next_every end
    local _, problem = s:save()
    if not problem then return verdict.plan, bytes, nil, usage end
    fault = problem
  end
  s:rebuild()
  return nil, bytes, fault and fault.message or plan.describe(verdict.errors), usage
end

-- What the journal says happened: the policies as they were loaded, each decision against the recorded bytes.
local function replay_own(records, kind, scope)
  local seats = {} -- the policy's, and that of a canary beside it
  local report = {decisions = 0, same = 0, skipped = 0}
  for _, r in ipairs(records) do
    if r.kind == kind and r.scope == scope then
      local who = r.canary and "canary" or "live"
      local s = seats[who]
      if r.text then
        if s and s.current.sandbox then s.current.sandbox:close() end
        local err
        seats[who], err = start(kind, scope, r.seed, {text = r.text, path = r.path, sha = r.sha}, r.params, r.saved)
        if not seats[who] then return nil, err end
      elseif r.what == "decision" and s then
        report.decisions = report.decisions + 1
        local bytes = s.current.sandbox and s.current.sandbox:decide(r.view, r.seed, source.budget(s.kind, false))
        local accepted = r.verdict == "applied" or r.verdict == "partial"
        local saved = bytes and accepted and s:save() or nil
        if bytes == r.plan and (not accepted or saved == r.saved) then
          report.same = report.same + 1
        elseif not report.first_difference then
          report.first_difference = {decision = report.decisions, tick = r.tick,
            recorded = r.plan and core.plain_decode(r.plan), replayed = bytes and core.plain_decode(bytes)}
        end
        if not accepted then s:rebuild() end
      end
    end
  end
  report.identical = report.same == report.decisions
  return report
end

local function replay_other(records, kind, scope, found, params, from)
  local report = {decisions = 0, same = 0, valid = 0, faults = 0, open_loop = true, plans = {}}
  local s
  for _, r in ipairs(records) do
    if r.kind == kind and r.scope == scope and r.what == "decision" and not r.canary and r.at >= from then
      local err
      if not s then
        s, err = start(kind, scope, 0, found, params)
        if not s then return nil, err end
      end
      report.decisions = report.decisions + 1
      local verdict, bytes, fault = replay.decide(s, r.view, core.plain_decode(r.view), r.seed)
      report[verdict and "valid" or "faults"] = report[verdict and "valid" or "faults"] + 1
      report.fault = report.fault or fault
      if bytes == r.plan then report.same = report.same + 1 end
      report.first_difference = report.first_difference or (bytes ~= r.plan and {decision = report.decisions,
        tick = r.tick, recorded = r.plan and core.plain_decode(r.plan), replayed = bytes and core.plain_decode(bytes)})
        or nil
      report.plans[report.decisions] = bytes
    end
  end
  return report
end

---Replays a journal: with its own policies (byte-identical, or the first difference), or with another one.
---@param records table[] of journal.read
---@param o {kind?: string, scope?: string, policy?: string|table, params?: table, last?: number seconds}
---@return table|nil report, table? err
function replay.run(records, o)
  local kind, scope = o.kind, o.scope
  local found
  if o.policy then
    local err
    found, err = source.find(o.policy)
    if not found then return nil, err end
    local peek
    peek, err = source.load(found, {timed = false, params = o.params})
    if not peek then return nil, err end
    peek.sandbox:close()
    kind = peek.policy.kind
  end
  for _, r in ipairs(records) do
    if (not kind or r.kind == kind) and (not scope or r.scope == scope) then
      kind, scope = r.kind, r.scope
      break
    end
  end
  if not scope then return nil, errors.new("T0303", ("the journal has no seat for %s"):format(kind or "policies")) end
  local report, err
  if o.last and not found then
    return nil, errors.new("T0103",
      "`last` requires the name of another policy: the recorded ones can only be replayed from the start")
  end
  if found then
    local from = o.last and records[#records].at - o.last or -math.huge
    report, err = replay_other(records, kind, scope, found, o.params, from)
  else
    report, err = replay_own(records, kind, scope)
  end
  if report then report.kind, report.scope = kind, scope end
  return report, err
end

return replay
