-- When runs of a scheduled cluster will end: what the policy sees now is the beginning of a simulation of jobs
-- (tide.sim.jobs), with the runs' own models of their throughput, under the policy that decides on them.
--
-- A run that does not say how much it is to do in all is taken to be half done: its end is a guess, and marked so.
local core = require "tide.core"
local errors = require "tide.errors"
local source = require "tide.policy.source"
local world = require "tide.sim.jobs.world"

local forecast = {}

local job = {}
job.__index = job

local UNKNOWN_S <const> = 60 -- of one slot, of a run that has done nothing yet
local YEAR_S <const> = 365 * 86400

---A job of the simulator that continues from the state of a run.
---@param request table {entry = of the view, machines = machine by node}
function job.new(_, request)
  local e <const> = request.entry
  local self = setmetatable({
    id = e.id, name = e.name, submit = -e.age, request = e.request, slots = e.slots, nodes = e.nodes, counts = {},
    progress = 0, owed = 0, resizes = e.resizes, attained = e.attained or 0, used = 0, max = e.max, min = e.min,
    sizes = e.sizes, weight = e.weight, person = e.person, memory = e.memory,
    preemptible = e.preemptible, started = e.slots > 0 or e.attained > 0,
    entry = e, machines = request.machines, guessed = e.remaining == nil, epoch = 1, first_slot = 0,
    max_seen = e.max_seen or 0,
  }, job)
  local unit <const> = e.perf and e.unit or 1
  local left = e.remaining or e.progress or 0
  if left <= 0 and self.guessed then left = UNKNOWN_S * self:rate(1, 1) * unit end
  self.left = math.max(left / unit, 1e-9)
  self.app = {name = "run", epochs = 1, ends = {self.left}, steps = function() return e.oracle.step_s end}
  self:count(e.nodes)
  return self
end

-- On how many machines places are.
function job:count(places)
  local seen = {}
  self.counts = {}
  for node, n in pairs(places) do
    local machine <const> = self.machines[node] or node
    if not seen[machine] then
      self.counts[#self.counts + 1] = 0
      seen[machine] = #self.counts
    end
    self.counts[seen[machine]] = self.counts[seen[machine]] + n
  end
end

---Work a second.
function job:rate(slots, machines)
  local e <const> = self.entry
  if slots == 0 then return 0 end
  if not e.perf then return (e.rate or 1) * slots / math.max(e.slots, 1) end
  local best <const> = core.k.best_batch(e, slots, machines)
  return best and best.goodput or 1e-9
end

function job:model()
  local e <const> = self.entry
  return {perf = e.perf, gns = e.gns, batch = e.batch, fit = e.fit, max_seen = self.max_seen}
end

function job:is_done() return self.ended ~= nil end
function job:steps_left() return self.left - self.progress end

function job:ends_about(now)
  self.clock = now
  local rate <const> = self:rate(self.slots, math.max(#self.counts, 1))
  return now + self.owed + math.min((self.left - self.progress) / math.max(rate, 1e-12), YEAR_S)
end

function job:advance(now, dt)
  local spent <const> = math.min(self.owed, dt)
  self.owed, self.attained = self.owed - spent, self.attained + spent * self.slots
  local seconds = dt - spent
  local rate <const> = self:rate(self.slots, math.max(#self.counts, 1))
  local needs <const> = (self.left - self.progress) / math.max(rate, 1e-12)
  if needs <= seconds then
    seconds = needs
    self.ended = now + spent + needs
  end
  self.progress = math.min(self.progress + rate * seconds, self.left)
  self.attained, self.used = self.attained + seconds * self.slots, self.used + seconds * self.slots
  if seconds > 0 then self.max_seen = math.max(self.max_seen, self.slots) end
  return self.ended
end

function job:place(places, _, resize)
  local changes <const> = self.slots > 0
  if not self.started and next(places) then self.begins = self.clock or 0 end
  self.nodes, self.slots = places, 0
  for _, n in pairs(places) do self.slots = self.slots + n end
  self:count(places)
  if self.slots == 0 then return end
  if changes then self.resizes = self.resizes + 1 end
  self.owed, self.started = changes and resize.live or resize.start, true
end

---@param situation {view: string, shares?: table, used?: table,
---  policy?: {text: string, path: string, params: string}} of the keeper of runs
---@param o? {name?: string, slots?: integer} the run of that name has this number of slots from now on
---@return {name: string, begins_s?: number, ends_s: number, guessed: boolean, slots: integer}[]|nil runs in order of
---  submission, table? err
function forecast.run(situation, o)
  o = o or {}
  local view <const> = core.plain_decode(situation.view)
  local machines, by_node, requests, total = {}, {}, {}, 0
  for i, node in ipairs(view.nodes) do
    machines[i] = {id = node.id, slots = node.slots, machine = node.machine, state = node.state}
    by_node[node.id], total = node.machine, total + (node.state == "up" and node.slots or 0)
  end
  local resize_s = 0
  for i, entry in ipairs(view.jobs) do
    if entry.name == o.name and o.slots then
      if o.slots > total then
        return nil, errors.new("T0603", {message = ("%d slots: the cluster has %d"):format(o.slots, total)})
      end
      entry.min, entry.max, entry.sizes, entry.request = o.slots, o.slots, nil, {slots = o.slots}
      if entry.slots ~= o.slots then entry.preemptible = nil end
    end
    requests[i] = {new = job.new, entry = entry, machines = by_node}
    resize_s = math.max(resize_s, entry.resize_s or 0)
  end
  if #requests == 0 then return {} end
  local policy = "scheduling/fifo"
  if situation.policy then
    policy = {policy = {text = situation.policy.text, path = situation.policy.path},
              params = core.plain_decode(situation.policy.params)}
  end
  local loaded <const>, err = source.load(assert(source.find(policy)), {timed = false})
  if not loaded then return nil, err end
  local every <const> = math.max(math.ceil(loaded.policy.every), 1)
  loaded.sandbox:close()
  local cost <const> = math.ceil(resize_s)
  local ok, result = pcall(function()
    local w <const> = world.new({nodes = 0, slots = 1, machines = machines, every = every, events = true,
      interference = 0, shares = situation.shares, used = situation.used,
      resize = {start = cost, live = cost}, nodes_min = #machines, nodes_max = #machines}, requests,
      policy, 1)
    w:run()
    return w
  end)
  if not ok then return nil, errors.from(result) end
  local out = {}
  for i, each in ipairs(result.jobs) do
    out[i] = {name = each.name, begins_s = each.begins, ends_s = each.ended, guessed = each.guessed,
              slots = view.jobs[i].slots}
  end
  return out
end

return forecast
