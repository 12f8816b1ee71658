-- Where the time of a run's workers goes, as their controller sees it. Methods of tide.controller.
--
-- A worker that comes to a meeting waits from its arrival until the meeting passes: for the others until the last one
-- is there, then, in a report, for on_report, the policies and the driver that has the report in hand. A worker that
-- reports says how long it has worked since the answer to its former report, and how long of that it waited in
-- meetings; what is between two arrivals and is neither is the report itself with its messages.
--
-- All sums grow during a run, in seconds. Nothing is counted where workers compute.
local core = require "tide.core"
local pieces = require "tide.pieces"
local report = require "tide.report"

local methods <const>, from_driver <const> = {}, {}
local figures = {methods = methods, from_driver = from_driver}

local WORKERS_MAX <const> = 1024

---@class tide.run_figures
---@field name string of the run, "mf-1"
---@field job string
---@field run string id of the run
---@field script? boolean of a script without a job: it has no workers
---@field state string
---@field why? string
---@field elapsed_s number since the workers began
---@field reports integer
---@field examples number
---@field examples_per_s? number of the last seconds
---@field loss? number of the newest report, an example
---@field layers? table[] {layer =, of = "values"|"gradient"|"weights", mean =, std =, max =, zeros =, bad =} of nets
---@field on_report_s number spent in the job's on_report
---@field policies_s number spent in the decisions of policies
---@field tables string[] their names in the cluster
---@field workers {rank: integer, node: string, state: string, waits: table<string, number>, reports: integer,
---  work_s: number, told_wait_s: number, compute_s?: number, exchange_s?: number}[] waits: by what for: report, driver,
---  barrier, chunk
---@field workers_left_out? integer beyond the first 1,024
---@field chunks? {pass: integer, pieces: integer, redone: integer}
---@field policies table[] {seat, policy, version, decisions, actions, faults}

local function new_times()
  return {report = 0, driver = 0, barrier = 0, chunk = 0}
end

-- A worker's wait lasts until `now`: added to `into`.
local function add_wait(into, at, now)
  if not at or not at.since or at.async then return end
  if at.kind == "report" then
    local complete <const> = at.complete_at or now
    into.report = into.report + math.max(complete - at.since, 0)
    into.driver = into.driver + math.max(now - complete, 0)
  else
    into[at.kind] = into[at.kind] + math.max(now - at.since, 0)
  end
end

---What the worker waits for has come, or will not be waited for any more.
function methods.count_wait(_, w)
  w.times = w.times or new_times()
  add_wait(w.times, w.waits, core.now())
end

---A report of a worker has come: {elapsed_s, wait_s} as it says.
function methods.count_report(_, w, m)
  local now <const> = core.now()
  local told <const> = w.told or {work_s = 0, wait_s = 0, reports = 0}
  w.told = told
  local elapsed <const>, waited <const> = m.elapsed_s or 0, math.min(m.wait_s or 0, m.elapsed_s or 0)
  told.work_s, told.wait_s, told.reports = told.work_s + elapsed - waited, told.wait_s + waited, told.reports + 1
  if told.at then told.wait_s = told.wait_s + math.max(now - told.at - elapsed, 0) end
  if type(m.fields.compute_s) == "number" then told.compute_s = (told.compute_s or 0) + m.fields.compute_s end
  if type(m.fields.comm_wait_s) == "number" then told.exchange_s = (told.exchange_s or 0) + m.fields.comm_wait_s end
  told.at = now
end

local function of_worker(w, now)
  local times <const> = new_times()
  for kind, seconds in pairs(w.times or {}) do times[kind] = seconds end
  add_wait(times, w.waits, now)
  local told <const> = w.told or {work_s = 0, wait_s = 0, reports = 0}
  return {rank = w.rank, node = w.node.name, state = w.state, waits = times, reports = told.reports,
          work_s = told.work_s, told_wait_s = told.wait_s, compute_s = told.compute_s, exchange_s = told.exchange_s}
end

local OF <const> = {values = 1, gradient = 2, weights = 3}
local STATISTICS <const> = {mean = true, std = true, max = true, zeros = true, bad = true}
local LAYERS_MAX <const> = 96

-- Statistics of layers that a report has (nn.job {watch = true}): `fc1.values_std`. By name of the layer; nil: none.
local function layers_of(last)
  local by_name, list = {}, {}
  for key, number in pairs(last) do
    local layer, of, what = key:match "^(.+)%.(%l+)_(%l+)$"
    if layer and OF[of] and STATISTICS[what] and type(number) == "number" then
      local name <const> = layer .. "." .. of
      if not by_name[name] and #list < LAYERS_MAX then
        by_name[name] = {layer = layer, of = of}
        list[#list + 1] = by_name[name]
      end
      if by_name[name] then by_name[name][what] = number end
    end
  end
  table.sort(list, function(a, b) return a.layer < b.layer or a.layer == b.layer and OF[a.of] < OF[b.of] end)
  return #list > 0 and list or nil
end

---@return tide.run_figures
function methods:figures()
  local now <const> = core.now()
  local state <const>, why <const> = self:run_state()
  local begun <const> = not self:is_starting()
  local f <const> = {name = self.a.number and ("%s-%d"):format(self.a.job, self.a.number) or self.a.job,
    job = self.a.job, run = self.a.run, state = state, why = why, reports = self.clock,
    elapsed_s = begun and now - self.started_at or 0,
    examples = self.done_examples + (self.partial.examples or 0), loss = report.value(self.last or {}, "loss"),
    examples_per_s = self.told_rate, on_report_s = self.on_report_s or 0, policies_s = self.policies_s or 0,
    layers = layers_of(self.last or {}), tables = {}, workers = {},
    policies = self.policies and self.policies:brief() or {}}
  for _, name in pairs(self.a.tables) do f.tables[#f.tables + 1] = name end
  table.sort(f.tables)
  for i, w in ipairs(self.workers) do
    if i > WORKERS_MAX then
      f.workers_left_out = #self.workers - WORKERS_MAX
      break
    end
    f.workers[i] = of_worker(w, now)
  end
  if self.chunks then
    f.chunks = {pass = self.chunks.pass, pieces = self.chunks.pieces, redone = self.chunks.redone}
  end
  return f
end

---How the run is and where its workers' time goes: {} -> {data = encoded figures}.
function from_driver.metrics(self) return {data = pieces.of(core.encode(self:figures()))} end

return figures
