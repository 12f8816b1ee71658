-- Workers that join and leave during a run. Methods of tide.controller.
--
-- A worker joins on a node of its own: it loads the script, says that it is ready, and begins when the next report of
-- all is answered, where all begin a step. One that is dropped is asked to stop with the answer to its next
-- report, gets no more chunks, and leaves by returning from the job's function. So a step or a pass never lacks
-- examples: a leaver has done its part, a joiner has one from its first step on.
--
-- A job that `meets` (nn.job) is asked to do so: its workers come to the barrier `epoch` between two steps, and which
-- comes or goes does so there, before the next report.
--
-- That requires a job whose work is bound to no rank: chunks of data, or `on_worker_loss = "replay"`, as for lost ones;
-- and no tables with clocks, which count on the workers of the start. Jobs that exchange gradients divide their data
-- anew with each report (tide.nn.worker_group).
local core = require "tide.core"
local data_sets = require "tide.run.data_sets"
local extensions = require "tide.extensions"
local keeper = require "tide.keeper"
local text = require "tide.text"

local methods <const> = {}
local elastic_workers = {methods = methods}

local HAS_BEGUN <const> = {starting = true, ready = true, running = true}
local WAITS <const> = {joining = true, waiting = true} -- to begin, at the next report
local IS_THERE <const> = {starting = true, ready = true, running = true, joining = true, waiting = true}

---@return string|nil why no worker of this run can leave, nor come
function methods:bound_to_ranks()
  if not self.job:survives_workers() then
    return "its work is bound to ranks: cut the data into chunks (w:chunks), or say `on_worker_loss = \"replay\"`"
  end
  if data_sets.is_set(self.job.data) and not extensions.of(self.job, "meeting") then
    return "its data set is cut by the number of workers"
  end
  return nil
end

---@return string|nil why no worker can come to this run
function methods:fixed_workers()
  local bound <const> = self:bound_to_ranks()
  if bound then return bound end
  for _, key in ipairs(text.sorted_keys(self.a.tables)) do
    local handle = core.table_find(self.a.tables[key])
    if handle and (handle.spec.consistency or "sequential") ~= "sequential" then
      return ("table `%s` has clocks, which count all workers from the start"):format(self.a.tables[key])
    end
  end
  return nil
end

-- What became of the request to start these workers.
local function have_come(self, node, list, answer, err)
  for i, w in ipairs(list) do
    if not answer then
      self:retire(w)
    elseif w.state == "joining" then
      w.address = answer.addresses[i]
      self:watch(w, {worker = w})
      if w.loaded then
        w.state = "waiting"
        self:ask_to_meet()
      end
    else -- it was released before it had come
      self:end_worker(node, answer.addresses[i])
    end
  end
  if not answer then
    self:emit {kind = "log", text = ("no worker joins on node %s: %s"):format(node.name, err.message)}
  end
end

