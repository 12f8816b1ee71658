-- `tide.trials`: one job with many params, as many at once as the cluster has slots for. The guide is
-- docs/guides/run-history.md.
--
-- Search: all combinations (grid), draws (random), or draws of which the poor ones are stopped early (halving):
-- asynchronous successive halving in its stopping form (Li et al., A System for Massively Parallel Hyperparameter
-- Tuning, 2020). A trial that comes to rung k, after min_reports * eta^k reports, continues if it is among the best
-- 1/eta of all that have come there so far, itself included; none waits for others.
local checks = require "tide.checks"
local core = require "tide.core"
local errors = require "tide.errors"
local json = require "tide.json"
local report_of = require "tide.report"
local run_params = require "tide.run.params"
local script = require "tide.script"
local table_view = require "tide.show.table_view"
local text = require "tide.text"

local trials = {}

local TRIALS_MAX <const> = 10000
---@type tide.declared[]
local ROWS <const> = {
  {name = "cluster", type = "table", required = true, doc = "what tide.cluster gave"},
  {name = "job", type = "table", required = true, said = "tide.job", doc = "what tide.job gave"},
  {name = "space", type = "table", required = true, said = "table<string, any>", doc = "values of params by name"},
  {name = "search", type = "string", choices = {"grid", "random", "halving"}, default = "grid",
   doc = "all combinations (grid), draws, or draws of which the poor ones are stopped early"},
  {name = "count", type = "integer", min = 1, max = TRIALS_MAX, doc = "how many trials random and halving make"},
  {name = "parallel", type = "integer", min = 1, doc = "trials at a time (default: as the cluster has slots)"},
  {name = "slots", type = "integer", min = 1, doc = "of each (default: the job's `workers`, else 1)"},
  {name = "metric", type = "string", doc = "a number of the reports (loss)"},
  {name = "goal", type = "string", choices = {"min", "max"}, default = "min", doc = "which is better (min)"},
  {name = "reports", type = "integer", min = 1, doc = "after how many reports of all workers a trial is done"},
  {name = "min_reports", type = "integer", min = 1, default = 1, doc = "halving: before the first look (1)"},
  {name = "eta", type = "integer", min = 2, default = 3, doc = "halving: one of so many continues (3)"},
  {name = "seed", type = "integer", min = 0, doc = "of the draws"},
  {name = "record", type = "string", doc = "a file that keeps what is done, from which the search continues"},
  {name = "score", type = "function", said = "fun(run, report): number", doc = "in place of `metric`"},
}

local function fail(message, help) error(script.error("T0113", "tide.trials: " .. message, {help = help}), 4) end

---- the space --------------------------------------------------------------------------------------------------------

local range = {}
range.__index = range

local function new_range(what, low, high, draw)
  if type(low) ~= "number" or type(high) ~= "number" or low ~= low or high ~= high or low >= high then
    error(script.error("T0113", ("tide.trials.%s requires two numbers, the smaller one first"):format(what)), 3)
  end
  return setmetatable({low = low, high = high, draw = draw}, range)
end

---A number between two, each as likely.
---@param low number
---@param high number
function trials.uniform(low, high)
  return new_range("uniform", low, high, function(u) return low + (high - low) * u end)
end

---A number between two whose logarithm is drawn: for rates.
---@param low number above 0
---@param high number
function trials.log_uniform(low, high)
  if type(low) == "number" and low <= 0 then
    error(script.error("T0113", "tide.trials.log_uniform requires numbers above 0"), 2)
  end
  return new_range("log_uniform", low, high, function(u) return low * (high / low) ^ u end)
end

---A whole number from low to high, both included.
---@param low integer
---@param high integer
function trials.whole(low, high)
  return new_range("whole", low, high, function(u)
    return math.min(math.floor(low + (high - low + 1) * u), high) // 1 | 0
  end)
end

local function is_list(values)
  if type(values) ~= "table" then return false end
  local count = 0
  for _ in pairs(values) do count = count + 1 end
  local length = 0
  for _ in ipairs(values) do length = length + 1 end
  return count > 0 and count == length
end

