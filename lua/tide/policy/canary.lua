-- Canaries: a new policy decides about a part of what its seat decides about, the old one about the rest, until a guard
-- says which of them has all of it. Both see everything. Of a plan only what is about the policy's own part is carried
-- out, so neither can command what the other does.
--
-- The new policy sits in a seat of its own beside the old one's: own state, own ticks, own faults, any of which ends
-- the canary. What a part is, is named by `canary = {nodes =, workers =, tables =, jobs = or fraction =}`:
--   batching, dispatch   workers, by themselves, by their node, or a fraction of them
--   placement            slots, by the node that is their home now, by table, or a fraction of them
--   comm                 a fraction of the tensors
--   scheduling           jobs, or a fraction of them
-- A fraction is taken by a hash of the thing's id, so that it is the same things each time. Plan fields with one answer
-- for all stay the old policy's. Kinds that have nothing else (scaling; sync, whose seat is one table) take no canary.
--
-- The shares of a batch are one sum, so there a part is what the old policy gave its workers together: the new one
-- divides that among them, and those outside keep what they have.
--
-- A guard on a metric that is measured of each thing compares how it changed inside with how it changed outside
-- meanwhile; on a metric of the whole run it is the guard of any swap.
local core = require "tide.core"
local errors = require "tide.errors"
local guard = require "tide.policy.guard"
local plan = require "tide.policy.plan"
local seat = require "tide.policy.seat"
local shares = require "tide.policy.shares"

local canary = {}

local SAMPLES_MIN <const> = 3 -- of each thing; one bad sample is no breach
local TRIALS_MAX <const> = 100 -- that the history knows
local WAYS <const> = {
  batching = {nodes = true, workers = true, fraction = true},
  dispatch = {nodes = true, workers = true, fraction = true},
  placement = {nodes = true, tables = true, fraction = true}, comm = {fraction = true},
  scheduling = {jobs = true, fraction = true},
}

---- parts -----------------------------------------------------------------------------------------------------------

local function fault(message) return nil, errors.new("T0308", message) end

-- "@n1,n2", {"n1", 3} or 3 as a set of names and ids.
local function names_of(value)
  local set, list = {}, type(value) == "table" and value or {value}
  for _, item in ipairs(list) do
    if type(item) == "string" then
      for name in item:gmatch "[^,]+" do
        local bare = name:gsub("^@", "")
        set[math.tointeger(tonumber(bare)) or bare] = true
      end
    elseif math.tointeger(item) then
      set[math.tointeger(item)] = true
    end
  end
  return next(set) and set or nil
end

