-- What sync policies of a run see and do: how old the rows were that workers read, how long workers waited, and the
-- bound of each table with clocks. Part of live.lua's driver; one seat a table, named as the job names the table.
--
-- A fiber asks the nodes with workers for what their workers have counted; a view has differences of the
-- newest answers and those of some seconds before.
local ask_all = require "tide.ask_all"
local core = require "tide.core"

local sync = {}
sync.__index = sync

local WINDOW_S <const> = 2 -- a view covers so many seconds, or a sample more

---@param consistency string
---@return string "bsp", "ssp" (essp too: they change into each other), ..; with ":flat" if its bound stays
local function model_of(consistency)
  return consistency:match "^%a+":gsub("^essp$", "ssp") .. (consistency:match ":flat$" or "")
end

---@param policies string|table for all tables with clocks, or by table
---@param tables table<string, string> the job's tables: key to name
---@return table<string, string|table> policies by key
---@return string|nil problem
function sync.seats(policies, tables)
  local seats = {}
  local for_all <const> = type(policies) ~= "table" or policies.policy or policies.text
  local keys <const> = for_all and tables or policies
  for key in pairs(keys) do
    local handle <const> = tables[key] and core.table_find(tables[key])
    local clocked <const> = handle and handle:consistency() ~= "sequential"
    if clocked then
      seats[key] = for_all and policies or policies[key]
    elseif not for_all then
      return seats, ("a sync policy for `%s`: %s"):format(tostring(key),
        handle and "it is sequential and has no bound" or "the job has no such table")
    end
  end
  if next(seats) == nil then return seats, "a sync policy, but the job has no table with clocks" end
  return seats
end

---@param controller table of tide.controller
---@param keys string[] the tables with seats, as the job names them
---@param period_s number seconds between two samples
---@param tell fun(text: string) a line for the run's log
function sync.new(controller, keys, period_s, tell)
  local self = setmetatable({nodes = controller.a.nodes, tell = tell, tables = {}, list = {}}, sync)
  for i, key in ipairs(keys) do
    local name <const> = controller.a.tables[key]
    local t = {id = i, key = key, name = name, consistency = core.table_find(name):consistency(), answers = {}}
    self.tables[key], self.list[i] = t, t
  end
  self.fiber = core.fiber(function()
    while not self.closed do
      self:sample()
      core.sleep(period_s)
    end
  end)
  return self
end

---- measuring -----------------------------------------------------------------------------------------------------

function sync:sample()
  local names = {}
  for i, t in ipairs(self.list) do names[i] = t.name end
  local ids, agents = {}, {}
  for _, node in ipairs(self.nodes) do
    if node.workers > 0 and not node.lost then ids[#ids + 1], agents[#agents + 1] = node.id, node.agent end
  end
  local timeout <const> = {timeout_s = core.limit "policy_ask_timeout"}
  for i, answer in pairs((ask_all(agents, {op = "staleness", tables = names}, timeout))) do
    for _, t in ipairs(self.list) do
      local answers = t.answers[ids[i]] or {}
      t.answers[ids[i]] = answers
      answers[#answers + 1] = {at = answer.now, workers = answer.tables[t.name] or {}}
      while #answers > 2 and answers[2].at <= answer.now - WINDOW_S do table.remove(answers, 1) end
    end
  end
  self.measured_at = core.now()
end

local function waited(w) return w.waited_s + w.clock_s + w.stopped_s end

local NOTHING <const> = {hist = {}, waited_s = 0, clock_s = 0, stopped_s = 0, clocks = 0}

---What the table's workers did in the window: hist of all pulls; by worker the share of its time that it waited, and
---the seconds of a clock.
local function window(t)
  local hist, wait, clock_s = {}, {}, {}
  for _, answers in pairs(t.answers) do
    local old <const>, new <const> = answers[1], answers[#answers]
    local before <const>, seconds <const> = {}, new.at - old.at
    for _, w in ipairs(old.workers) do before[w.worker] = w end
    for _, w in ipairs(seconds > 0 and new.workers or {}) do
      local was <const> = before[w.worker] or NOTHING
      for k, n in ipairs(w.hist) do
        for i = #hist + 1, k do hist[i] = 0 end
        hist[k] = hist[k] + n - (was.hist[k] or 0)
      end
      wait[w.worker] = math.min(1, (waited(w) - waited(was)) / seconds)
      if w.clocks > was.clocks then clock_s[w.worker] = seconds / (w.clocks - was.clocks) end
    end
  end
  return hist, wait, clock_s
end

---- the view ------------------------------------------------------------------------------------------------------

---@param hist integer[]
---@return table|nil {mean, var, p99, max, hist, pulls}: ages in clocks, positive; nil: none was read
local function moments(hist)
  local pulls, sum, squares = 0, 0, 0
  for k, n in ipairs(hist) do pulls, sum, squares = pulls + n, sum + k * n, squares + k * k * n end
  if pulls == 0 then return nil end
  local s, seen = {hist = hist, pulls = pulls, mean = sum / pulls}, 0
  s.var = squares / pulls - s.mean ^ 2
  for k, n in ipairs(hist) do
    seen = seen + n
    if n > 0 then s.max = k end
    if not s.p99 and seen >= 0.99 * pulls then s.p99 = k end
  end
  return s
end

---Adds the table, how old the rows were that its workers read, and its waiters.
---@param view table
---@param scope string
---@param want table<string, boolean> signals
function sync:fill(view, scope, want)
  local t <const> = self.tables[scope]
  view.table = {id = t.id, name = t.key, consistency = t.consistency}
  if not want["table.staleness"] then return end
  local hist <const>, wait <const>, clock_s <const> = window(t)
  view.staleness, view.waits = moments(hist), {}
  for _, w in ipairs(view.workers) do view.waits[w.id], w.clock_s = wait[w.id], clock_s[w.id] end
  view.age["table.staleness"] = self.measured_at and core.now() - self.measured_at or nil
end

---- doing ---------------------------------------------------------------------------------------------------------

---@return true|nil, string? why
function sync:apply(scope, action)
  local t <const> = self.tables[scope]
  if action.field ~= "consistency" then return nil, ("a run cannot carry out `%s` here"):format(action.field) end
  if model_of(action.value) ~= model_of(t.consistency) then
    return nil, ("table `%s` keeps its model: %s cannot become %s"):format(scope, t.consistency, action.value)
  end
  for _, node in ipairs(self.nodes) do
    if node.workers > 0 and not node.lost then
      local before <const> = t.consistency
      t.consistency = action.value
      core.fiber(function()
        local ok, err = core.call(node.agent, {op = "consistency", table = t.name, value = action.value},
          core.limit "policy_ask_timeout")
        if not ok then
          t.consistency = before
          self.tell(("table `%s` keeps %s: %s"):format(scope, before, err.message))
        end
      end)
      return true
    end
  end
  return nil, "no node with workers is left"
end

function sync:close() self.closed = true end

return sync
