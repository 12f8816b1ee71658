-- The runs of a cluster: an actor on the controller, registered as "runs", keeps a record of each, gives out
-- worker slots in the order of submission, and passes verbs on to the runs' controllers.
--
-- A run's *host* is the process with tide.main and the run's controller (controller.lua). The host opens a record,
-- waits for slots and reports the run's state from then on; its end, however it comes, ends the run, and what it held
-- goes back.
-- Records lie in the control store ("job/<n>"), so they outlive this actor and this node; a verb is answered when what
-- it changed is recorded. A new controller reads them and waits until the hosts have reported again.
--
--   queued -> starting -> running <-> paused, suspended -> stopping -> done | stopped | failed | lost
--
-- docs/guides/runs.md is the guide.
local ask_all = require "tide.ask_all"
local core = require "tide.core"
local errors = require "tide.errors"
local keeper = require "tide.keeper"
local notes = require "tide.run.notes"
local requests = require "tide.requests"
local service = require "tide.service"
local table_names = require "tide.cluster.table_names"
local text = require "tide.text"
local units = require "tide.units"
local verbs = require "tide.request_audit"

local runs = {}

local ACTOR <const> = [[return require("tide.cluster.runs").main(...)]]
local NAME <const> = keeper.NAME
local MEMORY_S <const> = 2
local ENDED_S <const> = 7 * 24 * 3600
local LIVING_MAX <const>, QUEUED_MAX <const> = 64, 256
local RECORD_BYTES <const> = 64 << 10

---What a record holds. Times are seconds since 1970.
---@class tide.run_record
---@field n integer of the cluster's runs, never given again
---@field name string "mf-17"
---@field job string
---@field uid string of this attempt; its directory is called so
---@field state string queued, starting, running, paused, suspended, stopping, done, stopped, failed, lost
---@field why? string
---@field user string the person who began it: the holder of the certificate, else the local user
---@field note? string
---@field tags? string[]
---@field host {node: string, pid: integer, machine: string, directory: string, address: string}
---@field slots? integer worker slots that were asked for; nil: all that are free
---@field memory? integer bytes that its tables may take on each node
---@field priority? integer among the runs of its person; 0
---@field time_s? number that it may take from the moment it has its slots; then it is stopped
---@field checkpoint? string directory of its checkpoints
---@field keep? boolean its tables stay
---@field private? boolean its slots are not counted
---@field script? boolean of a script without a job
---@field grant? table<string, integer> slots by name of node
---@field epoch integer of the grant, rises with each change
---@field params? table
---@field progress? {report: integer, loss?: number, examples?: number, rate?: number, done?: number, total?: number}
---@field submitted_at number
---@field started_at? number
---@field ended_at? number

---Starts the actor if this node is the controller and none runs here. Cheap: whoever lives on a node that may command
---calls it now and then.
function runs.keep()
  local node <const> = core.node()
  if not node or node.id == 0 or node.controller ~= node.id or core.whereis(NAME) then return end
  core.spawn {source = ACTOR, chunk = "@tide/cluster/runs.lua", role = "control", argument = {}}
  local deadline <const> = core.now() + 2
  while not core.whereis(NAME) and core.now() < deadline do core.sleep(0.002) end
end

---- records --------------------------------------------------------------------------------------------------------

local self ---@type table of this actor: {records = by n, next =, waiting = by n, monitors = by id}

local function key_of(n) return ("job/%08d"):format(n) end

---What is kept of a record.
local function kept(r)
  local out = {}
  for k, v in pairs(r) do
    if type(k) == "string" and k:sub(1, 1) ~= "_" then out[k] = v end
  end
  return out
end

