-- A run's side of a scheduled cluster: the slots that it is to have become workers that come and go, and what it
-- measures of itself becomes a model of its throughput and the cost of a resize. Methods of tide.controller.
--
-- An order has all slots of the run by node and a number; an older one than the newest is refused, one that comes again
-- changes nothing. Workers leave at a report, or between two steps of a job that meets; when they are asked to leave by
-- force they end now, and what they had in hand is done again by others, as when a worker is lost.
--
-- The model (k.fit_goodput; Pollux, OSDI 2021, section 3.2) has a row for each number of machines and workers: of a
-- report of all in which none joined or left, the seconds, and of these what the slowest worker computed. All seconds
-- are of this actor's clock: a worker that says otherwise of itself changes no row.
local core = require "tide.core"
local data_sets = require "tide.run.data_sets"
local events = require "tide.cluster.events"
local extensions = require "tide.extensions"
local text = require "tide.text"

local methods <const>, from_driver <const> = {}, {}
local grants = {methods = methods, from_driver = from_driver}

local ROWS_MOST <const> = 40
local HALF_S <const> = 1200   -- a row counts half as much after this
local COST_MOST_S <const> = 60
local NEW_SHARE <const> = 0.3 -- of a row's mean that a new report makes
local FIT_S <const> = 30      -- at the latest, while nothing is new
local UNITS <const> = 4096    -- of work in a row

-- Workers by name of node, of those that have a slot.
local function held_of(self)
  local held = {}
  for _, w in ipairs(self.workers) do
    if w.state ~= "lost" and not w.node.lost then held[w.node.name] = (held[w.node.name] or 0) + 1 end
  end
  return held
end

-- The newest workers of a node that may be asked to leave.
local function newest_on(self, name, count)
  local ranks = {}
  for _, w in ipairs(self:staying()) do
    if #ranks < count and w.node.name == name then ranks[#ranks + 1] = w.rank end
  end
  return ranks
end

-- How many of a node's workers stay as things are.
local function staying_on(self, name)
  local count = 0
  for _, w in ipairs(self.workers) do
    if w.node.name == name and w.state ~= "lost" and not w.node.lost and not w.dropped then count = count + 1 end
  end
  return count
end

-- A worker that does not come to its report is ended; what it had not completed others do.
local function end_now(self, w)
  self:retire(w)
  if self.chunks then self.chunks:release(w.rank) end
  if self.policies then self.policies:ended(w.rank) end
  self:evaluate_without(w)
  if w.address then self:end_worker(w.node, w.address) end
  self:emit {kind = "log", text = ("worker %d on node %s is ended: its slot goes to another run"):format(w.rank,
    w.node.name)}
end

local function force(self)
  if extensions.of(self.job, "meeting") then return end -- they meet between two steps: they are leaving
  if self.life:is "to_leave" then self.life:fire "tell" end
  local ended = false
  for _, w in ipairs(self.workers) do
    if w.dropped and w.state ~= "lost" and w.state ~= "done" then
      end_now(self, w)
      ended = true
    end
  end
  if not ended then return end
  self:hand_out()
  self:meet()
end

-- Workers that meet in mid-epoch come and go there: one change after the other.
local function changes_still(self)
  if not extensions.meets_midway(self.job) or self.life:is "away" then return false end
  if self.life:is "held_back" then return true end
  for _, w in ipairs(self.workers) do
    if not w.node.lost and (w.state == "joining" or w.state == "waiting" or w.dropped and w.state == "running") then
      return true
    end
  end
  return false
end

-- A suspended run gets workers; of those that are starting already the ones that it is not to have go.
local function wake(self, nodes)
  local left <const>, more = {}, {}
  for name, n in pairs(nodes) do left[name] = n end
  for _, w in ipairs(self.workers) do
    local name <const> = w.node.name
    if w.state == "lost" or w.node.lost then goto next end
    if (left[name] or 0) > 0 then
      left[name] = left[name] - 1
    else
      self:let_go(w)
    end
    ::next::
  end
  for name, n in pairs(left) do more[name] = n > 0 and n or nil end
  if not next(nodes) then
    if self.life:is "placed" then self.life:fire "take" end
    return
  end
  self.life:fire "place"
  self.rest.why = nil
  self.resizing = {rate = self.rate, parts = {}, woken_at = core.now()}
  self:use_slots(more)
  self:look_for_awake()
end

---@return string|nil why the order cannot be carried out now
local function carry_out(self, nodes)
  for _, name in ipairs(text.sorted_keys(held_of(self))) do
    local surplus <const> = staying_on(self, name) - (nodes[name] or 0)
    if surplus > 0 then
      local why <const> = self:drop(newest_on(self, name, surplus))
      if why then return why end
    end
  end
  local more = {}
  for name, n in pairs(nodes) do
    local missing <const> = n - staying_on(self, name)
    if missing > 0 then more[name] = missing end
  end
  self:use_slots(more)
  self:hand_out()
  return nil
