-- tide.multitask: linear tasks that are learned together with the relation between them. The guide is
-- docs/guides/multitask.md.
local descent = require "tide.descent"
local ending = require "tide.descent.ending"
local kernels = require("tide.package").kernels
local package = require "tide.package"
local problem = require "tide.multitask.problem"
local relation = require "tide.multitask.relation"
local solver = require "tide.multitask.solver"
local team = require "tide.team"
local tensor = require "tide.tensor"
local tide = require "tide"

local multitask = {}

local TASKS_MOST <const> = 2048
local STARTS <const> = {0, 0.5, 0.9}
local INNER <const>, ROUNDS_MOST <const> = 1e-3, 200
local LEAST_LAMBDA <const> = 1e-14 -- beside the curvature of the loss: f64 cannot distinguish less from 0
local STILL <const> = 1e-4 -- an outer step that lowers the objective less, as a share, is the last

local function fail(message, help) error(package.error("T0203", message, {help = help}), 0) end

---- the job's part -------------------------------------------------------------------------------------------------

---@class tide.multitask.part: tide.team.part
local part = {}
part.__index = part

---What is tried: {start = c or false for the relation that is given, lambda =, steps = outer steps at most}.
local function trials_of(o)
  local list = {}
  local kind <const> = o.kind
  local starts <const> = kind == "auto" and STARTS or {o.start or false}
  for _, c in ipairs(starts) do
    for _, lambda in ipairs(o.lambdas) do
      list[#list + 1] = {start = c, lambda = lambda, steps = (kind == "auto" or kind == "learned") and o.steps or 0}
    end
  end
  return list
end

function part.new(w, t, o)
  local p <const> = problem.new(o)
  if p.m > TASKS_MOST then fail(("%d tasks are more than %d, whose relation is kept"):format(p.m, TASKS_MOST)) end
  local self <const> = setmetatable({w = w, team = t, o = o, p = p, solver = solver.new(t, p, o), round = 0, trial = 1,
                                     outer = 0, results = {}}, part)
  self.trials = trials_of(o)
  if p.m == 1 then self.trials = trials_of(setmetatable({kind = "fixed", start = 0}, {__index = o})) end
  if #self.trials == 1 and self.trials[1].steps == 0 or o.kind == "learned" and #o.lambdas == 1 then
    self:begin_last(self.trials[1], nil)
  end
  return self
end

---The relation that a trial begins with.
function part:start_of(trial)
  if trial.start then return relation.mean(self.p.m, trial.start) end
  return relation.given(self.o.relation, self.p.m)
end

---All but the relation and the dual variables, which tables have.
function part:kept()
  return {round = self.round, trial = self.trial, outer = self.outer, results = self.results,
          best = self.best or false, last = self.last or false, due = self.due or false, before = self.before or false,
          worse = self.worse or 0, validated = self.validated or false, relates = self.solver.S ~= nil}
end

function part:state()
  local s <const> = self:kept()
  s.S = self.solver.S or false
  return s
end

function part:adopt(s)
  self.round, self.trial, self.outer, self.results = s.round, s.trial, s.outer, s.results
  self.solver.S, self.best, self.last, self.due = s.S or nil, s.best or nil, s.last or nil, s.due or nil
  self.before, self.worse, self.validated = s.before or nil, s.worse, s.validated or nil
  self.solver.all = self.last ~= nil
end

---The state of a checkpoint.
function part:fetch(s)
  local tables <const>, m <const> = self.w.tables, self.p.m
  s.S = s.relates and descent.load(tables.covariance, m * m):view(1, m, m) or false
  self:adopt(s)
  self.solver.a:put(1, (descent.load(tables.dual, self.p.n)))
  self.solver.fetched = true
end

---What a resumed run makes anew, so that both continue with the same bits.
function part:refresh() self.solver:refresh() end

function part:digest() return self.p:digest() end

---Which tasks are left out is the run's, `run:set {without = {..}}`: all get it with the answers to a report.
local function without(self) return table.concat(self.w.params.without or {}, " ") end

function part:divide()
  self.solver:share()
  self.p:leave_out(self.w.params.without)
  self.left_out = without(self)
  if self.p.constant and #self.p.constant > 0 and self.team.index == 1 and not self.noted then
    self.noted = true
    self.w:log(ending.constant(self.p.constant, self.p.columns))
  end
  if self.team.others then self.solver.so_far = nil end -- some may have come one round further
  self.solver.all = self.last ~= nil
  self.solver:deal()
end

---All examples are taken from now on.
function part:begin_last(trial, steps)
  self.last = {start = trial.start, lambda = trial.lambda, steps = steps or trial.steps}
  self.outer, self.before, self.solver.S = 0, nil, nil
end

---The first rank makes S: other processors may give other bits.
local function learn(self)
  local matrix <const> = self.solver:products()
  local S, values
  if self.team.index == 1 then S, values = relation.learned(matrix) end
  local told <const> = self.team:gather("relation", S and {S = S, values = values} or false)[1]
  return told.S, told.values
end

---A solution whose gap is above the tolerance: said once, and an error where the script asked for the tolerance.
---@return boolean whether the run ends without its tolerance
function part:end_early(r, tolerance)
  local final <const> = self.last and self.outer >= self.last.steps
  if not r.still and final and self.o.asked then
    fail(("tolerance %.3g is not reached: after %d rounds of %s the gap is %.3g, %.3g of the objective"):format(
      tolerance, r.rounds, self.o.solver, r.primal - r.dual, (r.primal - r.dual) / math.abs(r.primal)),
      "more `rounds` or larger `lambdas`; without `tolerance` the run ends with a warning")
  end
  if self.team.index == 1 and (final or not self.warned) then
    self.warned = true
    self.w:log(ending.unmet(r.still and ending.STILL or ("%d rounds end"):format(r.rounds), tolerance,
      r.primal - r.dual, r.primal))
  end
  return final and not r.still
end

-- Tasks go or come: what was tried was tried with others.
local function begin_anew(self)
  self.round, self.outer, self.before, self.team.changed = self.round + 1, 0, nil, true
  if not self.last then self.trial, self.results, self.best, self.validated, self.worse = 1, {}, nil, nil, 0 end
  self.solver.so_far = nil
end

-- What is reported of a relation that was solved for.
local function report_of(self, trial, r, unmet)
  local fields <const> = {trial = self.trial, outer = self.outer, lambda = trial.lambda, start = trial.start or nil,
    primal = r.primal, dual = r.dual, gap = r.primal - r.dual, rounds = r.rounds, rho = r.rho,
    final = self.last and 1 or 0, unmet = unmet and 1 or nil,
    least_made = r.least_made ~= math.huge and r.least_made or nil}
  for k = 1, r.rounds do
    if (r.trace[k] or math.huge) <= 1e-3 * r.primal and not fields.rounds_3 then fields.rounds_3 = k - 1 end
  end
  return fields
end

-- A trial by its validation: whether it got worse twice.
local function judge(self, trial, fields)
  local e <const> = self.solver:errors "validate"
  if e.count == 0 then fail "nothing validates: tasks have too few examples, give one lambda and a relation" end
  local validated <const> = self.p.loss == "squared" and math.sqrt(e.squares / e.count) or 1 - e.correct / e.count
  fields.validated = validated
  self.worse = self.validated and validated >= self.validated and (self.worse or 0) + 1 or 0
  self.validated = validated
  self.results[#self.results + 1] = {start = trial.start, lambda = trial.lambda, outer = self.outer,
                                     validated = validated}
  if not self.best or validated < self.best.validated then
    self.best = {trial = self.trial, outer = self.outer, validated = validated}
  end
  return self.worse >= 2
end

-- Behind a trial that has ended: the next one, the last one, or the end of the run.
---@return boolean whether it is the end
local function next_trial(self, fields)
  local s <const> = self.solver
  if self.last then
    for _, name in ipairs {"train", "test"} do
      local e <const> = s:errors(name)
      if e.count > 0 then
        fields[name .. "_rmse"], fields[name .. "_right"] = math.sqrt(e.squares / e.count), e.correct / e.count
      end
    end
    return true
  elseif self.trial < #self.trials then
    self.trial, self.outer, self.before, self.validated, self.worse, s.S = self.trial + 1, 0, nil, nil, 0, nil
  else
    self:begin_last(self.trials[self.best.trial], self.best.outer)
    fields.best_lambda, fields.best_outer = self.last.lambda, self.last.steps
    fields.best_start = self.last.start or nil
    self.team.changed = true -- the examples are divided anew: all of them
  end
  return false
end

---One relation solved for, and what follows: the next relation, the next trial, or the end.
function part:advance()
  if without(self) ~= self.left_out then return begin_anew(self) end
  local s <const>, o <const> = self.solver, self.o
  local trial <const> = self.last or self.trials[self.trial]
  s.S = s.S or self:start_of(trial)
  s.lambda = trial.lambda
  local began <const> = tide.now()
  local tolerance = INNER
  if self.last and self.outer >= trial.steps then tolerance = o.tolerance end
  local r <const> = s:solve(math.max(tolerance, o.tolerance), o.rounds)
  if not r then -- the examples are divided anew, by speed
    self.solved_s = (self.solved_s or 0) + tide.now() - began
    return
  end
  local solve_s <const> = (self.solved_s or 0) + tide.now() - began
  self.solved_s = nil
  local unmet <const> = not r.met and self:end_early(r, math.max(tolerance, o.tolerance))
  local fields <const> = report_of(self, trial, r, unmet)
  local worse <const> = not self.last and judge(self, trial, fields)
  local change <const> = self.before and (self.before - r.primal) / math.max(math.abs(self.before), 1e-300)
  local ended <const> = worse or self.outer >= trial.steps or change and change < STILL and tolerance == INNER
  local due <const> = {alike = fields, fields = {solve_s = solve_s}}
  if self.last and ended and self.outer < trial.steps then -- settled: once more, to the end
    trial.steps = self.outer
  elseif ended then
    due.last = next_trial(self, fields)
  else
    local S <const>, values <const> = learn(self)
    for k = 1, math.min(#(values or {}), 5) do fields["eigenvalue_" .. k] = values[k] end
    s.S, self.outer, self.before = S, self.outer + 1, r.primal
  end
  self.round, self.due = self.round + 1, due
end

---Parameters and covariance into tables: rows of own tasks; the covariance in ranges.
function part:store(t, last)
  local s <const>, p <const>, tables <const> = self.solver, self.p, self.w.tables
  for i, u in ipairs(s.own) do
    if u.head then
      local row <const> = tensor.zeros("f32", 1, p.d)
      for k = 1, p.d do row[k] = s.w[(i - 1) * p.d + k] end
      tables.w:push({u.task - 1}, row)
    end
  end
  if not self.last then last = nil end -- while it chooses there is no model
  if s.S then descent.store(t, tables.covariance, s.S:view(1, p.m * p.m, 1), last) end
  if tables.dual then
    s:share()
    descent.store(t, tables.dual, s.a)
  end
end

---- what users write -----------------------------------------------------------------------------------------------

local KNOWN <const> = {
  name = true, data = true, loss = true, relation = true, lambdas = true, standardise = true, bias = true,
  tolerance = true, solver = true, validate = true, seed = true, smooth = true, passes = true, deadline = true,
  steps = true, rounds = true, rho = true, start = true, checkpoint = true, without = true,
}
local LOSSES <const> = {squared = true, hinge = true, smoothed = true, logistic = true}

local function check_relation(o)
  local given <const> = o.relation == nil and "auto" or o.relation
  if given ~= "learned" then
    descent.check_unused("multitask.job", o, {"start"}, 'but with relation = "learned"')
  elseif o.start ~= nil and not (type(o.start) == "number" and o.start >= 0 and o.start < 1) then
    fail(("multitask.job: start is %s, not in [0, 1)"):format(tostring(o.start)))
  end
  if given ~= "auto" and given ~= "learned" then
    descent.check_unused("multitask.job", o, {"steps"}, 'but with relation = "auto" or "learned"')
  end
  if given == "auto" or given == "learned" or given == "independent" then
    o.kind, o.start = given == "independent" and "fixed" or given, o.start or 0
  elseif type(given) == "table" and given[1] == "mean" then
    local c <const> = given[2]
    if type(c) ~= "number" or not (c >= 0 and c < 1) then
      fail(("multitask.job: relation {\"mean\", %s}: the second is in [0, 1)"):format(tostring(c)))
    end
    o.kind, o.start = "fixed", c
  elseif type(given) == "table" then
    if given.graph ~= nil then package.check_fields("T0203", "relation", given, {graph = true, ridge = true}) end
    o.kind, o.start = "fixed", nil
  else
    fail(("multitask.job: relation `%s` is none of auto, learned, independent, {\"mean\", c}, a matrix, {graph = ..}")
      :format(tostring(given)))
  end
end

---Options that the solver and the loss have no part in.
local function check_solver(o)
  if not LOSSES[o.loss] then
    fail(("multitask.job: loss `%s` is none of squared, hinge, smoothed, logistic"):format(tostring(o.loss)))
  end
  o.solver = o.solver or (o.loss == "squared" and "cg" or "sdca")
  if o.solver ~= "sdca" and not (o.solver == "cg" and o.loss == "squared") then
    fail(("multitask.job: solver `%s` for %s loss; there are sdca, and cg for squared loss"):format(tostring(o.solver),
      o.loss))
  end
  if o.solver == "cg" then
    descent.check_unused("multitask.job", o, {"passes", "deadline", "rho"}, 'with solver = "cg"')
  end
  if o.loss ~= "smoothed" then
    descent.check_unused("multitask.job", o, {"smooth"}, 'but with loss = "smoothed"')
  elseif o.smooth ~= nil and not (type(o.smooth) == "number" and o.smooth > 0 and o.smooth < math.huge) then
    fail(("multitask.job: smooth is %s, not a number above 0"):format(tostring(o.smooth)))
  end
  if o.rho ~= nil and o.rho ~= "rows" then
    fail(("multitask.job: rho is %s; there is \"rows\", the looser bound by sums of rows"):format(tostring(o.rho)))
  end
  if o.deadline and not (type(o.deadline) == "number" and o.deadline >= 1) then
    fail(("multitask.job: deadline is %s, not a number of 1 or more"):format(tostring(o.deadline)))
  end
end

---@return number[] lambdas falling: warm starts go from strong to weak
local function check_lambdas(given)
  local list <const> = {}
  if type(given) ~= "table" or #given == 0 then fail "multitask.job: `lambdas` is a list of numbers" end
  for i, v in ipairs(given) do
    if type(v) ~= "number" or not (v > 0 and v < math.huge) then
      fail(("multitask.job: lambdas[%d] is %s, not a number above 0"):format(i, tostring(v)))
    end
    list[i] = v
  end
  table.sort(list, function(a, b) return a > b end)
  return list
end

local function check_numbers(o)
  if o.tolerance ~= nil and not (type(o.tolerance) == "number" and o.tolerance > 0 and o.tolerance < math.huge) then
    fail(("multitask.job: tolerance is %s, not a number above 0"):format(tostring(o.tolerance)))
  end
  if o.seed ~= nil and math.type(o.seed) ~= "integer" then
    fail(("multitask.job: `seed` is %s, not a whole number"):format(tostring(o.seed)))
  end
  if o.kind ~= "auto" and #o.lambdas == 1 then
    descent.check_unused("multitask.job", o, {"validate"}, "where nothing is chosen: one lambda and one relation")
    o.validate = 0
  end
  o.asked = o.tolerance ~= nil
  o.tolerance, o.validate, o.seed = o.tolerance or 1e-6, o.validate or 0.2, o.seed or 1
  if type(o.validate) ~= "number" or not (o.validate >= 0 and o.validate < 1) then
    fail(("multitask.job: validate is %s, not in [0, 1)"):format(tostring(o.validate)))
  end
  o.steps, o.passes, o.rounds, o.smooth = o.steps or 5, o.passes or 1, o.rounds or ROUNDS_MOST, o.smooth or 1
  for _, key in ipairs {"steps", "passes", "rounds"} do
    local least <const> = key == "steps" and 0 or 1
    if math.type(o[key]) ~= "integer" or o[key] < least then
      fail(("multitask.job: `%s` is %s, not a whole number from %d on"):format(key, tostring(o[key]), least))
    end
  end
end

---The examples as the driver has them, before any worker begins.
local function check_problem(o, p)
  if p.columns == 0 then fail "multitask.job: the data has no columns" end
  if o.kind == "fixed" and not o.start then relation.given(o.relation, p.m) end
  local values <const> = p.x.values:convert "f64":view(1, #p.x.values, 1)
  local least <const> = LEAST_LAMBDA * kernels.vector_dot ({x = values, y = values}).sum / p.n / p.m
  if o.lambdas[#o.lambdas] < least then
    fail(("multitask.job: lambda %g is below %.2g, the least that f64 tells from 0 beside these examples"):format(
      o.lambdas[#o.lambdas], least), "a larger lambda")
  end
end

---A job that learns tasks together: sum_i mean loss of task i + lambda/2 tr(W' S^-1 W).
---@param o table {name, data (rows with tasks), loss = "squared"|"hinge"|"smoothed"|"logistic", relation = "auto"|
---  "learned"|"independent"|{"mean", c}|matrix|{graph =}, lambdas, standardise = true, bias = true, tolerance = 1e-6,
---  solver = "cg" (squared) or "sdca", validate = 0.2, steps = 5 outer ones at most, passes = 1 over the examples a
---  round, deadline = nil or times the median pass at which a round of sdca ends, smooth, seed, checkpoint,
---  rho = nil or "rows", the looser bound by sums of rows, without = numbers of tasks that are left out at first;
---  run:set {without = {..}} lets tasks go and come}
---@return tide.job
function multitask.job(given)
  package.check_fields("T0203", "multitask.job", given, KNOWN)
  local o <const> = {}
  for k, v in pairs(given) do o[k] = v end
  if not package.is_data_set(o.data) then fail "multitask.job requires `data`, rows with tasks" end
  o.loss = o.loss or "squared"
  check_solver(o)
  if o.without ~= nil and type(o.without) ~= "table" then
    fail "multitask.job: `without` is a list of numbers of tasks"
  end
  check_relation(o)
  descent.check_checkpoint("multitask.job", o)
  o.lambdas = check_lambdas(type(o.lambdas) == "number" and {o.lambdas} or o.lambdas
    or {1e-4, 3e-4, 1e-3, 3e-3, 1e-2})
  o.standardise, o.bias = o.standardise ~= false, o.bias ~= false
  check_numbers(o)
  local job <const> = tide.job {
    name = o.name, seed = o.seed, on_worker_loss = "replay", checkpoint = o.checkpoint,
    params = {without = o.without or {}},
    on_report = function(_, sum) return nil, sum.unmet and "tolerance" or nil end,
    tables = function()
      local p <const> = multitask.problem(o)
      check_problem(o, p)
      local copies <const> = package.copies()
      return {
        w = tide.table {keys = tide.dense(p.m), width = p.d, slots = "range", update = {"assign"},
                            replicas = copies},
        covariance = descent.table_for(p.m * p.m),
        dual = o.checkpoint and descent.table_for(p.n) or nil,
      }
    end,
    worker = function(w)
      local t <const> = team.new(w)
      t:play(part.new(w, t, o))
    end,
  }
  job.multitask = o
  return job
end

---The examples as a job has them; read once.
function multitask.problem(o)
  o.read = o.read or problem.new(o)
  return o.read
end

---- results --------------------------------------------------------------------------------------------------------

---@class tide.multitask.model
---@field stopped boolean whether the run stopped before its end: these are the parameters it had come to
local model = {}
model.__index = model

---What a run has found, or had come to when it was stopped (`stopped`); an error while it still chose lambda and
---relation.
---@param run tide.run
---@return tide.multitask.model
function multitask.model(run)
  local o <const> = run.job.multitask
  if not o then fail "multitask.model requires a run of multitask.job" end
  local p <const> = multitask.problem(o)
  local S <const>, stopped <const> = descent.found(run, run.tables.covariance, p.m * p.m)
  local keys <const> = tensor.zeros("u64", p.m):fill(0, 1)
  local w <const> = run.tables.w:pull(keys)
  local wide <const> = tensor.zeros("f64", p.m, p.d)
  for i, v in pairs(w) do wide[i] = v end
  return setmetatable({p = p, o = o, w = wide, S = S:view(1, p.m, p.m), stopped = stopped}, model)
end

local function place_of(self, task)
  for t, number in ipairs(self.p.numbers) do
    if number == task then return t end
  end
  fail(("there is no task %s"):format(tostring(task)))
end

---Predictions for new rows of a task: numbers, or scores whose sign is the class.
---@param task integer as the data numbers it
---@param rows table rows as of a data set
---@return number[]
function model:predict(task, rows)
  local p <const>, t <const> = self.p, place_of(self, task)
  local list, values = {}, tensor.zeros("f32", 1, p.d)
  for i = 1, rows:rows() do
    values:fill(0)
    p:write_row(rows, i, values, 0)
    local sum = p.shift
    for k = 1, p.d do sum = sum + values[k] * self.w[(t - 1) * p.d + k] end
    list[i] = sum
  end
  return list
end

---A task's rows of a part.
---@return integer first from 0
---@return integer count
local function piece(p, t, name)
  local c <const> = p.counts[t]
  return p.first[t] + (name == "train" and 0 or name == "validate" and c.train or c.train + c.validate), c[name]
end

---By task: {task =, count =, squares =, right =, around = squares of the labels around their mean} of a part.
---@param name "train"|"validate"|"test"
---@return table[]
function model:errors(name)
  local p <const>, list, all = self.p, {}, 0
  if not p.counts[1][name] then fail(("part `%s` is none of train, validate, test"):format(tostring(name))) end
  local a <const> = tensor.zeros("f64", p.n)
  for t = 1, p.m do
    local first <const>, count <const> = piece(p, t, name)
    local mean, around = 0, 0
    for j = first + 1, first + count do mean = mean + p.y[j] / count end
    for j = first + 1, first + count do around = around + (p.y[j] - mean) ^ 2 end
    local r <const> = p:kernel(kernels.mtl_score, {y = p.y, a = a, w = self.w:slice(t, 1):view(1, p.d, 1),
      loss = p.loss, first = first, rows = count, smooth = self.o.smooth})
    list[t] = {task = p.numbers[t], count = count, squares = r.squares, right = r.correct, around = around}
    all = all + count
  end
  if all == 0 then
    fail(("the data has no examples of part `%s`"):format(name), "data:split {train = 0.8, test = 0.2} makes one")
  end
  return list
end

local function total(list, field)
  local sum = 0
  for _, e in ipairs(list) do sum = sum + e[field] end
  return sum
end

---Root of the mean squared error over all examples of a part.
---@param name? "train"|"validate"|"test"
---@return number
function model:rmse(name)
  local list <const> = self:errors(name or "test")
  return math.sqrt(total(list, "squares") / total(list, "count"))
end

---Share of the variance of a part that is explained: 1 - squared error over squared deviation from the mean of all its
---examples.
---@param name? "train"|"validate"|"test"
---@return number
function model:explained_variance(name)
  name = name or "test"
  local p <const>, list <const> = self.p, self:errors(name)
  local mean, around, n = 0, 0, total(list, "count")
  local function each(f)
    for t = 1, p.m do
      local first <const>, count <const> = piece(p, t, name)
      for j = first + 1, first + count do f(p.y[j]) end
    end
  end
  each(function(y) mean = mean + y / n end)
  each(function(y) around = around + (y - mean) ^ 2 end)
  if around == 0 then fail(("all labels of part `%s` are the same: there is no variance to explain"):format(name)) end
  return 1 - total(list, "squares") / around
end

---The learnt covariance of tasks.
---@return table f64 tensor m x m, of trace 1
function model:covariance() return self.S end

---The learnt correlation of tasks.
---@return table f64 tensor m x m
function model:correlation() return relation.correlation(self.S) end

---A chart of the correlations, for tide.chart.
---@return table
function model:chart()
  local c <const>, m <const>, rows = self:correlation(), self.p.m, {}
  for i = 1, m do
    rows[i] = {}
    for j = 1, m do rows[i][j] = c[(i - 1) * m + j] end
  end
  return {title = "Correlation between tasks", heat = rows, low = -1, high = 1, x = "task", y = "task"}
end

return multitask