local function check_space(o)
  if type(o.space) ~= "table" or next(o.space) == nil then
    fail("`space` is a table of params: {rate = {0.1, 0.2}, rank = tide.trials.whole(8, 64)}")
  end
  for name, values in pairs(o.space) do
    if (o.job.params or {})[name] == nil then
      fail(("job `%s` has no param `%s`"):format(o.job.name, tostring(name)),
        text.did_you_mean(name, text.sorted_keys(o.job.params or {})) or "name it in the job's `params`")
    end
    local is_range <const> = getmetatable(values) == range
    if not is_range and not is_list(values) then
      fail(("`space.%s` is a list of values, or tide.trials.uniform, log_uniform or whole"):format(name))
    elseif is_range and o.search == "grid" then
      fail(("a grid has lists of values: `space.%s` is a range"):format(name), 'search = "random" draws from it')
    end
    for _, value in ipairs(is_range and {values.low, values.high} or values) do
      local ok, err = run_params.check({[name] = value}, o.job.params)
      if not ok then fail(("`space`: %s"):format(err.message), err.help) end
    end
  end
end

-- All combinations, the last name turning fastest.
local function grid(space)
  local names <const>, list = text.sorted_keys(space), {{}}
  for _, name in ipairs(names) do
    local longer = {}
    for _, params in ipairs(list) do
      for _, value in ipairs(space[name]) do
        local more = {}
        for k, v in pairs(params) do more[k] = v end
        more[name] = value
        longer[#longer + 1] = more
      end
    end
    list = longer
    if #list > TRIALS_MAX then fail(("the grid has more than %d points"):format(TRIALS_MAX)) end
  end
  return list
end

local function draws(space, count, seed)
  local rng <const>, names <const>, list = core.random(seed), text.sorted_keys(space), {}
  for i = 1, count do
    local params = {}
    for _, name in ipairs(names) do
      local values <const> = space[name]
      params[name] = getmetatable(values) == range and values.draw(rng:uniform()) or values[rng:below(#values) + 1]
    end
    list[i] = params
  end
  return list
end

local function is_finite(score) return type(score) == "number" and score - score == 0 end

---- records ----------------------------------------------------------------------------------------------------------

---What makes two trials the same: their job, their params, and how they are judged.
local function key_of(o, number, params)
  return core.sha256(core.json_encode {o.job.name, number, run_params.printable(params), o.metric, o.reports or 0})
    :sub(1, 16)
end

-- Trials that an earlier run of the sweep has finished, by key.
local function load_record(path)
  local known = {}
  if not path or core.simulated() then return known end
  for _, row in ipairs(json.lines(core.file_read(path))) do
    local whole <const> = row.schema == "tide.trial/1" and type(row.key) == "string"
    if whole and (row.state == "failed" or is_finite(row.score)) then known[row.key] = row end
  end
  return known
end

local function keep(o, row, key)
  if not o.record or core.simulated() then return end
  local file <const>, why = io.open(o.record, "a+")
  local ok = file
  if file then
    local line = {schema = "tide.trial/1", key = key}
    for k, v in pairs(row) do line[k] = v end
    line.params = run_params.printable(row.params)
    local cut <const> = file:seek("end", 0) > 0 and file:seek("end", -1) and file:read(1) ~= "\n" -- by a kill, say
    ok, why = file:write(cut and "\n" or "", core.json_encode(line), "\n")
    local closed <const>, problem = file:close()
    if not closed then ok, why = nil, problem end
  end
  if not ok then
    error(errors.new("T0403", {message = ("the record of trials cannot be written: %s"):format(tostring(why)),
      where = o.record}), 0)
  end
end

---- one trial --------------------------------------------------------------------------------------------------------

local function better(o, a, b)
  if o.goal == "max" then return a > b end
  return a < b
end

-- Is it among the best 1/eta of those that have come to this rung?
local function goes_on(o, rungs, reports, score)
  if o.search ~= "halving" then return true end
  local rung = o.min_reports
  while rung < reports do rung = rung * o.eta end
  if rung ~= reports or reports >= o.reports then return true end
  rungs[rung] = rungs[rung] or {}
  local scores <const> = rungs[rung]
  scores[#scores + 1] = score
  local ahead = 0
  for _, other in ipairs(scores) do ahead = ahead + (better(o, other, score) and 1 or 0) end
  return ahead < math.ceil(#scores / o.eta)
end

local function note_rungs(o, rungs, row)
  local rung = o.min_reports
  for _, score in ipairs(row.rungs or {}) do
    rungs[rung] = rungs[rung] or {}
    table.insert(rungs[rung], score)
    rung = rung * o.eta
  end
end

-- Takes the score of a report into the row.
---@return boolean whether the trial continues
local function judge(o, rungs, row, score)
  if type(score) ~= "number" then
    error(script.error("T0113", o.score and "`score` of tide.trials gives a number"
      or ("the reports of job `%s` have no number `%s`"):format(o.job.name, o.metric),
      {help = not o.score and "metric = names one that w:report gives" or nil}), 0)
  end
  row.reports = row.reports + 1
  if not is_finite(score) then
    row.why = ("the score of report %d is %s"):format(row.reports, score == score and score or "NaN")
    return false
  end
  row.score = score
  row.best = (row.best == nil or better(o, score, row.best)) and score or row.best
  local stays <const> = goes_on(o, rungs, row.reports, score)
  if not stays then row.state = "stopped" end
  if o.search == "halving" and row.reports < o.reports then
    local rung = o.min_reports
    while rung < row.reports do rung = rung * o.eta end
    if rung == row.reports then
      row.rungs = row.rungs or {}
      table.insert(row.rungs, score)
    end
  end
  return stays
end

-- Runs the job until it is done, has made its reports, or is stopped as a poor one. A run that reaches its reports has
-- done what it should.
local function play(o, params, rungs, row)
  local run <close> = o.cluster:start(o.job, params, {slots = o.slots})
  run.bar:remove() -- the sweep has one for all
  row.run = run.id
  local ended = false
  for report in run:events "report" do
    if not ended then
      local score <const> = o.score and o.score(run, report) or not o.score and report_of.value(report, o.metric) or nil
      local stays <const> = judge(o, rungs, row, score)
      local complete <const> = stays and o.reports ~= nil and row.reports >= o.reports
      if complete then run:stop "reports" elseif not stays then run:stop() end
      ended = complete or not stays
    end
  end
  if row.why or row.state == "stopped" then return end
  local state <const>, why = run:state()
  if state == "stopped" then
    row.why = "the run was stopped: " .. (why or "on request")
  elseif row.score == nil then
    row.why = "it made no report"
  else
    row.state = "done"
  end
end

local function run_trial(o, number, params, rungs)
  local row <const> = {trial = number, params = params, state = "failed", reports = 0}
  local began <const> = core.now()
  local ok, err = xpcall(play, script.failure, o, params, rungs, row)
  if o.cluster.context.interrupted then -- ends the sweep; what this trial has done so far counts for nothing
    error(errors.new("T0210", {message = ("interrupted in trial %d"):format(number),
      state = o.record and "the trials that are done are kept in " .. o.record or nil}), 0)
  end
  if not ok then
    local failure <const> = errors.from(err)
    if failure.code == "T0210" then error(failure, 0) end
    row.state, row.why = "failed", failure.message
  end
  if row.state == "failed" then row.score, row.best, row.rungs = nil, nil, nil end
  row.took_s = core.now() - began
  return row
end

---- the sweep --------------------------------------------------------------------------------------------------------

---@class tide.trials.result
---@field rows {trial: integer, params: table, state: string, score?: number, best?: number, reports: integer,
---  run?: string, why?: string, took_s: number}[] in the order of the trials
---@field best table the row with the best score
local result = {}
result.__index = result

local function printable(self)
  local columns, names, rows = {{key = "trial"}}, {}, {}
  for name in pairs(self.space) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do columns[#columns + 1] = {key = name} end
  for _, c in ipairs {{key = "state"}, {key = "reports"}, {key = self.metric, right = true}, {key = "best_mark",
    title = ""}} do
    columns[#columns + 1] = c
  end
  for i, row in ipairs(self.rows) do
    local shown = {trial = row.trial, state = row.state, reports = row.reports, [self.metric] = row.score,
                   best_mark = row == self.best and "<- best" or ""}
    for _, name in ipairs(names) do shown[name] = row.params[name] end
    rows[i] = shown
  end
  return rows, columns
end

---All trials, for print.
---@return table printable one row a trial; .rows has the values
function result:table()
  local rows <const>, columns <const> = printable(self)
  return setmetatable({rows = rows}, {__tostring = function()
    return table.concat(table_view.lines(rows, columns, {width = 120}), "\n")
  end})
end

function result:__tostring() return tostring(self:table()) end

local function settings(given)
  local o <const> = checks.options("tide.trials", ROWS, given)
  if not o.cluster.start then fail "`cluster` is what tide.cluster gave" end
  if not o.job.check_upvalues then fail "`job` is what tide.job gave" end
  check_space(o)
  o.metric = o.metric or (o.score and "score" or "loss")
  o.slots = o.slots or math.tointeger(o.job.workers) or 1
  o.seed = o.seed or script.api.seed
  if o.search == "halving" and not o.reports then
    fail "halving requires `reports`, after how many reports of all workers a trial is done"
  elseif o.search ~= "grid" and not o.count then
    fail(("`count` says how many trials %s makes"):format(o.search))
  elseif o.search == "grid" and o.count then
    fail "a grid has as many trials as its space has points: `count` is for random and halving"
  end
  local total = 0
  for _, node in ipairs(o.cluster:agents()) do total = total + (node.workers or 0) end
  if o.slots > total then fail(("a trial has %d slots, the cluster %d"):format(o.slots, total)) end
  o.parallel = math.min(o.parallel or math.maxinteger, total // o.slots)
  return o
end

---Runs a job once for each point of a space of params.
---@param given {cluster: table, job: tide.job, space: table<string, any>, search?: "grid"|"random"|"halving",
---  count?: integer, parallel?: integer, slots?: integer, metric?: string, goal?: "min"|"max", reports?: integer,
---  min_reports?: integer, eta?: integer, seed?: integer, record?: string, score?: fun(run, report): number}
---@return tide.trials.result
local function sweep(_, given)
  local o <const> = settings(given)
  local list <const> = o.search == "grid" and grid(o.space) or draws(o.space, o.count, o.seed)
  if #list == 0 then fail "there is nothing to try" end
  local known <const>, rungs, rows = load_record(o.record), {}, {}
  local todo, resumed = {}, 0
  for i, params in ipairs(list) do
    local row <const> = known[key_of(o, i, params)]
    if row and row.state ~= "failed" then
      row.schema, row.key, row.params = nil, nil, params
      rows[i], resumed = row, resumed + 1
      note_rungs(o, rungs, row)
    else
      todo[#todo + 1] = i
    end
  end
  local say <const> = function(line) o.cluster.context.progress:say(line) end
  if resumed > 0 then say(("tide: %d of %d trials are done already (%s)"):format(resumed, #list, o.record)) end
  local bar <const> = o.cluster.context.progress:add {name = "trials", total = #list, unit = "trials"}
  local at, done = 0, resumed
  local function work()
    while at < #todo do
      at = at + 1
      local i <const> = todo[at]
      local row <const> = run_trial(o, i, list[i], rungs)
      rows[i] = row
      keep(o, row, key_of(o, i, list[i]))
      done = done + 1
      bar:update(done)
      if row.state == "failed" then say(("tide: trial %d failed: %s"):format(i, tostring(row.why))) end
    end
  end
  local hands = {}
  for h = 1, math.min(o.parallel, #todo) do hands[h] = work end
  script.api.all(hands)
  bar:finish()
  local self <const> = setmetatable({rows = rows, space = o.space, metric = o.metric, goal = o.goal}, result)
  for _, row in ipairs(rows) do
    if row.state ~= "failed" and (not self.best or better(o, row.score, self.best.score)) then
      self.best = row
    end
  end
  if not self.best then
    error(errors.new("T0513", {message = ("none of %d trials finished; the first: %s"):format(#rows,
      tostring(rows[1].why)), exit = 1}), 2)
  end
  return self
end

return setmetatable(trials, {__call = sweep})