---@return true|nil, table? err
local function save(r)
  local bytes = core.encode(kept(r))
  if #bytes > RECORD_BYTES then
    return nil, errors.new("T0603", {message = ("the record of run %s has %d bytes, at most %d fit"):format(r.name,
      #bytes, RECORD_BYTES), help = "give the job smaller params, or a shorter note"})
  end
  return core.control_put(key_of(r.n), bytes)
end

local function load_records()
  local found, err = core.control_list "job/"
  if not found then return nil, err end
  for _, bytes in pairs(found) do
    local r = core.decode(bytes)
    self.records[r.n] = r
    if not keeper.ENDED[r.state] then r._silent_since = core.now() end
    if r.host.address and not (keeper.ENDED[r.state] and r.closed and not r.named) then -- its end closes the run
      r._monitor = core.monitor(r.host.address)
      if r._monitor then self.monitors[r._monitor] = r end
    end
  end
  found, err = core.control_list "runs/"
  if not found then return nil, err end
  self.next = found["runs/next"] and core.decode(found["runs/next"]) or 1
  return true
end

local function ordered()
  local list = {}
  for _, r in pairs(self.records) do list[#list + 1] = r end
  table.sort(list, function(a, b) return a.n < b.n end)
  return list
end

---The end of its host changes nothing any more.
local function unwatch(r)
  if not r._monitor then return end
  core.demonitor(r._monitor)
  self.monitors[r._monitor], r._monitor = nil, nil
end

---The oldest ended ones go.
local function thin_out()
  local ended = {}
  for _, r in ipairs(ordered()) do
    if keeper.ENDED[r.state] then ended[#ended + 1] = r end
  end
  for i, r in ipairs(ended) do
    if i <= #ended - core.limit "cluster_runs_kept" or core.wall() - (r.ended_at or 0) > ENDED_S then
      self.records[r.n] = nil
      unwatch(r)
      core.fiber(core.control_put, key_of(r.n))
    end
  end
end

local function names_like(wanted)
  local names = {}
  for _, r in ipairs(ordered()) do names[#names + 1] = r.name end
  return text.did_you_mean(wanted, names)
end

---The run that a name means: "mf-17", "17", a uid, or "mf" where one living run has that job.
---@param wanted any
---@return table|nil record, table? err
local function find(wanted)
  wanted = type(wanted) == "string" and wanted or tostring(wanted)
  local number <const> = math.tointeger(tonumber(wanted))
  if number and self.records[number] then return self.records[number] end
  local living, newest = {}, nil
  for _, r in ipairs(ordered()) do
    if r.name == wanted or r.uid == wanted then return r end
    if r.job == wanted then
      newest = r
      if not keeper.ENDED[r.state] then living[#living + 1] = r end
    end
  end
  if #living == 1 then return living[1] end
  if #living == 0 and newest then return newest end
  if #living > 1 then
    local names = {}
    for i, r in ipairs(living) do names[i] = r.name end
    return nil, errors.new("T0513", {message = ("several runs of job `%s` are active: %s"):format(text.clean(wanted),
      table.concat(names, ", ")), help = "name one of them"})
  end
  return nil, errors.new("T0513", {message = ("there is no run `%s`"):format(text.clean(wanted)),
    help = names_like(wanted) or "`tide jobs -a` lists the runs"})
end

---- slots ----------------------------------------------------------------------------------------------------------

---@return table[] nodes {name, id, free}
---@return integer total slots of the cluster
---@return integer free
local function free_slots()
  local nodes, total, free = {}, 0, 0
  local held = {}
  for _, r in pairs(self.records) do
    if not r.private then
      for node, count in pairs(r.grant or {}) do held[node] = (held[node] or 0) + count end
    end
  end
  for _, member in ipairs(core.members()) do
    local workers <const> = member.workers or 0
    if member.state == "up" and workers > 0 then
      local left <const> = math.max(0, workers - (held[member.name] or 0))
      nodes[#nodes + 1] = {name = member.name, id = member.id, free = left}
      total, free = total + workers, free + left
    end
  end
  table.sort(nodes, function(a, b)
    if a.free ~= b.free then return a.free > b.free end
    return a.id < b.id
  end)
  return nodes, total, free
end

---Adds `count` free slots to a grant; nil: there are not so many.
local function take(r, count)
  local nodes <const>, _, free <const> = free_slots()
  if free < count then return nil end
  local added = {}
  for _, node in ipairs(nodes) do
    local share <const> = math.min(node.free, count)
    if share > 0 then added[node.name], count = share, count - share end
  end
  r.grant, r.epoch = r.grant or {}, r.epoch + 1
  for node, slots in pairs(added) do r.grant[node] = (r.grant[node] or 0) + slots end
  return added
end

---Takes slots out of a grant: those of `grant`, or all.
local function give_back(r, grant)
  r.epoch = r.epoch + 1
  if not grant then r.grant = nil end
  for node, slots in pairs(r.grant and grant or {}) do
    local left <const> = (r.grant[node] or 0) - slots
    r.grant[node] = left > 0 and left or nil
  end
end

local function waits_because(r, free)
  local holders = {}
  for _, other in ipairs(ordered()) do
    local count <const> = other ~= r and not other.private and keeper.slots(other.grant) or 0
    if count > 0 then holders[#holders + 1] = ("%s has %d"):format(other.name, count) end
  end
  return ("waits for %d slot%s; %d free%s"):format(r.slots or 1, (r.slots or 1) == 1 and "" or "s", free,
    #holders > 0 and ", " .. table.concat(holders, ", ") or "")
end

-- A run that waited has slots: its host is notified of them when that is recorded.
local function begin(r, grant)
  local message <const> = self.waiting[r.n]
  self.waiting[r.n], r.why = nil, nil
  if r.state == "queued" then r.state, r.started_at = "starting", core.wall() end
  core.fiber(function()
    local ok, err = save(r)
    if ok then
      core.answer(message, {grant = grant, epoch = r.epoch, order = r.order})
    else
      core.answer_error(message, err)
    end
  end)
end

---What the scheduling policy may do with runs: it counts no slots itself.
local function for_scheduler()
  return {
    ordered = ordered, save = save, waiting = self.waiting,
    start = function(r, grant) -- which is free
      r.grant, r.epoch = grant, r.epoch + 1
      begin(r, grant)
    end,
  }
end

-- The runs that wait, in the order in which they get slots: by the priority of their persons, then in the order of
-- submission; of the runs of one person those of a higher priority take the earlier of its places.
local function queue()
  local list, by_person = {}, {}
  for _, r in ipairs(ordered()) do
    if self.waiting[r.n] then
      local of <const> = by_person[r.user or ""] or {runs = {}, next = 0}
      by_person[r.user or ""], of.runs[#of.runs + 1] = of, r
      list[#list + 1] = {person = of, priority = self.scheduler:priority(r), n = r.n}
    end
  end
  table.sort(list, function(a, b)
    if a.priority ~= b.priority then return a.priority > b.priority end
    return a.n < b.n
  end)
  for _, of in pairs(by_person) do
    table.sort(of.runs, function(a, b)
      local x <const>, y <const> = a.priority or 0, b.priority or 0
      if x ~= y then return x > y end
      return a.n < b.n
    end)
  end
  for i, place in ipairs(list) do
    place.person.next = place.person.next + 1
    list[i] = place.person.runs[place.person.next]
  end
  return list
end

---Slots for those that wait, in order. The first that cannot have its slots keeps those behind it waiting, unless it is
---its person's limits that keep it.
local function serve_queue()
  if self.scheduler:is_active() then return end
  local living = 0
  for _, r in pairs(self.records) do
    if r.grant and not r.private then living = living + 1 end
  end
  local first
  for _, r in ipairs(queue()) do
    if first then
      r.why = ("waits behind %s, which is next"):format(first)
    elseif living < LIVING_MAX then
      local _, _, free = free_slots()
      local want <const> = r.slots or math.max(1, free)
      local held_back <const> = self.scheduler:held_back(r, want)
      local added <const> = not held_back and take(r, want)
      if not added and not held_back then
        r.why, first = waits_because(r, free), r.name
      else
        r.why = held_back
      end
      if added then
        living = living + 1
        begin(r, added)
      end
    end
  end
end

---- ends -----------------------------------------------------------------------------------------------------------

---The run's own tables go, on all nodes; those with a name that the script's other runs find with `all`.
local function drop_tables(r, all)
  local keeps = {}
  for _, name in ipairs(r.keeps or {}) do keeps[name] = true end
  for _, name in ipairs(not all and r.named or {}) do keeps[name] = true end
  for _, entry in ipairs(core.tables() or {}) do
    if entry.run == r.n and not keeps[entry.name] then
      local ok, err = core.table_drop(entry.name)
      if not ok and err.name ~= "ENOENT" then
        core.log("warn", ("table %s of run %s was not dropped: %s"):format(entry.name, r.name, err.message))
      end
    end
  end
end

local function end_workers(r)
  for node in pairs(r.grant or {}) do
    local agent <const> = core.whereis(node .. "/agent")
    if agent then core.send(agent, {op = "stop", run = r.uid}, "answer") end
  end
end

local function has_ended(r)
  return errors.new("T0513", {message = ("run %s has ended: %s%s"):format(r.name, r.state,
    r.why and ", " .. r.why or ""), help = "`tide jobs -a` lists what has ended"})
end

-- Of the requester of slots.
local function is_over(r)
  return keeper.ENDED[r.state]
end

---The run is over: its slots are free. Its rows stay until it is closed.
local function finish(r, state, why)
  if keeper.ENDED[r.state] then return end
  r.state, r.why, r.ended_at = state, why, core.wall()
  local waiting <const> = self.waiting[r.n]
  r.grant, self.waiting[r.n] = nil, nil
  self.scheduler:finished(r)
  if waiting then
    core.answer_error(waiting, errors.new("T0210", {message = ("run %s was ended while it waited: %s"):format(
      r.name, why or state), exit = 1}))
  end
  core.event("run", ("%s: %s%s"):format(r.name, state, why and ", " .. why or ""))
end

---Nothing of it stays; `all`: its script has ended too.
local function close(r, all)
  if not r.closed or all and r.named then drop_tables(r, all) end
  r.closed, r.named = true, not all and r.named or nil
  if not r.named then unwatch(r) end
end

---Tables of closed runs that were about to be made when they were dropped.
local function sweep()
  for _, entry in ipairs(core.tables() or {}) do
    local r <const> = self.records[entry.run]
    if r and r.closed then drop_tables(r, not r.named) end
  end
end

---- requests -------------------------------------------------------------------------------------------------------

local ops = {}

local function checked_slots(request)
  local slots <const> = request.slots
  if slots == nil then return true end
  local _, total = free_slots()
  if math.type(slots) ~= "integer" or slots < 1 then
    return nil, errors.new("T0113", {message = ("slots = %s is no whole number of 1 or more"):format(tostring(slots))})
  end
  if slots > total then
    return nil, errors.new("T0603", {message = ("%d slots requested, the cluster has %d"):format(slots, total),
      state = "nothing was started", help = "`tide nodes` shows how many workers each node has"})
  end
  return true
end

local function checked_limits(request)
  if not self.scheduler:is_active() then
    return nil, errors.new("T0117", {message = "limits of slots (min, max, sizes, weight, preemptible) are for a "
      .. "cluster with a scheduling policy, and this one gives slots out in the order of submission",
      state = "nothing was started", help = "`tide policy swap scheduling/goodput`, or say --slots"})
  end
  local l <const> = request.limits
  if type(l) == "table" and request.bound and l.min ~= l.max then
    return nil, errors.new("T0117", {message = ("`%s` cannot have from %s to %s slots: %s"):format(request.job,
      l.min or 1, l.max or "any number of", request.bound), state = "nothing was started",
      help = "give `min` and `max` the same number"})
  end
  local _, total = free_slots()
  return require("tide.scheduler.limits").check(l, "limits of slots", math.max(total, self.scheduler:most_slots()))
end

-- The name that a host gives, where the cluster knows none: a part of keys of the control store.
local function person_of(name)
  return name and #name <= 64 and name:find "^[%w_.@+ -]+$" and name or nil
end

---A host begins a run: {job, uid, user, pid, machine, directory, params, slots, memory, checkpoint, keep, private,
---keeps, limits, bound = why its workers cannot change, script = it has no job} -> {n, name}.
function ops.open(request, message)
  if type(request.job) ~= "string" or type(request.uid) ~= "string" then
    return nil, errors.new("T0116", {message = "a run has a job and a uid"})
  end
  if not request.private then
    local ok, err = checked_slots(request)
    if ok and request.limits then ok, err = checked_limits(request) end
    if not ok then return nil, err end
    local queued = 0
    for _ in pairs(self.waiting) do queued = queued + 1 end
    if queued >= QUEUED_MAX then
      return nil, errors.new("T0603", {message = ("%d runs wait already"):format(queued)})
    end
  end
  local n <const> = self.next
  local r = {n = n, name = ("%s-%d"):format(request.job, n), job = request.job, uid = request.uid,
    state = request.script and "running" or "queued", started_at = request.script and core.wall() or nil,
    user = core.person(message.from) or person_of(request.user),
    slots = request.slots, memory = request.memory, private = request.private,
    script = request.script or nil, checkpoint = request.checkpoint, keep = request.keep,
    params = request.params, epoch = 0,
    keeps = request.keeps, submitted_at = core.wall(), attempt = 1, limits = request.limits, bound = request.bound,
    host = {node = request.node, pid = request.pid, machine = request.machine, directory = request.directory,
            address = message.from}}
  if #r.name > 60 then
    return nil, errors.new("T0203", {message = ("job name `%s` is too long: a run of it would be `%s`"):format(
      request.job, r.name), help = "at most 50 letters"})
  end
  self.next = n + 1
  local ok, err = core.control_put("runs/next", core.encode(self.next))
  if ok then ok, err = save(r) end
  if not ok then return nil, err end
  self.records[n] = r
  r._host, r._monitor = message.from, core.monitor(message.from)
  self.monitors[r._monitor] = r
  thin_out()
  return {n = n, name = r.name}
end

---What the run made: {n, keeps = tables that stay when it is closed, named = that stay until its script ends}.
function ops.tables(request)
  local r <const>, err = find(request.n)
  if not r then return nil, err end
  r.keeps, r.named = request.keeps, request.named
  local ok <const>, problem = save(r)
  if not ok then return nil, problem end
end

-- The whole name of a table.
local function table_named(wanted)
  local known = {}
  for i, entry in ipairs(core.tables() or {}) do known[i] = entry.name end
  return table_names.pick(tostring(wanted), known)
end

---Changes a table that is in use, on all nodes: {name, rate, consistency}, at least one of them.
ops["table.set"] = function(request)
  local name <const>, problem <const> = table_named(request.name)
  if not name then return nil, problem end
  local handle <const>, err <const> = core.table_find(name)
  if not handle then return nil, err end
  for _, field in ipairs {"rate", "consistency"} do
    if request[field] ~= nil then handle[field](handle, request[field]) end -- raises what fails
  end
  return {name = name, rate = handle:rate(), consistency = handle:consistency()}
end

---Drops a table by name: {name, force}. One of an active run only with force.
ops["table.drop"] = function(request)
  local name <const>, problem <const> = table_named(request.name)
  if not name then return nil, problem end
  for _, entry in ipairs(core.tables() or {}) do
    local r <const> = entry.name == name and self.records[entry.run]
    if r and not request.force and not keeper.ENDED[r.state] then
      return nil, errors.new("T0514", {message = ("table `%s` is of run %s, which is %s"):format(name, r.name, r.state),
        help = "end the run first, or say --force: its operations on the table then fail"})
    end
  end
  local ok, err = core.table_drop(name)
  if not ok then return nil, err end
  return {name = name}
end

---The host waits for its slots: {n} -> {grant = {[node] = slots}, epoch}; with `no_wait` at once or not at all.
function ops.grant(request, message)
  local r <const>, err = find(request.n)
  if not r then return nil, err end
  if is_over(r) then return nil, has_ended(r) end
  r._silent_since = nil
  local _, _, free = free_slots()
  if request.no_wait and free < (r.slots or 1) then
    finish(r, "failed", "no slots")
    return nil, errors.new("T0601", {message = ("no free slots: %s"):format(waits_because(r, free)),
      help = "leave --no-wait out to wait for them"})
  end
  self.waiting[r.n] = message
  self.scheduler:event("submit", r)
  return service.LATER
end

---More slots for an active run: {n, slots = how many more} -> {grant = {[node] = slots}}; nothing is waited for.
ops["slots.more"] = function(request)
  local r <const>, err = find(request.n)
  if not r then return nil, err end
  if self.scheduler:is_active() then
    return nil, errors.new("T0513", {message = ("%s decides how many slots a run has here"):format(
      self.scheduler:policy()), state = "nothing changes", help = "`tide job workers NAME N` changes what it takes"})
  end
  if is_over(r) then return nil, has_ended(r) end
  if math.type(request.slots) ~= "integer" or request.slots < 1 then
    return nil, errors.new("T0113", {message = ("slots = %s is no whole number of 1 or more"):format(
      tostring(request.slots))})
  end
  local slots <const> = r.slots
  local added <const> = take(r, request.slots)
  if not added then
    local _, total, free = free_slots()
    return nil, errors.new("T0603", {message = ("%d more slots requested, %d of %d are free"):format(request.slots,
      free, total), state = "nothing changes"})
  end
  r.slots = keeper.slots(r.grant)
  local ok, problem = save(r)
  if not ok then
    give_back(r, added)
    r.slots = slots
    return nil, problem
  end
  return {grant = added, epoch = r.epoch}
end

---A run gives slots back: {n, grant = {[node] = slots}}; all of them without `grant`.
ops["slots.less"] = function(request)
  local r <const>, err = find(request.n)
  if not r then return nil, err end
  if self.scheduler:is_active() then return {} end -- it reports what it holds
  give_back(r, request.grant)
  if request.grant then
    r.slots = math.max(1, keeper.slots(r.grant))
  end
  local ok <const>, problem = save(r)
  if not ok then return nil, problem end
end

---How a run is: {n, uid, state, why, progress, params, workers}, by its controller, again and again. From an actor that
---is not known yet it is the first that this keeper hears.
function ops.tell(request, message)
  local r <const> = self.records[request.n]
  if not r or r.uid ~= request.uid or keeper.ENDED[r.state] then
    core.send(message.from, {op = "disowned"}, "answer")
    return {}
  end
  r._controller, r._silent_since = message.from, nil
  if not r._watched then
    r._watched = core.monitor(message.from)
    self.monitors[r._watched] = r
  end
  r._progress, r._workers = request.progress, request.workers
  local changed <const> = r.state ~= request.state or r.why ~= request.why
  if request.params then r.params = request.params end
  if keeper.ENDED[request.state] then
    finish(r, request.state, request.why)
  elseif r.state ~= "queued" or request.state ~= "starting" then
    r.state, r.why = request.state, request.why
  end
  self.scheduler:told(r, request)
  if changed or request.params then core.fiber(save, r) end
end

---A host has done with a run: {n, state, why, exit, tables = whether its rows go}.
function ops.close(request)
  local r <const>, err = find(request.n)
  if not r then return nil, err end
  if r.uid ~= request.uid then
    return nil, errors.new("T0513", {message = ("number %d belongs to another run now: %s"):format(r.n, r.name)})
  end
  end_workers(r)
  finish(r, request.state or "stopped", request.why)
  r.exit = request.exit
  if request.tables == false then r.closed = true end
  close(r)
  local ok <const>, problem = save(r)
  if not ok then return nil, problem end
end

local function row_of(r)
  local p <const> = r._progress or r.progress or {}
  local nodes = text.sorted_keys(r.grant or {})
  local row <const> = {n = r.n, name = r.name, job = r.job, uid = r.uid, state = r.state, why = r.why,
    user = r.user, note = r.note, tags = r.tags, priority = r.priority, host = r.host,
    slots = keeper.slots(r.grant), wanted = r.slots, memory = r.memory, time_s = r.time_s,
    checkpoint = r.checkpoint, keep = r.keep, workers = r._workers, nodes = nodes,
    grant = r.grant, epoch = r.epoch, params = r.params, progress = p, submitted_at = r.submitted_at,
    started_at = r.started_at, ended_at = r.ended_at, exit = r.exit, attempt = r.attempt, private = r.private,
    script = r.script, closed = r.closed, age_s = core.wall() - r.submitted_at}
  self.scheduler:row(r, row)
  return row
end

---{all =, job =, state =} -> {runs = rows}, oldest first; without `all` those that have not ended.
function ops.list(request)
  local rows = {}
  for _, r in ipairs(ordered()) do
    local fits <const> = (request.all or not keeper.ENDED[r.state]) and (not request.job or r.job == request.job)
      and (not request.state or r.state == request.state)
    if fits then rows[#rows + 1] = row_of(r) end
  end
  return {runs = rows}
end

-- What its tables take on each node, by name.
local function memory_of(r)
  local used, names, agents = {}, {}, {}
  for _, member in ipairs(core.members()) do
    local agent <const> = member.state == "up" and core.whereis(member.name .. "/agent")
    if agent then names[#names + 1], agents[#agents + 1] = member.name, agent end
  end
  for i, answer in pairs((ask_all(agents, {op = "run.memory", n = r.n}, {timeout_s = MEMORY_S}))) do
    if answer.cap_bytes then used[names[i]] = {used = answer.used_bytes, refused = answer.refused} end
  end
  return used
end

---{name, memory = what its tables take is wanted, if they have a cap} -> row
function ops.get(request)
  local r <const>, err = find(request.name)
  if not r then return nil, err end
  local row = row_of(r)
  if request.memory and r.memory and not r.closed then row.memory_used = memory_of(r) end
  row.controller = r._controller
  return row
end

---Slots of the cluster and their holders: {} -> {total, free, nodes = {{name, id, free}}}.
function ops.held()
  local nodes, total, free = free_slots()
  return {nodes = nodes, total = total, free = free}
end

ops.bytes = service.bytes

local VERBS <const> = {pause = true, resume = true, set = true, stop = true, cancel = true, workers = true}

---Notes something about a run, also of one that has ended: {name, note, tags} -> {name, note, tags}. The run's process
---keeps it in the run's directory too.
function ops.note(request)
  local r <const>, err = find(request.name)
  if not r then return nil, err end
  local noted <const>, problem = notes.changed(r, request)
  if not noted then return nil, problem end
  r.note, r.tags = noted.note, noted.tags
  local ok <const>, unsaved = save(r)
  if not ok then return nil, unsaved end
  if r._controller then core.send(r._controller, {op = "noted", note = r.note, tags = r.tags}, "answer") end
  return {name = r.name, state = r.state, note = r.note, tags = r.tags}
end

local PRIORITY_MOST <const> = 1000
local LATE_GRACE_S <const> = 30

---{name, priority}: how early a run gets slots among those of its person.
function ops.priority(request)
  local r <const>, err = find(request.name)
  if not r then return nil, err end
  if is_over(r) then return nil, has_ended(r) end
  if math.abs(request.priority) > PRIORITY_MOST then
    return nil, errors.new("T0113", {message = ("priority %d is none from -%d to %d"):format(request.priority,
      PRIORITY_MOST, PRIORITY_MOST)})
  end
  r.priority = request.priority ~= 0 and request.priority or nil
  local ok <const>, unsaved = save(r)
  if not ok then return nil, unsaved end
  return {name = r.name, state = r.state, priority = request.priority}
end

---{name, seconds}: how long the run may take from the moment it has its slots; without seconds any time.
function ops.time(request)
  local r <const>, err = find(request.name)
  if not r then return nil, err end
  if is_over(r) then return nil, has_ended(r) end
  r.time_s = request.seconds
  local ok <const>, unsaved = save(r)
  if not ok then return nil, unsaved end
  return {name = r.name, state = r.state, time_s = r.time_s}
end

-- How long a run has had its slots. The record has the wall clock's time, which another keeper can read; it is looked
-- at once, because a clock that is set later must not end the run.
local function age_of(r)
  if not r.started_at then return 0 end
  if r._aged_from ~= r.started_at then
    r._aged_from, r._slots_since = r.started_at, core.now() - math.max(0, core.wall() - r.started_at)
  end
  return core.now() - r._slots_since
end

-- Its time is over: it stops at its next report, and is ended where that does not come.
local function stop_late(r)
  local age <const> = age_of(r)
  if not r.time_s or age <= r.time_s or r._late or not r._controller or keeper.ENDED[r.state] then return end
  r._late = true
  core.event("run", ("%s: its time of %s is over"):format(r.name, units.format_duration(r.time_s)))
  core.send(r._controller, {op = "verb.stop", within_s = LATE_GRACE_S, reason = "its time is over"}, "answer")
end

---{name, verb, arguments} -> what the run's controller says of it. An ended run takes no verbs.
function ops.verb(request, message)
  local r <const>, err = find(request.name)
  if not r then return nil, err end
  if not VERBS[request.verb] then
    return nil, errors.new("T0116", {message = ("a run has no verb `%s`"):format(text.clean(tostring(request.verb)))})
  end
  local fits <const>, mistake = service.check(requests.run, "verb." .. request.verb, request.arguments or {})
  if not fits then return nil, mistake end
  -- Where another keeper has granted its slots, its controller reports to this one soon, or it is lost.
  while r._silent_since and not r._controller and r.state ~= "queued" and not keeper.ENDED[r.state] do
    core.sleep(0.02)
  end
  if keeper.ENDED[r.state] then
    return nil, has_ended(r)
  end
  local by <const> = verbs.by(message)
  if by ~= "" then core.event("run", ("%s: %s%s"):format(r.name, request.verb, by)) end
  if request.verb == "workers" and self.scheduler:is_active() then
    return self.scheduler:resize(r, (request.arguments or {}).count)
  end
  if not r._controller then
    if request.verb ~= "cancel" and request.verb ~= "stop" then
      return nil, errors.new("T0513", {message = ("run %s is %s: it has not started"):format(r.name, r.state)})
    end
    local why <const> = (request.arguments or {}).why
    finish(r, "stopped", request.verb == "stop" and "stopped before it began" or why or "cancelled before it began")
    local ok, problem = save(r)
    if not ok then return nil, problem end
    return {state = r.state}
  end
  local value = {}
  for k, v in pairs(request.arguments or {}) do value[k] = v end
  value.op = "verb." .. request.verb
  return core.call(r._controller, value, (request.timeout_s or core.limit "actor_call_timeout") + 5)
end

---A verb of the cluster's scheduling policy: {verb, arguments = plain bytes}, as a run takes those of its own.
function ops.policy(request, message) return self.scheduler:serve(request, message) end

---Another scheduling policy, or none: {policy = {text, path} | false, params, guard, nodes = of the pool}.
function ops.schedule(request)
  if request.policy == false then
    self.scheduler:remove()
    return {}
  end
  local fits, mistake = true, nil
  if request.nodes then fits, mistake = require("tide.scheduler.pool").check(request.nodes) end
  if not fits then return nil, mistake end
  local answer, err = self.scheduler:install(request.policy, request)
  if answer and request.nodes then
    local ok, why = self.scheduler:provision(request.nodes)
    if not ok then return nil, why end
  end
  if not answer then return nil, err end
  return {policy = answer.new}
end

---Shares of persons: {} -> {half_life_s, persons = rows}.
function ops.shares() return self.scheduler:show_shares() end

---Other shares: {shares = as a file has them; nil: none}.
ops["shares.set"] = function(request) return self.scheduler:set_shares(request.shares or false) end

---Slot seconds: {} -> {rows = {{week, person, run, slot_s}}}.
function ops.accounts() return {rows = self.scheduler.ledger:rows()} end

---What a forecast begins with: {} -> {view = plain bytes, policy = {text, path, params = plain bytes}}.
function ops.situation() return self.scheduler:situation() end

---- loop -----------------------------------------------------------------------------------------------------------

local function exited(message)
  local r <const> = self.monitors[message.call]
  self.monitors[message.call] = nil
  if not r then return end
  local reason <const> = message.text and message.text ~= "" and message.text:match "^[^\n]*" or message.name
  if message.call == r._watched then
    r._watched, r._controller = nil, nil
    if keeper.ENDED[r.state] then return end
    r._silent_since = core.now() -- its host may still report its end
    return
  end
  if keeper.ENDED[r.state] and r.closed and not r.named then return end
  end_workers(r)
  finish(r, "lost", "its host is gone: " .. tostring(reason))
  if r.private and not r.script then return end
  core.fiber(function()
    close(r, true)
    save(r)
  end)
end

local requested <const> = service.new {name = "the keeper of runs", rows = requests.runs, answers = ops, waits = true,
                                       audit = verbs.audit "runs", exited = exited}

---@return boolean whether another node is the controller now
local function tick()
  serve_queue()
  self.scheduler:tick()
  if core.now() >= self.sweep_at and not self.sweeping then
    self.sweeping = true
    core.fiber(function()
      sweep()
      self.sweeping, self.sweep_at = false, core.now() + core.limit "cluster_runs_sweep"
    end)
  end
  for _, r in pairs(self.records) do
    stop_late(r)
    local silent <const> = r._silent_since and core.now() - r._silent_since > core.limit "cluster_runs_silence"
    if silent and not keeper.ENDED[r.state] then
      end_workers(r)
      finish(r, "lost", "its host is silent")
      core.fiber(function()
        close(r, true)
        save(r)
      end)
    end
  end
  local node <const> = core.node()
  return node.controller ~= node.id
end

---Body of the actor; ends when another node leads.
function runs.main()
  core.trap_exits(true)
  if not core.register(NAME) then return end
  core.open "read"
  core.title "runs"
  self = {records = {}, waiting = {}, monitors = {}, next = 1,
    sweep_at = core.now() + core.limit "cluster_runs_sweep"}
  local ok, err = load_records()
  if not ok then
    core.log("error", "the records of runs cannot be read: " .. tostring(err and err.message))
    return
  end
  self.scheduler = require("tide.scheduler").new(for_scheduler())
  self.scheduler:recover()
  local function wait_s() return next(self.waiting) and 0.05 or core.limit "cluster_runs_tick" end
  requested:run {wait_s = wait_s, turn = tick}
end

return runs