end

---- measuring ------------------------------------------------------------------------------------------------------

-- The participants, as far as rows distinguish them.
local function parts_of(waiting)
  local ranks = {}
  for i, w in ipairs(waiting) do ranks[i] = w.rank end
  return table.concat(ranks, ",")
end

local function is_count(v) return type(v) == "number" and v == v and v > 0 and v < 1e15 end

-- Seconds of computing, of the slowest; a worker cannot have computed longer than the report took.
local function computed(waiting, elapsed_s)
  local most = 0
  for _, w in ipairs(waiting) do
    local r <const> = w.report
    local own = is_count(r.compute_s) and r.compute_s or (w.elapsed_s and is_count(r.wait_s) and w.elapsed_s - r.wait_s)
      or elapsed_s
    most = math.max(most, own)
  end
  return math.max(math.min(most, elapsed_s), elapsed_s * 1e-3)
end

local function row_for(self, n, k)
  local key <const> = ("%d/%d"):format(n, k)
  local g <const> = self.goodput
  local row = g.by_key[key]
  if row then return row end
  if #g.rows >= ROWS_MOST then -- the oldest goes
    local oldest = 1
    for i, r in ipairs(g.rows) do oldest = r.at < g.rows[oldest].at and i or oldest end
    g.by_key[table.remove(g.rows, oldest).key] = nil
  end
  row = {n = n, K = k, m = UNITS / k, key = key}
  g.by_key[key], g.rows[#g.rows + 1] = row, row
  g.news = true
  return row
end

-- Every row is of the same work, as many examples as the first report had: so it is the same whether a report's
-- examples are divided among those that are there, or each brings its own.
local function fit(self)
  local g <const>, now <const> = self.goodput, core.now()
  local rows, most = {}, 1
  for i, r in ipairs(g.rows) do
    rows[i] = {n = r.n, K = r.K, m = r.m, t_a = r.t_a, t_o = r.t_o, weight = 0.5 ^ ((now - r.at) / HALF_S)}
    most = math.max(most, r.K)
  end
  g.told = {perf = core.k.fit_goodput(rows), gns = {sqr = 0, var = 1}, seen = most, unit = g.examples / UNITS,
            batch = {start = UNITS, max = UNITS, lo = 1, hi = UNITS}}
  g.news, g.fitted_at = false, now
end

-- What a resize cost: over the reports from the order to the first one with the new workers, the seconds that work was
-- missing of what the slower of both speeds would have done.
local function count_cost(self, rate)
  local r <const> = self.resizing
  self.resizing = nil
  local base <const> = r.rate and math.min(r.rate, rate) or rate
  local lost_s, took_s = 0, 0
  for _, part in ipairs(r.parts) do
    lost_s, took_s = lost_s + math.max(part.s - part.examples / base, 0), took_s + part.s
  end
  self.cost = math.min(lost_s, COST_MOST_S)
  self:emit {kind = "log", text = ("resize %d: after %.3f s its speed is that of %d workers; it cost %.3f s"):format(
    self.order or 0, took_s, #self:running(), self.cost)}
end

---{order, nodes = {[name] = slots}, force}: the slots of the run from now on -> {} or {refused =, bound =}.
from_driver["verb.grant"] = function(self, request)
  local function refuse(why, bound) return {refused = why, bound = bound} end
  if self.life:is "ending" then return refuse "the run is ending" end
  if request.order < (self.order or 0) then return refuse "a newer order has come" end
  self.order = request.order -- reports from now on are of it, also if it is rejected
  if self:is_starting() then return refuse "the run has not started" end
  if self.life:is "departing" or self.life:is "leaving" then
    if request.force then force(self) end
    return refuse "its workers are leaving"
  end
  local away <const> = self.life:is "away"
  if away and not self.life:is "by_policy" then return refuse "it was paused, and not by a policy" end
  if changes_still(self) then return refuse "its workers are coming and going" end
  local bound <const> = self:fixed_workers()
  if bound then return refuse(bound, true) end
  self.wanted = nil
  local before <const>, slots = #self:running(), 0
  if not self.resizing then
    self.resizing = {rate = self.rate, parts = {}}
  end
  local why
  if away then
    wake(self, request.nodes)
  elseif not next(request.nodes) then
    self.life:fire("yield", ("%s gave its slots to others"):format(request.why or "the scheduling policy"))
  else
    if self.life:is "yielding" then self.life:fire "stay" end
    why = carry_out(self, request.nodes)
  end
  if request.force then force(self) end
  if why then return refuse(why) end
  for _, n in pairs(request.nodes) do slots = slots + n end
  events.of_resize(self, before, slots, request.why or "the scheduling policy")
  self:tell_runs(true)
  return {}
end

---@return boolean whether a policy gives the run slots elsewhere when it has lost its last worker
function methods:gets_others() return self.a.order ~= nil and self:fixed_workers() == nil end

---Workers are lost. When only leavers are left, which take no more of the work, these go now, and
---the run is suspended until it gets other slots.
function methods:wait_for_others()
  if not self:gets_others() or self.life:is "starting" or self.life:is "away" or self.life:is "ending" then return end
  local leaving = false
  for _, w in ipairs(self.workers) do
    if not w.dropped and (w.state == "done" or w.state == "running") then return end
    leaving = leaving or w.dropped and (w.state == "running" or self.departing and w.state == "done")
  end
  local hands_in <const> = leaving and (self.departing or extensions.meets_midway(self.job)) -- what they have learnt
  self.life:fire(hands_in and "lost" or "all_lost")
end

---Workers that were to stay are lost: those that were to leave do so together.
function methods:leave_together()
  self.departing = self.departing or {}
  self:rest_now("workers are lost that were to stay")
  self:release_due()
end

---No worker is left but those that were to leave: they end now.
function methods:end_leavers()
  local rest <const> = self:rest_now()
  rest.nodes, rest.at, rest.why, self.departing = {}, core.now(), "its last worker is lost", nil
  for _, w in ipairs(self.workers) do
    if w.state == "running" then end_now(self, w) end
  end
end

---What goes to the keeper of runs with the run's state.
function methods:tell_of_slots(m)
  m.held, m.order, m.cost = held_of(self), self.order or self.a.order or 0, self.cost
  self.cost = nil
  m.parked = self.life:is "by_policy" or nil
  if not self:is_starting() and self.fixed_told ~= true then
    m.fixed, self.fixed_told = self:fixed_workers(), true
  end
  local adapts <const> = self.policies and self.policies.driver.adapts
  if adapts and adapts.perf and adapts.gns and self.fits_told ~= adapts.fits then
    local l <const> = adapts.limits
    m.model, self.fits_told = {perf = adapts.perf, gns = adapts.gns, seen = adapts.max_seen,
      batch = {start = l.start, max = l.max or l.start, lo = l.lo or 1, hi = l.hi or l.max or l.start}}, adapts.fits
  elseif self.goodput and self.goodput.told then
    m.model, self.goodput.told = self.goodput.told, nil
  end
end

---A report of all is complete.
---@param waiting table[] the workers
---@param sum table
function methods:measure(waiting, sum)
  local now <const>, parts <const> = core.now(), parts_of(waiting)
  local before <const> = self.measured
  self.measured = {at = now, parts = parts, pauses = self.started_at}
  local coming = false
  for _, w in ipairs(self.workers) do
    coming = coming or w.state == "joining" or w.state == "waiting" or w.dropped and w.state == "running"
  end
  if not before or not is_count(sum.examples) then return end
  local elapsed_s = now - before.at - (self.started_at - before.pauses) -- pauses move its start
  local r <const> = self.resizing
  if r and r.woken_at then elapsed_s, r.woken_at = now - r.woken_at, nil end
  if elapsed_s <= 0 then return end
  if r then r.parts[#r.parts + 1] = {s = elapsed_s, examples = sum.examples} end
  if before.parts ~= parts or coming then return end
  local rate <const> = sum.examples / elapsed_s
  self.rate = rate
  if r then count_cost(self, rate) end
  if self.policies and self.policies.driver.adapts then return end -- its own fit is better
  self.goodput = self.goodput or {rows = {}, by_key = {}, fitted_at = 0, examples = sum.examples}
  local g <const>, k <const> = self.goodput, #waiting
  local row <const>, scale <const> = row_for(self, self:machine_count(), k), g.examples / sum.examples
  local t_o <const> = math.max(elapsed_s * scale, 1e-6)
  local t_a <const> = computed(waiting, elapsed_s) * scale
  row.t_a = row.t_a and row.t_a + NEW_SHARE * (t_a - row.t_a) or math.max(t_a, 1e-6)
  row.t_o = row.t_o and row.t_o + NEW_SHARE * (t_o - row.t_o) or t_o
  row.at = now
  if g.news or now - g.fitted_at > FIT_S then
    fit(self)
    self:tell_runs(true)
  end
end

---@param job tide.job
---@return string|nil why workers of its runs can neither come nor leave, as far as that is known beforehand
function grants.bound(job)
  if not job:survives_workers() then
    return "its work is bound to ranks: cut the data into chunks (w:chunks), or say `on_worker_loss = \"replay\"`"
  end
  if data_sets.is_set(job.data) and not extensions.of(job, "meeting") then
    return "its data set is cut by the number of workers"
  end
  for _, key in ipairs(type(job.tables) == "table" and text.sorted_keys(job.tables) or {}) do
    if (job.tables[key].consistency or "sequential") ~= "sequential" then
      return ("table `%s` has clocks, which count all workers from the start"):format(key)
    end
  end
  return nil
end

return grants
