-- The scheduling seat of a running cluster: a policy of the kind `scheduling` decides how many slots each of its runs
-- has, at an interval and when something happens. Part of the keeper of runs (cluster/runs.lua), which alone counts
-- slots; without a policy the keeper gives them out in the order of submission.
--
-- A decision becomes a *target* of each run, slots by node, which is kept with its record; settle.lua brings what runs
-- hold there. The policy sees targets as what is held: they are what was decided. Source, parameters and export of the
-- policy are kept as "seat/scheduling", so that the next keeper of runs continues with it.
local core = require "tide.core"
local errors = require "tide.errors"
local Host = require "tide.policy.host"
local journal = require "tide.policy.journal"
local keeper = require "tide.keeper"
local ledger = require "tide.scheduler.ledger"
local live = require "tide.policy.live"
local limits = require "tide.scheduler.limits"
local models = require "tide.scheduler.models"
local nodes = require "tide.scheduler.nodes"
local placer = require "tide.policy.placer"
local script = require "tide.script"
local settle = require "tide.scheduler.settle"
local shares = require "tide.policy.persons"
local text = require "tide.text"

local scheduler = {}
scheduler.__index = scheduler

local SEAT <const> = "seat/scheduling"
local SHARES <const>, USED <const> = "shares/settings", "shares/used"
local NOBODY <const> = "?" -- the person of a run that has none
local KEPT_BYTES <const> = 200 << 10
local RESIZE_S <const> = 2 -- what a resize costs, until one was measured
local SIGNALS <const> = {["job.person"] = true, ["job.request"] = true, ["job.attained"] = true, ["job.resize"] = true,
                         ["job.goodput"] = true, ["job.throughput"] = true, ["job.progress"] = true,
                         ["job.remaining"] = true, ["job.oracle"] = true}

---@param hooks table of the keeper: ordered() -> records, waiting = messages by n, save(r), start(r, grant)
---@return table
function scheduler.new(hooks)
  local kept <const> = core.control_list "shares/" or {}
  local settings <const> = kept[SHARES] and core.decode(kept[SHARES]) or nil
  local used <const> = kept[USED] and core.decode(kept[USED]) or nil
  return setmetatable({keeper = hooks, since = core.now(), nodes = nodes.new(), sampled_at = -math.huge,
                       counted_at = core.now(), cost = {sum = 0, count = 0}, ledger = ledger.new(),
                       shares = shares.new(settings, used, core.wall())}, scheduler)
end

---@return boolean whether a policy decides about slots
function scheduler:is_active() return self.host ~= nil end

---@return string|nil name of the policy
function scheduler:policy()
  local seat <const> = self.host and self.host:seat "scheduling"
  return seat and "scheduling/" .. seat.current.policy.name
end

---- the view -------------------------------------------------------------------------------------------------------

---May the policy say how many slots this run has?
function scheduler:is_subject(r)
  if r.private or keeper.ENDED[r.state] or r.state == "stopping" then return false end
  if r.state == "queued" then return self.keeper.waiting[r.n] ~= nil end
  if r.state == "suspended" then return r.parked or self.keeper.waiting[r.n] ~= nil end
  return true
end