---Starts workers on a node that has joined, or has slots for more.
---@param node table {name, id, agent, workers}
---@param count integer
function methods:add_workers(node, count)
  local why = self:fixed_workers()
  if why then
    return self:emit {kind = "log", text = ("no worker joins on node %s: %s"):format(node.name, why)}
  end
  local list = {}
  for i = 1, count do
    list[i] = self:new_worker(node, "joining")
    if self.policies then self.policies:expect(list[i].rank, node) end
  end
  local coming <const> = self.coming or 0
  self.coming = math.max(coming - count, 0)
  if self.wanted and count > coming then self.wanted = self.wanted + count - coming end -- others were not asked for
  core.fiber(function()
    local answer, err = core.call(node.agent, {op = "load", run = self.a.run, script = self.a.script})
    if answer then
      if not node.is_loaded then self.baseline[node.name], node.is_loaded = answer, true end
      answer, err = core.call(node.agent, self:start_request(list, #self:staying()))
    end
    have_come(self, node, list, answer, err)
    self:settle_workers()
    self:look_for_awake()
  end)
end

---A worker has left, or is not to come: on a shared cluster its slot is free now.
function methods:free_slot(w)
  self:let_go(w)
  if not self.a.shared then return end
  core.fiber(function() keeper.ask {op = "slots.less", n = self.a.number, grant = {[w.node.name] = 1}} end)
  self:tell_runs(true)
end

---A worker joins or leaves: all of a job that meets in mid-epoch are asked to meet.
function methods:ask_to_meet()
  if not extensions.meets_midway(self.job) or self:is_starting() then return end
  self.meetings = (self.meetings or 0) + 1
  for _, w in ipairs(self.workers) do
    if w.state == "running" then self:send_worker(w, {op = "meet", count = self.meetings}) end
  end
end

---A worker that has not begun, or has left, is asked for nothing any more.
function methods:let_go(w)
  self:retire(w)
  w.node.workers = w.node.workers - 1
  self:evaluate_anew(w)
  if w.address then self:end_worker(w.node, w.address) end
end

---@return integer on how many machines workers are
function methods:machine_count()
  local seen, count = {}, 0
  for _, w in ipairs(self.workers) do
    local known <const> = self.baseline[w.node.name] or {}
    local id <const> = known.machine and known.machine.id or w.node.name
    if w.state == "running" and not seen[id] then seen[id], count = true, count + 1 end
  end
  return math.max(count, 1)
end

---All begin a step, also those that wait to join.
---@return table[] workers that have joined
function methods:admit()
  local list = {}
  for _, w in ipairs(self.workers) do
    if w.state == "waiting" then
      w.state, self.live = "running", self.live + 1
      list[#list + 1] = w
      if self.policies then self.policies:joined_worker(w.rank) end
      self:emit {kind = "log", text = ("worker %d joins on node %s"):format(w.rank, w.node.name)}
    end
  end
  return list
end

---Starts those that have joined.
---@param list table[]
---@param state? table the positions of the leavers whose work they continue
function methods:begin_joined(list, state)
  local comm <const> = state and self.policies and self.policies:comm_plan(true) or nil
  for _, w in ipairs(list) do
    self:send_worker(w, {op = "go", id = 0, params = self.params,
                          passes = self.chunks and self.chunks:begins_behind(),
                          batch = self.policies and self.policies:batch_of(w.rank),
                          work = self.policies and self.policies:work(), meet = self.meetings,
                          comm = comm, reports = self.clock, state = state})
  end
end

---@param ranks integer[] workers that are to leave
---@return string|nil why they may not
function methods:must_stay(ranks)
  local bound <const> = self:bound_to_ranks()
  if bound then return "no worker leaves: " .. bound end
  local leaving, left = {}, 0
  for _, rank in ipairs(ranks) do
    local w <const> = self.workers[rank]
    if not w then return ("there is no worker %d: they are 1 to %d"):format(rank, #self.workers) end
    if w.state == "done" or w.state == "lost" then return ("worker %d has left already"):format(rank) end
    leaving[rank] = true
  end
  for _, w in ipairs(self.workers) do
    if IS_THERE[w.state] and not WAITS[w.state] and not w.dropped and not leaving[w.rank] then left = left + 1 end
  end
  return left == 0 and "no worker would be left that has begun" or nil
end

---Lets workers leave after their next report.
---@param ranks integer[]
---@return string|nil why they may not
function methods:drop(ranks)
  local why <const>, asks = self:must_stay(ranks), false
  if why then return why end
  for _, rank in ipairs(ranks) do
    local w = self.workers[rank]
    if w and HAS_BEGUN[w.state] then
      w.dropped = true
      self:leave_queue(w)
      if extensions.meets_midway(self.job) and w.address then
        self:send_worker(w, {op = "stop"})
        asks = true
      end
    elseif w and WAITS[w.state] then
      self:free_slot(w)
      self:look_for_vacancy(w.node)
    end
  end
  if asks then self:ask_to_meet() end
  return nil
end

-- How many more nodes there may be.
local function room_of(self)
  local count = self.coming or 0
  for _, node in ipairs(self.a.nodes) do
    if not node.lost then count = count + 1 end
  end
  return self.a.nodes_max - count
end

---More workers may be there than are wanted: those that were starting when fewer were requested. Called when one
---comes or leaves and at each report. The newest go first.
---@return string|nil why they stay for now
function methods:settle_workers()
  local idle <const> = self.life:is "departing" or self.life:is "away" or self.life:is "ending"
  if not self.wanted or idle or self:is_starting() then return nil end
  local surplus = {}
  local staying <const> = self:staying()
  for i = 1, #staying - self.wanted do surplus[i] = staying[i].rank end
  return #surplus > 0 and self:drop(surplus) or nil
end

---Adds or removes workers until there are `count`; the newest leave first. On a shared cluster joiners require
---free slots. The number is remembered: the run settles on it, whatever is pending.
---@param count integer
---@return string|nil why not
---@return table? err the same, where it has a code of its own
function methods:set_workers(count)
  local missing <const> = count - #self:staying() - (self.coming or 0)
  if missing <= 0 then
    self.wanted = count
    return self:settle_workers()
  end
  local why = self:fixed_workers()
  if why then return "no worker joins: " .. why end
  if self.a.nodes_max == 0 and not self.a.shared then
    return "no worker joins: the nodes of this cluster are not the script's to start"
  end
  if not self.a.shared and missing > room_of(self) then
    return ("%d workers want %d more nodes, and a cluster of a script has %d at most"):format(count, missing,
      self.a.nodes_max)
  end
  self.wanted, self.coming = count, (self.coming or 0) + missing
  if self.a.shared then
    local answer, err = keeper.ask {op = "slots.more", n = self.a.number, slots = missing}
    if answer then
      self:use_slots(answer.grant)
      return nil
    elseif not self.a.provisioned then
      self.coming = math.max(self.coming - missing, 0)
      return err.message, err
    end
  end
  self:emit {kind = "scale", workers = missing} -- the script, or its launcher, starts nodes for them
  return nil
end

---The node of these workers was asked to leave, and waits until it may. What they have in hand they finish, or give
---back in part; chunks they get no more; without chunks they take part in the next report and stop.
---@param node table
---@param agent string to be notified
function methods:let_workers_leave(node, agent)
  node.leaver = agent
  if node.lost or node.vacant or self.failed or not self:may_go_on(node) then return self:vacate(node) end
  local ranks = {}
  for _, w in ipairs(self.workers) do
    if w.node == node and IS_THERE[w.state] then ranks[#ranks + 1] = w.rank end
  end
  if self:drop(ranks) then return self:vacate(node) end
  self:emit {kind = "log", text = ("node %s leaves: its workers finish what they have in hand"):format(node.name)}
  self:hand_out()
  self:look_for_leaver(node)
end

---Has every worker of a leaving node finished?
function methods:look_for_leaver(node)
  if not node.leaver then return end
  for _, w in ipairs(self.workers) do
    local busy = w.node == node and w.state == "running"
    if busy and (not self.chunks or self.chunks:is_held_by(w.rank)) then return end
  end
  self:vacate(node)
end

---Takes a leaving node out of the run, with nothing to be done again, and notifies it.
function methods:vacate(node)
  local agent <const> = node.leaver
  node.leaver = nil
  if not node.lost and not self.failed and self:may_go_on(node) then
    node.lost = true
    self:drop_workers(node, nil)
    if self.policies then self.policies:left(node) end
  end
  core.send(agent, {op = "vacated", run = self.a.run}, "answer")
end

---A node that joined for its workers has none any more: it may leave.
function methods:look_for_vacancy(node)
  for _, rank in ipairs(node.ranks) do
    local w = self.workers[rank]
    if not (w.dropped and w.state == "done") then return end
  end
  if node.vacant then return end
  node.vacant = not node.store
  if node.vacant and node.late then self:emit {kind = "vacant", node = node.name} end
end

return elastic_workers
