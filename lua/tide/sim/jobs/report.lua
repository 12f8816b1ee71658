-- What came of a simulation of jobs: completion times, what they would have been alone, how much of the cluster was
-- held and used, and charts of it.
local Job = require "tide.sim.jobs.job"
local core = require "tide.core"
local text = require "tide.text"

local report = {}

local POINTS_MOST <const> = 600

---- lists of numbers ----------------------------------------------------------------------------------------------

---@class tide.sim.jobs.numbers: number[]
local numbers = {}
numbers.__index = numbers

---@return number
function numbers:mean()
  local sum = 0
  for _, v in ipairs(self) do sum = sum + v end
  return sum / #self
end

---Linear between order statistics.
---@param q number 0 to 1
---@return number|nil
function numbers:quantile(q) return core.k.quantile(self, q) end

function numbers:max() return math.max(table.unpack(self)) end
function numbers:min() return math.min(table.unpack(self)) end

function report.numbers(list) return setmetatable(list, numbers) end

---- over time -----------------------------------------------------------------------------------------------------

---A record of the cluster over time, thinned to a few hundred points.
function report.curve() return {points = {}, stride = 1, skipped = 0} end

---@param curve table
---@param now number
---@param active integer jobs
---@param held integer slots
---@param slots integer of the cluster
---@param efficiency number|nil mean over running jobs
function report.sample(curve, now, active, held, slots, efficiency)
  curve.skipped = curve.skipped + 1
  if curve.skipped < curve.stride then return end
  curve.skipped = 0
  local points = curve.points
  points[#points + 1] = {at = now, active = active, held = held, slots = slots, efficiency = efficiency}
  if #points > POINTS_MOST then
    local kept = {}
    for i = 2, #points, 2 do kept[#kept + 1] = points[i] end
    curve.points, curve.stride = kept, curve.stride * 2
  end
end

---- the result ----------------------------------------------------------------------------------------------------

-- Seconds of a job on `slots` slots that it alone has from its submission on.
local function time_alone(world, job, slots)
  local alone = Job.new(job.id, job.request, world.adapts)
  local counts, places, left = {}, {}, math.max(math.min(slots, alone.max), 1)
  while left > 0 do
    local n = math.min(left, world.o.slots)
    counts[#counts + 1], left = n, left - n
    places[#counts] = n
  end
  alone:place(places, counts, world.o.resize)
  return alone:advance(0, math.huge, 0)
end

-- Of 1, its share over the mean number of jobs; above it a job would have been better off with its share alone.
local function rho_of(world, jct)
  local slots = world.o.nodes * world.o.slots
  local fair = math.ceil(slots / math.max(world.job_seconds / world.now, 1))
  local list = {}
  for i, job in ipairs(world.jobs) do list[i] = jct[i] / time_alone(world, job, fair) end
  return report.numbers(list)
end

---@param world table of tide.sim.jobs.world, at its end
---@return table result
function report.of(world)
  local jct, waits, by_app, jobs, persons = {}, {}, {}, {}, {}
  local last, resizes, held, used, cancelled = 0, 0, 0, 0, 0
  for i, job in ipairs(world.jobs) do
    jct[i], waits[i] = job.ended - job.submit, (job.first_slot or job.ended) - job.submit
    cancelled = cancelled + (job.cancelled and 1 or 0)
    by_app[job.app.name] = by_app[job.app.name] or {}
    table.insert(by_app[job.app.name], jct[i])
    last, resizes = math.max(last, job.ended), resizes + job.resizes
    held, used = held + job.attained, used + job.used
    persons[job.person] = (persons[job.person] or 0) + job.attained / 3600
    jobs[i] = {name = job.name, person = job.person, cancelled = job.cancelled, submit = job.submit, jct = jct[i],
               wait = waits[i], resizes = job.resizes,
               slot_seconds = job.attained}
  end
  for _, list in pairs(by_app) do report.numbers(list) end
  local contended = {}
  for person, seconds in pairs(world.contended) do contended[person] = seconds / 3600 end
  local first = math.huge
  for _, job in ipairs(world.jobs) do first = math.min(first, job.submit) end
  local rho
  local result = {jct = report.numbers(jct), wait = report.numbers(waits), by_app = by_app, jobs = jobs,
    persons = persons, contended = contended, last = last,
    cancelled = cancelled, makespan = last - first, resizes = resizes / #world.jobs, held_slot_hours = held / 3600,
    used_slot_hours = used / 3600, node_hours = world.node_seconds / 3600, decisions = world.decisions,
    decision_ms = world.decision_s / math.max(world.decisions, 1) * 1000, unfit = world.unfit, faults = world.faults,
    fault = world.fault, policy = world.seat.current.policy.name, curve = world.curve.points}
  return setmetatable(result, {__index = function(_, key)
    if key ~= "rho" then return nil end
    rho = rho or rho_of(world, jct)
    return rho
  end})
end

---- charts --------------------------------------------------------------------------------------------------------

local function points_of(curve, value)
  local points = {}
  for i, p in ipairs(curve) do points[i] = {p.at / 3600, value(p)} end
  return points
end

local function completion(jct)
  local sorted, points = table.move(jct, 1, #jct, 1, {}), {}
  table.sort(sorted)
  for i, v in ipairs(sorted) do points[i] = {v / 3600, i / #sorted} end
  return points
end

---Charts of one or several results: completion times, slots held, statistical efficiency, jobs in the system.
---@param results table[] of report.of, or one
---@return table[] charts for tide.chart
function report.charts(results)
  if results.jct then results = {results} end
  local charts = {
    {title = "Jobs that are done", x = "hours since submission", y = "share of jobs", series = {}},
    {title = "Slots held", x = "hours", y = "share of slots", series = {}},
    {title = "Statistical efficiency", x = "hours", y = "mean over running jobs", series = {}},
    {title = "Jobs in the system", x = "hours", y = "jobs", series = {}},
    {title = "Average completion time", y = "hours", groups = {}, series = {}},
  }
  local apps = {}
  for _, r in ipairs(results) do
    for name in pairs(r.by_app) do apps[name] = true end
  end
  charts[5].groups = text.sorted_keys(apps)
  table.insert(charts[5].groups, 1, "all")
  for i, r in ipairs(results) do
    charts[1].series[i] = {name = r.policy, points = completion(r.jct)}
    charts[2].series[i] = {name = r.policy, points = points_of(r.curve, function(p) return p.held / p.slots end)}
    charts[3].series[i] = {name = r.policy, points = points_of(r.curve, function(p) return p.efficiency end)}
    charts[4].series[i] = {name = r.policy, points = points_of(r.curve, function(p) return p.active end)}
    local values = {r.jct:mean() / 3600}
    for g = 2, #charts[5].groups do
      local list = r.by_app[charts[5].groups[g]]
      values[g] = list and list:mean() / 3600
    end
    charts[5].series[i] = {name = r.policy, values = values}
  end
  return charts
end

return report