---@return table[] records that are subject to the policy, in order of submission
function scheduler:subjects()
  local list = {}
  for _, r in ipairs(self.keeper.ordered()) do
    if self:is_subject(r) then list[#list + 1] = r end
  end
  return list
end

-- Slots by node that the policy cannot give to others.
local function taken_outside(self)
  local taken = {}
  for _, r in ipairs(self.keeper.ordered()) do
    if not r.private and not self:is_subject(r) then
      for name, n in pairs(r.grant or {}) do taken[name] = (taken[name] or 0) + n end
    end
  end
  return taken
end

local function node_entries(self, subjects)
  local outside <const>, held = taken_outside(self), {}
  for _, r in ipairs(subjects) do
    for name, n in pairs(r.target or r.grant or {}) do held[name] = (held[name] or 0) + n end
  end
  local list, total = {}, 0
  for _, node in ipairs(self.nodes:list()) do
    local taken <const> = outside[node.name] or 0
    list[#list + 1] = {id = node.id, name = node.name, machine = node.machine, slots = node.slots, state = node.state,
                       free = math.max(node.slots - taken - (held[node.name] or 0), 0)}
    if node.state == "up" then total = total + math.max(node.slots - taken, 0) end
  end
  return list, total
end

-- The least and the most slots of a run: its limits; what it asked for, exactly; or anything. What it has it may keep.
local function bounds_of(r, total, slots)
  local l <const> = r.limits or r.slots and {min = r.slots, max = r.slots} or {}
  local min <const> = l.min or 1
  local max <const> = math.max(l.max or total, min)
  return slots > 0 and math.min(min, slots) or min, math.max(max, slots)
end

local function is_fixed(r)
  return r.bound ~= nil or r.state == "paused" or r.limits ~= nil and r.limits.preemptible == false
end

---What a resize costs the run, in seconds: measured, else what others' cost.
function scheduler:resize_cost(r)
  local own <const> = r.cost
  if own and own.count > 0 then return own.sum / own.count end
  return self.cost.count > 0 and self.cost.sum / self.cost.count or RESIZE_S
end

local function job_entry(self, r, total, want)
  local places, ids = r.target or r.grant or {}, {}
  for name, n in pairs(places) do
    local node <const> = self.nodes:named(name)
    if node then ids[node.id] = n end
  end
  local l <const> = r.limits or {}
  local min <const>, max <const> = bounds_of(r, total, keeper.slots(ids))
  local e = {id = r.n, name = r.name, submit = r.submitted_at, age = math.max(core.wall() - r.submitted_at, 0),
             state = r.state == "queued" and "queued" or keeper.slots(places) == 0 and "queued" or "running",
             weight = l.weight or 1, min = min, max = max, sizes = l.sizes, slots = keeper.slots(ids), nodes = ids,
             resizes = r.resizes or 0, resize_s = self:resize_cost(r)}
  if e.slots > 0 and is_fixed(r) then e.preemptible = false end
  if want["job.person"] then e.person, e.memory, e.priority = r.user or NOBODY, r.memory, r.priority end
  if want["job.request"] then
    e.request = {slots = math.max(math.min(r.slots or l.max or total, max), min), batch = (r.model or {}).batch_start}
  end
  if want["job.attained"] then e.attained = r.attained or 0 end
  models.fill(e, r, want)
  return e
end

---What policies see, and plans are checked against.
function scheduler:view(needs)
  local want = {}
  for _, name in ipairs(needs or {}) do want[name] = true end
  local subjects <const> = self:subjects()
  local list <const>, total <const> = node_entries(self, subjects)
  local view = {nodes = list, slots = total, jobs = {}, age = {}}
  for i, r in ipairs(subjects) do view.jobs[i] = job_entry(self, r, total, want) end
  if want["job.person"] then
    view.half_life_s, view.persons = self.shares.settings.half_life_s, self.shares:persons(view.jobs, core.wall())
  end
  if self.pool then self.pool:fill(view) end
  return view
end

---- the plan -------------------------------------------------------------------------------------------------------

-- The run is to have these slots: {[name of node] = count}.
local function set_target(self, r, target)
  local before <const> = r.target or r.grant or {}
  local same = true
  for name, n in pairs(target) do same = same and before[name] == n end
  for name in pairs(before) do same = same and target[name] ~= nil end
  if same and r.target then return end
  if keeper.slots(before) > 0 and not same then r.resizes = (r.resizes or 0) + 1 end
  r.target = target
  settle.changed(r)
  if r.state == "queued" then r.why = next(target) == nil and ("waits: %s gives it no slots yet"):format(self:policy())
    or "waits until its slots are free" end
  core.fiber(self.keeper.save, r)
end

local function apply(self, actions)
  local alloc, order, kind = {}, nil, "pack"
  for _, a in ipairs(actions) do
    if a.field == "alloc" and (a.value.servers or a.value.type) then
      return nil, "`alloc.servers` and `alloc.type` are not carried out here"
    elseif a.field == "alloc" then
      alloc[a.id] = a.value
    elseif a.field == "order" then
      order = a.value
    elseif a.field == "placer" then
      kind = a.value
    elseif a.field == "nodes" and self.pool then
      local ok, why = self.pool:order(a.value)
      if not ok then return nil, why end
    elseif a.field == "nodes" then
      return nil, "this cluster has no launcher for nodes: cluster:schedule(policy, {nodes = {max = N}})"
    else
      return nil, ("a cluster cannot carry out `%s`"):format(a.field)
    end
  end
  local view <const> = self:view {"job.request"}
  local placed <const>, unfit <const> = placer.place(view.nodes, view.jobs, alloc, order, kind)
  for _, r in ipairs(self:subjects()) do
    if placed[r.n] then
      local target = {}
      for id, n in pairs(placed[r.n]) do target[self.nodes:of_id(id).name] = n end
      set_target(self, r, target)
    end
  end
  if #unfit == 0 then return true end
  local first <const> = unfit[1]
  return nil, ("%d of %d runs could not be placed as requested: run %d requires %d slots and gets %d"):format(#unfit,
    #view.jobs, first.id, first.wanted, first.got)
end

---- the seat -------------------------------------------------------------------------------------------------------

-- What the next keeper needs to continue.
local function remember(self, record)
  local k = self.kept or {}
  if record.text and not record.canary then
    k = {text = record.text, path = record.path, params = record.params, saved = record.saved, pool = k.pool}
  elseif record.what ~= "decision" or not record.saved or record.canary or k.saved == record.saved then
    return
  else
    k.saved = record.saved
  end
  k.epoch = record.epoch
  self.kept = k
  local bytes = core.encode(k)
  if #bytes > KEPT_BYTES then
    k.saved = nil
    bytes = core.encode(k)
  end
  core.fiber(core.control_put, SEAT, bytes)
end

local function journal_path()
  if core.simulated() then return nil end
  local directory <const> = require "tide.directory"
  local cluster <const> = core.node().cluster
  return directory.make(cluster) and directory.of(cluster) .. "/scheduling.journal" or nil
end

local function make_host(self)
  local path <const> = journal_path()
  local file <const> = path and journal.open(path, function(why)
    core.log("warn", ("the journal of the scheduling policy cannot be written: %s"):format(why))
  end) or journal.new()
  return Host.new {
    seed = tonumber(core.sha256(core.node().cluster or ""):sub(1, 8), 16), timed = not core.simulated(),
    journal = {path = file.path, close = file.close, append = function(_, record)
      file:append(record)
      remember(self, record)
    end},
    driver = {
      now = function() return core.now() - self.since end,
      signals = function() return SIGNALS end,
      snapshot = function(_, _, needs) return self:view(needs) end,
      apply = function(_, _, actions) return apply(self, actions) end,
      notify = function(event)
        core.event("policy", ("%s: %s: %s%s"):format(event.seat, event.policy, event.reason,
          event.now and "; now " .. event.now or ""))
      end,
    },
  }
end

local function begin(self)
  self.nodes:look()
  self.host = make_host(self)
  for _, r in ipairs(self:subjects()) do
    if r.grant and not r.target then
      r.target = {}
      for name, n in pairs(r.grant) do r.target[name] = n end
    end
  end
end

---A policy decides from now on; the first one is tried on the newest view before anything changes.
---@param ref table {text=, path=}
---@param o table params, guard, ..
---@return table|nil answer of host:swap, table? err
function scheduler:install(ref, o)
  if self.host then return self.host:swap(ref, o) end
  begin(self)
  local seat, err = self.host:add_seat("scheduling", "")
  local answer
  if seat then answer, err = self.host:swap(ref, o) end
  if answer then return answer end
  self:remove()
  return nil, err
end

---Slots are given out in the order of submission again; what runs hold they keep.
function scheduler:remove()
  if not self.host then return end
  self.host:close()
  if self.pool then self.pool:close() end
  self.host, self.kept, self.pool = nil, nil, nil
  for _, r in ipairs(self.keeper.ordered()) do r.target = nil end
  core.fiber(core.control_put, SEAT)
end

---Continues with the policy of the keeper before this one.
function scheduler:recover()
  local found <const> = core.control_list(SEAT)
  local bytes <const> = found and found[SEAT]
  if not bytes then return end
  local k <const> = core.decode(bytes)
  begin(self)
  self.kept = k
  local ok <const> = self.host:add_seat("scheduling", "")
  if not ok then return self:remove() end
  self.host:recover {{what = "swap", kind = "scheduling", scope = "", text = k.text, path = k.path, params = k.params,
                      saved = k.saved, epoch = k.epoch or 0}}
  if k.pool then self:provision(k.pool) end
end

---The policy adds and removes nodes: {min, max, kind, workers, ..}.
---@return true|nil, table? err
function scheduler:provision(o)
  if self.pool then self.pool:close() end
  local pool, err = require("tide.scheduler.pool").new(o, self.nodes)
  if not pool then return nil, err end
  self.pool = pool
  if self.kept then self.kept.pool = o end
  return true
end

---- requests -------------------------------------------------------------------------------------------------------

---A verb of `tide policy` or run.policy: {verb=, arguments= plain bytes}.
---@param request table
---@param message table it came by
---@return table|nil {result= plain bytes}, table? err
function scheduler:serve(request, message)
  if not self.host and request.verb == "list" then return {result = core.plain_encode {}} end
  if not self.host and request.verb ~= "swap" then
    return nil, errors.new("T0303", {message = "no scheduling policy decides here: runs get slots in the order of "
      .. "submission", help = "tide policy swap scheduling/goodput"})
  end
  local result, err
  if self.host then
    result, err = live.serve(self, request, message)
  else
    local a <const>, refusal = live.admit(self, request, message)
    if not a then return nil, refusal end
    local answer
    answer, err = self:install(a.policy, a)
    result = answer and core.plain_encode(answer)
  end
  if not result then return nil, err end
  return {result = result}
end

---How many slots there may be when nodes come.
function scheduler:most_slots() return self.pool and self.pool:most_slots() or 0 end

---Pins a run to this number of slots at its owner's request; the policy grants them as soon as it may.
---@return table|nil, table? err
function scheduler:resize(r, count)
  if math.type(count) ~= "integer" or count < 1 then
    return nil, errors.new("T0113", {message = ("%s is no number of workers: a whole number from 1 on"):format(
      tostring(count)), help = count == 0 and "pause with release lets all workers go" or nil})
  end
  if r.bound then
    return nil, errors.new("T0513", {message = "its workers cannot change: " .. r.bound, state = "nothing changes"})
  end
  local l = {min = count, max = count, weight = (r.limits or {}).weight, preemptible = (r.limits or {}).preemptible}
  local total = 0
  for _, node in ipairs(self.nodes:list()) do total = total + node.slots end
  local ok, err = limits.check(l, "workers", math.max(total, self:most_slots()))
  if not ok then return nil, err end
  r.limits, r.slots = l, count
  if self:is_subject(r) then apply(self, {{field = "alloc", id = r.n, value = {slots = count}}}) end
  self.host:event("submit", r.n)
  ok, err = self.keeper.save(r)
  if not ok then return nil, err end
  return {workers = count}
end

---Something happened to a run: submit, finish, fit.
function scheduler:event(name, r)
  if self.host and not r.private then self.host:event(name, r.n) end
end

---A run has ended.
function scheduler:finished(r)
  if not self.host or r.private then return end
  self.host:metric("jct_s", core.wall() - r.submitted_at)
  self.host:event("finish", r.n)
end

---What a run's controller reported: model, cost of a resize, slots that it holds.
function scheduler:told(r, request)
  if type(request.fixed) == "string" then r.bound = request.fixed end
  if models.take(r, request) then self:event("fit", r) end
  local cost <const> = request.cost
  if type(cost) == "number" and cost >= 0 and cost < 3600 then
    r.cost = r.cost or {sum = 0, count = 0}
    r.cost.sum, r.cost.count = r.cost.sum + cost, r.cost.count + 1
    self.cost.sum, self.cost.count = self.cost.sum + cost, self.cost.count + 1
  end
  if not self.host or r.private then return end
  settle.held(self, r, request)
end

---What `tide jobs` shows beside the rest.
function scheduler:row(r, row)
  if not self.host or r.private then return end
  row.target, row.parked, row.resizes, row.attained, row.limits = r.target, r.parked, r.resizes, r.attained, r.limits
  row.resize_s = self:resize_cost(r)
end

---- time -----------------------------------------------------------------------------------------------------------

local function sample(self)
  if core.now() - self.sampled_at < core.limit "scheduler_sample" then return end
  self.sampled_at = core.now()
  local waiting, rate, held = 0, 0, 0
  for _, r in ipairs(self:subjects()) do
    local slots <const> = keeper.slots(r.grant)
    waiting, held = waiting + (slots == 0 and 1 or 0), held + slots
    rate = rate + math.max(((r._progress or {}).rate or 0), 0)
  end
  local _, total <const> = node_entries(self, self:subjects())
  self.host:metric("waiting", waiting)
  self.host:metric("examples_per_s", rate)
  if total > 0 then self.host:metric("utilisation", held / total) end
end

-- Slot-seconds that runs have used.
local function count_service(self)
  local now <const> = core.now()
  local dt <const> = now - self.counted_at
  self.counted_at = now
  local charges = {}
  for _, r in ipairs(self.keeper.ordered()) do
    if r.grant and not r.private and not keeper.ENDED[r.state] then
      local slots <const>, person <const> = keeper.slots(r.grant), r.user or NOBODY
      r.attained, r.most = (r.attained or 0) + dt * slots, math.max(r.most or 0, slots)
      charges[person] = (charges[person] or 0) + dt * slots
      self.ledger:add(person, r.name, dt * slots)
    end
  end
  self.shares:charge(charges, core.wall())
  if self.ledger:keep() then core.fiber(core.control_put, USED, core.encode(self.shares:export())) end
end

---- persons --------------------------------------------------------------------------------------------------------

---Other shares of persons, from now on; `false`: none.
---@param given table|false as a file of shares has them
---@return true|nil, table? err
function scheduler:set_shares(given)
  local settings <const>, err = shares.check(given or {})
  if not settings then return nil, err end
  local ok <const>, unsaved = core.control_put(SHARES, given and core.encode(settings) or nil)
  if not ok then return nil, unsaved end
  self.shares.settings = settings
  if self.host then self.host:seat("scheduling").next_at = 0 end -- they count at once
  return true
end

-- Slots, runs and caps of memory of the runs that have slots, by person.
local function holdings(self)
  local by = {}
  for _, r in ipairs(self.keeper.ordered()) do
    if r.grant and not r.private then
      local person <const> = r.user or NOBODY
      local held <const> = by[person] or {slots = 0, runs = 0, memory = 0}
      by[person] = held
      held.slots, held.runs = held.slots + keeper.slots(r.grant), held.runs + 1
      held.memory = held.memory + (r.memory or 0)
    end
  end
  return by
end

local NOTHING <const> = {slots = 0, runs = 0, memory = 0}

---Why the limits of its person keep a run without a policy from its slots; nil: they do not.
---@param r table record of a run that has none
---@param slots integer that it would get
---@return string|nil
function scheduler:held_back(r, slots)
  local person <const> = r.user or NOBODY
  if not self.shares:is_limited(person) then return nil end
  return self.shares:refuses(person, holdings(self), {slots = slots, memory = r.memory})
end

---The priority of the person of a run.
---@param r table
---@return integer
function scheduler:priority(r) return self.shares:of(r.user or NOBODY).priority end

---What `tide shares` prints.
---@return {half_life_s: number, persons: table[]}
function scheduler:show_shares()
  local by <const>, known = holdings(self), {}
  for _, names in ipairs {self.shares.settings.persons, self.shares.by, by} do
    for name in pairs(names) do known[#known + 1] = {person = name} end
  end
  local persons <const>, used = self.shares:persons(known, core.wall()), 0
  for _, p in ipairs(persons) do used = used + p.used end
  for _, p in ipairs(persons) do
    local held <const> = by[p.name] or NOTHING
    p.slots, p.runs, p.part = held.slots, held.runs, used > 0 and p.used / used or 0
  end
  return {half_life_s = self.shares.settings.half_life_s, persons = persons}
end

---Called by the keeper again and again.
function scheduler:tick()
  count_service(self)
  if not self.host then return end
  for _, event in ipairs(self.nodes:look()) do self.host:event(event.name, event.id) end
  settle.lost_nodes(self)
  sample(self)
  if self.pool then self.pool:step() end
  if not self:subjects()[1] then return end -- nothing is to be decided, and the first run is not to wait for it
  local ok, err = xpcall(self.host.step, script.failure, self.host)
  if not ok then core.log("error", "the scheduling policy: " .. tostring(errors.from(err).message)) end
  settle.step(self)
end

---The live view with the policy that decides on it: what a forecast begins with.
---@return table|nil, table? err
function scheduler:situation()
  local seat <const> = self.host and self.host:seat "scheduling"
  if not seat then self.nodes:look() end -- without a policy nothing else does
  local view <const> = self:view(text.sorted_keys(SIGNALS))
  return {view = core.plain_encode(view), shares = self.shares.settings,
    used = {at = 0, by = self.shares:export().by},
    policy = seat and {text = seat.current.text, path = seat.current.path,
    params = core.plain_encode(seat.current.params)} or nil}
end

return scheduler