---@param kind string
---@param o table {nodes=}, {workers=}, {tables=}, {jobs=} or {fraction=}
---@return table|nil set {by=, names= or fraction=, text=}, table? err
local function set_of(kind, o)
  local ways <const> = WAYS[kind]
  if not ways then
    return fault(("a %s policy has one answer for all: there is no part of it to try it on"):format(kind))
  end
  local by, value = next(type(o) == "table" and o or {})
  if not by or next(o, by) ~= nil or not ways[by] then
    local known = {}
    for name in pairs(ways) do known[#known + 1] = name end
    table.sort(known)
    return fault(("a canary of a %s policy is {%s = ...}"):format(kind, table.concat(known, " = ...} or {")))
  end
  if by == "fraction" then
    if type(value) ~= "number" or not (value > 0 and value < 1) then return fault "`fraction` lies between 0 and 1" end
    return {by = by, fraction = value, text = ("%g of all"):format(value)}
  end
  local names = names_of(value)
  if not names then return fault(("`%s` names nothing"):format(by)) end
  local words = {}
  for name in pairs(names) do words[#words + 1] = tostring(name) end
  table.sort(words)
  return {by = by, names = names, text = ("%s %s"):format(by, table.concat(words, ","))}
end

-- Whether the hash of a thing's id lies in the fraction.
local function drawn(set, what, id)
  return tonumber(core.sha256(("%s %s"):format(what, id)):sub(1, 8), 16) < set.fraction * 0x100000000
end

local function named(set, entry) return entry ~= nil and (set.names[entry.id] or set.names[entry.name]) or false end

local function by_id(list)
  local ids = {}
  for _, entry in ipairs(list or {}) do ids[entry.id] = entry end
  return ids
end

-- By kind: a function from a thing (as it is in the state) to whether it is in the set.
local function membership(kind, set, state)
  local nodes, tables = by_id(state.nodes), by_id(state.tables)
  if kind == "placement" then
    return function(slot)
      if set.by == "nodes" then return named(set, nodes[slot.home]) end
      if set.by == "tables" then return named(set, tables[slot.table]) end
      return drawn(set, "slot", slot.table .. "/" .. slot.id)
    end
  end
  local what <const> = ({comm = "tensor", scheduling = "job"})[kind] or "worker"
  return function(thing)
    if set.by == "nodes" then return named(set, nodes[thing.node]) end
    if set.by == "fraction" then return drawn(set, what, thing.id) end
    return named(set, thing)
  end
end

local THINGS <const> = {batching = "workers", dispatch = "workers", placement = "table_slots", comm = "tensors",
                        scheduling = "jobs"}

-- The things of the state in and out of the set, each in the state's order.
local function parts(kind, set, state)
  local is_in, inside, rest = membership(kind, set, state), {}, {}
  for _, thing in ipairs(state[THINGS[kind]] or {}) do
    local list = is_in(thing) and inside or rest
    list[#list + 1] = thing
  end
  return inside, rest
end

---- what of a plan is a policy's own --------------------------------------------------------------------------------

local filters = {}

local function batch_sum(workers)
  local sum = 0
  for _, w in ipairs(workers) do sum = sum + (w.batch or 0) end
  return sum
end

function filters.batching(p, own, other, state, inside)
  local total = batch_sum(own)
  if not inside then
    total = (p.total or state.job.batch) - batch_sum(other)
  else
    p.total, p.accum, p.lr_rule = nil, nil, nil
  end
  p.batch = p.batch and shares.scaled(own, p.batch, total) -- nil: they keep what they have
end

function filters.placement(p, own, other, _, inside, set)
  local foreign, mine = {}, {}
  for _, slot in ipairs(other) do foreign[slot.table .. "/" .. slot.id] = true end
  for _, m in ipairs(p.moves or {}) do
    if m.slot and not foreign[m.table .. "/" .. m.slot] or not m.slot and not inside then mine[#mine + 1] = m end
  end
  p.moves = #mine > 0 and mine or nil
  if inside then p.budget_bytes_per_s = nil end
  local tables = {}
  for _, slot in ipairs(own) do tables[slot.table] = true end
  -- How a table is kept is one answer for it: the new policy's only where whole tables are tried.
  local function is_mine(id)
    if set.by == "tables" then return tables[id] end
    return not inside
  end
  local kept = {}
  for _, t in ipairs(p.technique or {}) do
    if is_mine(t.table) then kept[#kept + 1] = t end
  end
  p.technique = #kept > 0 and kept or nil
  for id in pairs(p.replicas or {}) do
    if not is_mine(id) then p.replicas[id] = nil end
  end
end

function filters.dispatch(p, own, other, state, inside)
  local mine, taken, backup = by_id(own), {}, {}
  for _, w in ipairs(other) do
    for _, chunk in ipairs(state.queue and state.queue[w.id] or {}) do taken[chunk] = true end
  end
  for id, list in pairs(p.queue or {}) do
    local kept = {}
    for _, chunk in ipairs(list) do
      if not taken[chunk] then kept[#kept + 1] = chunk end
    end
    p.queue[id] = mine[id] and kept or nil
  end
  for _, b in ipairs(p.backup or {}) do
    if mine[b.worker] then backup[#backup + 1] = b end
  end
  p.backup = #backup > 0 and backup or nil
  if inside then p.chunk_examples = nil end
end

local function keyed_filter(fields, global)
  return function(p, own, _, _, inside)
    local mine = by_id(own)
    for _, field in ipairs(fields) do
      for id in pairs(p[field] or {}) do
        if not mine[id] then p[field][id] = nil end
      end
    end
    for _, field in ipairs(inside and global or {}) do p[field] = nil end
  end
end
filters.comm = keyed_filter({"path", "format", "priority"}, {"chunk_bytes", "budget_bytes_per_s"})
filters.scheduling = keyed_filter({"alloc"}, {"order", "placer", "nodes"})

-- Changes the plan.
local function part_of(s, checked, state)
  local trial <const> = s.trial or s.canary
  local own, other = parts(s.kind, trial.set, state)
  local inside <const> = s.trial ~= nil
  if not inside then own, other = other, own end
  filters[s.kind](checked, own, other, state, inside, trial.set)
  return checked
end

---What of a checked plan a seat may have carried out while a canary runs in it or beside it.
---@param s tide.policy.seat
---@param checked table plan of plan.validate; changed
---@param state table snapshot of this moment
---@param view table what the policy saw
---@return table|nil part nil: the parts of the two policies do not go together
---@return string? why
function canary.part(s, checked, state, view)
  local checked_again = plan.validate(s.kind, part_of(s, checked, state), state, view, s.every)
  if checked_again.plan then return checked_again.plan end
  return nil, "the two parts do not go together: " .. plan.describe(checked_again.errors)
end

---- figures of both groups ------------------------------------------------------------------------------------------

local function add(a, b) return a + b end
local TOGETHER <const> = {
  compute_s = math.max, cpu_s = math.max, example_s = math.max, examples_per_s = add, ops_per_s = add,
}

-- Of the medians of each thing: the worst where others wait for it, else their sum.
---@return number|nil value, integer samples of the thing that has fewest
local function together(metric, samples, ids, from, to)
  local value, least = nil, math.huge
  for _, id in ipairs(ids) do
    local one, count = guard.median(samples[id], from, to)
    if one then value = value and TOGETHER[metric](value, one) or one end
    least = math.min(least, count)
  end
  return value, #ids > 0 and least or 0
end

-- Ids of which the driver measures something: the workers, or the nodes that are homes.
local function measured_ids(s, set, state)
  if s.kind ~= "placement" then
    local inside, rest = parts(s.kind, set, state)
    local function ids(list)
      local out = {}
      for i, thing in ipairs(list) do out[i] = thing.id end
      return out
    end
    return ids(inside), ids(rest)
  end
  local inside, rest = {}, {}
  for _, node in ipairs(set.by == "nodes" and state.nodes or {}) do
    local list = named(set, node) and inside or rest
    list[#list + 1] = node.id
  end
  return inside, rest
end

local function figures(host, s, set, from, to)
  local measured = host.driver.things and host.driver.things(s.kind, s.scope) or {}
  local inside, rest = measured_ids(s, set, host.driver.snapshot(s.kind, s.scope))
  local out = {}
  for metric, samples in pairs(measured) do
    local a, n = together(metric, samples, inside, from, to)
    local b, m = together(metric, samples, rest, from, to)
    if a and b then out[metric] = {inside = a, rest = b, samples = math.min(n, m)} end
  end
  return out
end

local function change(now, before) return before > 0 and now / before or 1 end

-- How much the metric changed inside, over how much it changed outside.
local function compare(host, s, trial, now)
  local g <const> = trial.compare
  local before, after = trial.before[g.metric], figures(host, s, trial.set, trial.since, now)[g.metric]
  local over <const> = now >= g.ends
  if not after then return over and "breach" or nil, ("no sample of %s came within the window"):format(g.metric) end
  local ratio = change(after.inside, before.inside) / change(after.rest, before.rest)
  local text = ("%s of the canary is %.6g, it was %.6g; of the rest %.6g, it was %.6g"):format(g.metric, after.inside,
    before.inside, after.rest, before.rest)
  local worse = g.drop and ratio < 1 - g.drop or g.rise and ratio > 1 + g.rise
  if worse and (after.samples >= SAMPLES_MIN or over) then return "breach", text end
  return over and "passed" or nil, text
end

---- the life of a canary --------------------------------------------------------------------------------------------

-- The baseline is of the policy that holds the seat, not of one before it.
local function arm(host, s, trial, o, now)
  if not o then return fault "a canary requires a guard, which says what becomes of it" end
  local wanted, err = guard.parse(o)
  if not wanted then return nil, err end
  trial.before = figures(host, s, trial.set, math.max(now - wanted.within, s.current.since), now)
  if trial.before[o.metric] then
    trial.compare = {metric = o.metric, drop = wanted.drop, rise = wanted.rise, ends = now + wanted.within}
    return true
  end
  if host.driver.things and host.driver.things(s.kind, s.scope)[o.metric] then
    return fault(("there is no sample of `%s` yet, inside and outside, since %s holds the seat"):format(o.metric,
      s.current.policy.name))
  end
  trial.guard, err = guard.arm(host.metrics, o, now)
  return trial.guard ~= nil or nil, err
end

---Starts one. The policy has been rehearsed.
---@param host tide.policy.host
---@param s tide.policy.seat
---@param found table of source.find
---@param o {canary: table, guard: table, params?: table}
---@param saved? string what the old policy exported
---@return table|nil answer, table? err
function canary.begin(host, s, found, o, saved)
  local set, err = set_of(s.kind, o.canary)
  if not set then return nil, err end
  local state = host.driver.snapshot(s.kind, s.scope)
  local inside, rest = parts(s.kind, set, state)
  if #inside == 0 or #rest == 0 then
    return fault(("%d of %d are in the canary's part: there must be some inside and some outside"):format(#inside,
      #inside + #rest))
  end
  if s.kind == "batching" and #inside < 2 then
    return fault "one worker alone has nothing to divide: a canary of a batching policy requires two or more"
  end
  local now = host.driver.now()
  local own = seat.new(s.kind, s.scope, {seed = host.seed, timed = host.timed, signals = s.signals})
  local trial = {set = set, seat = own, since = now, saved = saved, inside = #inside, rest = #rest, found = found}
  local ok
  ok, err = arm(host, s, trial, o.guard, now)
  if not ok then return nil, err end
  local version
  version, err = own:prepare(found, o.params, saved)
  if not version then return nil, err end
  if s.canary then canary.withdraw(host, s, "another canary takes its place") end
  own.trial, own.of, own.whys = trial, s, s.whys
  own:install(version, now)
  s.canary, s.trials = trial, s.trials or {}
  s.trials[#s.trials + 1] = trial
  if #s.trials > TRIALS_MAX then table.remove(s.trials, 1) end
  host.epoch = host.epoch + 1
  host:record(own, "canary", {name = version.policy.name, version = version.policy.version, sha = version.sha,
    text = version.text, path = version.path, params = version.params, saved = saved, set = set.text,
    seed = host.seed, exports = version.policy.exports})
  local g <const> = trial.guard
  return {seat = s:name(), old = ("%s v%d"):format(s.current.policy.name, s.current.policy.version),
          new = ("%s v%d"):format(version.policy.name, version.policy.version), epoch = host.epoch, canary = set.text,
          inside = #inside, rest = #rest,
          guard = {metric = o.guard.metric, baseline = g and g.baseline, limit = g and g.limit}}
end

-- The policy leaves the seat beside; what both groups did is kept for the report.
local function finish(host, s, outcome)
  local trial = s.canary
  trial.outcome, trial.after = outcome, figures(host, s, trial.set, trial.since, host.driver.now())
  trial.ended, s.canary = host.driver.now(), nil
  return trial
end

local function shut(trial)
  local v = trial.seat.current
  if v.sandbox then v.sandbox:close() end
  v.sandbox, trial.seat.views = nil, {}
end

---The old policy has all again, and decides at once.
---@param why string
---@param blocked? boolean whether the source may not come back by mistake
function canary.withdraw(host, s, why, blocked)
  local trial = finish(host, s, "withdrawn: " .. why)
  local v = trial.seat.current
  if blocked then s.blocked[v.sha] = why end
  shut(trial)
  host.epoch, s.next_at = host.epoch + 1, math.min(s.next_at, trial.ended)
  host:record(trial.seat, "withdrawn", {why = why})
  host:notify {kind = "policy_canary_withdrawn", seat = s:name(), policy = v.policy.name, reason = why,
               now = s.current.policy.name}
  return {seat = s:name(), old = ("%s v%d"):format(v.policy.name, v.policy.version),
          new = ("%s v%d"):format(s.current.policy.name, s.current.policy.version), epoch = host.epoch}
end

-- The new policy has all: a swap with the state that it exported.
local function promote(host, s, text)
  local trial = s.canary
  local v = trial.seat.current
  local version, err = s:prepare(trial.found, v.params, v.saved or trial.saved)
  if not version then return canary.withdraw(host, s, err.message, true) end
  local saved, problem = s:save()
  if problem then s:rebuild() end
  s.current.saved_at_swap = saved or s:last_export()
  finish(host, s, "promoted: " .. text)
  shut(trial)
  host:replace(s, version, "promote", text)
  s.current.guard_passed = text
  host:notify {kind = "policy_canary_promoted", seat = s:name(), policy = v.policy.name, reason = text,
               now = v.policy.name}
end

---Looks whether the guard of a seat's canary has made up its mind.
function canary.watch(host, s)
  local trial, now = s.canary, host.driver.now()
  local what, text
  if trial.compare then
    what, text = compare(host, s, trial, now)
  else
    what, text = guard.look(host.metrics, trial.guard, now)
  end
  if what == "breach" then return canary.withdraw(host, s, text, true) end
  if what == "passed" then return promote(host, s, text) end
end

---@return number when the guard of a canary ends
function canary.ends(trial) return (trial.compare or trial.guard).ends end

---What both groups do, or did: of the active canary, else of the newest.
---@return table|nil report
function canary.report(host, s)
  local trial = s.canary or s.trials and s.trials[#s.trials]
  if not trial then return nil end
  local now = host.driver.now()
  local after = trial.after or figures(host, s, trial.set, trial.since, now)
  local groups = {}
  for metric, f in pairs(after) do
    local before = trial.before[metric] or {}
    groups[metric] = {inside = f.inside, inside_before = before.inside, rest = f.rest, rest_before = before.rest}
  end
  local own = trial.seat
  return {policy = own.current.policy.name, version = own.current.policy.version, part = trial.set.text,
          inside = trial.inside, rest = trial.rest, for_s = (trial.ended or now) - trial.since,
          decisions = own.decisions, actions = own.actions, outcome = trial.outcome or "active", groups = groups}
end

---One line about an active canary.
function canary.text(trial)
  local v <const> = trial.seat.current
  return ("%s v%d on %s"):format(v.policy.name, v.policy.version, trial.set.text)
end

---Entries for the history of a seat.
function canary.history(s)
  local list = {}
  for i, trial in ipairs(s.trials or {}) do
    local v = trial.seat.current
    list[i] = {name = v.policy.name, version = v.policy.version, sha = v.sha:sub(1, 12), path = v.path,
               since = trial.since, params = v.params, canary = trial.set.text, outcome = trial.outcome or "active"}
  end
  return list
end

return canary
