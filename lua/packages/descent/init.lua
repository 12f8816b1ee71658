-- tide.descent: models that are fitted variable by variable, by workers that each have some of the examples. What is
-- updated together, and when, is a decision: Gram working sets (gram.lua), scheduled sets (sets.lua), one rank of a
-- factorisation after the other (ccd.lua). docs/guides/descent.md is the guide.
--
-- Every worker has all variables and makes all decisions itself, alike; what travels are sums over examples. The data
-- set is the script's, not the job's: so workers can come and go.
local kernels = require("tide.package").kernels
local package = require "tide.package"
local team = require "tide.team"
local tensor = require "tide.tensor"
local tide = require "tide"

local descent = {}

local KEY <const> = 1024

local function fail(message, help) error(package.error("T0203", message, {help = help}), 0) end

---- options --------------------------------------------------------------------------------------------------------

local LINEAR <const> = {
  name = true, data = true, lambda = true, share = true, tolerance = true, intercept = true, standardise = true,
  penalty = true, positive = true, weights = true, mode = true, gram_most = true, seed = true, checkpoint = true,
  set = true, check = true, theta = true, tau = true, floor = true, order = true, ahead = true,
}
local PATH <const> = {model = true, lambdas = true, ratio = true, folds = true}
local RIDGE <const> = {ridge = true, mix = true}
local OF_SETS <const> = {"set", "check", "theta", "tau", "floor", "order", "ahead"}
local MODES <const> = {auto = true, gram = true, sets = true}
local FLAGS <const> = {"intercept", "standardise", "positive"}

local function positive(o, what, key)
  local v <const> = o[key]
  if v ~= nil and not (type(v) == "number" and v > 0 and v < math.huge) then
    fail(("%s: `%s` is %s, not a number above 0"):format(what, key, tostring(v)))
  end
end

local function copied(o)
  local out = {}
  for k, v in pairs(o) do out[k] = v end
  return out
end

local function with(known, ...)
  local all = copied(known)
  for _, more in ipairs {...} do
    for k, v in pairs(more) do all[k] = v end
  end
  return all
end

---Raises where options are given that would do nothing.
---@param why string of what they have no part in
---@package
function descent.check_unused(what, o, keys, why)
  for _, key in ipairs(keys) do
    if o[key] ~= nil then fail(("%s: `%s` has no meaning %s"):format(what, key, why), "leave it out") end
  end
end

local function check_seed(what, o)
  if o.seed ~= nil and math.type(o.seed) ~= "integer" then
    fail(("%s: `seed` is %s, not a whole number"):format(what, tostring(o.seed)))
  end
end

---Of two options that say the same thing one is given at most.
local function check_either(what, o, a, b)
  if o[a] ~= nil and o[b] ~= nil then
    fail(("%s has both `%s` and `%s`"):format(what, a, b), "leave one of them out")
  end
end

---@return table o checked and with defaults
local function check_linear(what, given, known, model)
  package.check_fields("T0203", what, given, known)
  local o <const> = copied(given)
  if not package.is_data_set(o.data) then fail(what .. " requires `data`, a data set with labels") end
  if o.mode ~= nil and not MODES[o.mode] then
    fail(("%s: mode `%s` is none of auto, gram, sets"):format(what, tostring(o.mode)))
  end
  for _, key in ipairs {"lambda", "share", "tolerance", "gram_most", "ratio", "ridge"} do positive(o, what, key) end
  for _, key in ipairs(FLAGS) do
    if o[key] ~= nil and type(o[key]) ~= "boolean" then
      fail(("%s: `%s` is %s, not true or false"):format(what, key, tostring(o[key])))
    end
  end
  check_seed(what, o)
  for _, key in ipairs {"share", "ratio"} do
    if o[key] and o[key] < 1e-14 then
      fail(("%s: `%s` is %g, less than f64 tells from 0"):format(what, key, o[key]))
    end
  end
  check_either(what, o, "lambda", "share")
  check_either(what, o, "ridge", "mix")
  if o.mode == "gram" then descent.check_unused(what, o, OF_SETS, 'with mode = "gram"') end
  if o.mode == "sets" then descent.check_unused(what, o, {"gram_most"}, 'with mode = "sets"') end
  if o.mix and not (type(o.mix) == "number" and o.mix > 0 and o.mix <= 1) then
    fail(("%s: `mix` is %s, not in (0, 1]"):format(what, tostring(o.mix)))
  end
  if o.folds and not (math.type(o.folds) == "integer" and o.folds >= 2) then
    fail(("%s: `folds` is %s, not a whole number of 2 or more"):format(what, tostring(o.folds)))
  end
  o.model, o.what = model, what
  o.tolerance, o.mode, o.gram_most = o.tolerance or 1e-6, o.mode or "auto", o.gram_most or 4096
  return o
end

---@param list number[] finite numbers of 0 or more, one for each of `count`
---@param of string what there are `count` of
---@return integer how many are above 0
local function check_list(what, name, list, count, of)
  if #list ~= count then fail(("%s: there are %d %s for %d %s"):format(what, #list, name, count, of)) end
  local above = 0
  for i = 1, count do
    local v <const> = list[i]
    if type(v) ~= "number" or v ~= v or v < 0 or v == math.huge then
      fail(("%s: %s[%d] is %s, not a finite number of 0 or more"):format(what, name, i, tostring(v)))
    end
    above = above + (v > 0 and 1 or 0)
  end
  return above
end

---The examples as the driver has them, before any worker begins.
local function check_data(o)
  local what <const>, part <const> = o.what, o.data:whole "train"
  local rows <const>, columns <const> = part:rows(), part.columns or o.data.columns
  if rows == 0 then fail(what .. ": the data has no examples") end
  if columns == 0 then fail(what .. ": the data has no columns") end
  local count = rows
  if o.weights then
    count = check_list(what, "weights", o.weights, rows, "examples")
    if count == 0 then fail(what .. ": all weights of examples are 0") end
  end
  local labels <const>, first, second = part.labels, nil, nil
  for i = 1, o.model == "logistic" and rows or 0 do
    if not o.weights or o.weights[i] > 0 then
      if labels[i] == 1 then first = true else second = true end
    end
  end
  if o.model == "logistic" and not (first and second) then fail(what .. ": all examples are of one class") end
  if type(o.penalty) == "number" then
    positive(o, what, "penalty")
  elseif o.penalty then
    check_list(what, "penalty", o.penalty, columns, "columns")
  end
  if o.folds and count < o.folds then
    fail(("%s: %d folds of %d examples%s"):format(what, o.folds, count, o.weights and " of weight above 0" or ""),
      "fewer folds")
  end
end

---- x in a table ---------------------------------------------------------------------------------------------------

-- What the numbers of a table are, in front of them; a table that was never written has 0.
local FOUND <const>, SO_FAR <const> = 1, 2

---Rows of KEY that hold a mark and `count` f64 numbers.
local function keys_for(count) return (3 * (count + 1) + KEY - 1) // KEY end

---A table that holds `count` f64 numbers.
---@package
function descent.table_for(count)
  return tide.table {keys = tide.dense(keys_for(count)), width = KEY, slots = "range", update = {"assign"},
                         replicas = package.copies()}
end

---Writes numbers to a table; each worker its range of rows.
---@param numbers table f64 tensor
---@param last boolean whether they are what the run has found; nil: nothing yet
---@package
function descent.store(t, handle, numbers, last)
  local rows <const>, mark <const> = keys_for(#numbers), tensor.zeros("f64", 1)
  local flat <const> = tensor.zeros("f32", rows, KEY)
  if last ~= nil then mark:fill(last and FOUND or SO_FAR) end
  flat:view(1, 1, 3):put(1, mark:split())
  flat:view(4, #numbers, 3):put(1, numbers:view(1, #numbers, 1):split())
  local first, count = t:piece(rows)
  if count == 0 then return end
  local keys <const> = tensor.zeros("u64", count):fill(first - 1, 1)
  handle:push(keys, flat:slice(first, count))
end

---@param count integer
---@return table numbers f64 tensor
---@return boolean|nil last whether they are what the run has found; nil: nothing was written
---@package
function descent.load(handle, count)
  local keys <const> = tensor.zeros("u64", keys_for(count)):fill(0, 1)
  local flat <const> = handle:pull(keys)
  local mark <const> = tensor.joined(flat:view(1, 1, 3))[1]
  local last
  if mark ~= 0 then last = mark == FOUND end
  return tensor.joined(flat:view(4, count, 3)), last
end

---What a run has found, or, of one that stopped, what it had come to.
---@param run tide.run
---@param handle table
---@param count integer
---@return table numbers f64 tensor
---@return boolean stopped
---@package
function descent.found(run, handle, count)
  local numbers <const>, last <const> = descent.load(handle, count)
  if last == nil then
    local state <const> = run:state()
    error(package.error("T0203", ("run %s has no model: it is %s and has not fitted all examples"):format(run.name,
      state), {help = state == "running" and "wait for its end: run:wait()" or "let it run to its end"}), 0)
  end
  return numbers, not last
end

---- linear models --------------------------------------------------------------------------------------------------

---The settings that run:set changes, from the next report on.
local function live(o)
  local params = {}
  for _, key in ipairs {"set", "tau", "theta", "floor", "ahead", "check", "order"} do params[key] = o[key] end
  return params
end

---Checkpoints are of one moment: x and what workers keep belong together.
---@package
function descent.check_checkpoint(what, o)
  if type(o.checkpoint) == "table" and o.checkpoint.cut == "fuzzy" then
    fail(what .. ": checkpoints are cut by clock: a report is one", 'leave `cut` out')
  end
end

---Plays a part whose state is `count` numbers in table x, and the little that it keeps.
local function play(w, t, part, count)
  local fetch <const> = part.fetch
  function part:store(_, last)
    local numbers <const> = tensor.zeros("f64", count)
    local own <const>, whole <const> = self:numbers()
    numbers:put(1, own)
    if not whole then last = nil end
    descent.store(t, w.tables.x, numbers, last)
  end
  function part:fetch(kept) fetch(self, kept, (descent.load(w.tables.x, count))) end
  t:play(part)
end

local function linear_job(o)
  descent.check_checkpoint("descent", o)
  if o.path then o.mode = "gram" end
  local function count() -- coefficients, the intercept, and with checkpoints the weights of sets
    return (o.checkpoint and o.mode ~= "gram" and 2 or 1) * o.data.columns + 1
  end
  local job <const> = tide.job {
    name = o.name, seed = o.seed or 1, checkpoint = o.checkpoint, on_worker_loss = "replay",
    params = live(o),
    tables = function()
      check_data(o)
      return {x = descent.table_for(count())}
    end,
    worker = function(w)
      local t <const> = team.new(w)
      play(w, t, require("tide.descent." .. o.mode).new(w, t, o), count())
    end,
  }
  job.descent = o
  return job
end

---The lasso: 1/2 sum w (y - b - X x)^2 + lambda sum c |x|.
---@param o table {name, data, lambda or share (of the largest that lets a variable in), tolerance = 1e-6 (of the
---  objective), intercept, standardise, positive, penalty = weights c of variables, weights = w of examples,
---  mode = "auto"|"gram"|"sets", gram_most, seed, checkpoint; for sets: set, check, theta, tau, floor, order, ahead}
---@return tide.job
function descent.lasso(o)
  local c <const> = check_linear("descent.lasso", o, LINEAR, "squared")
  if not c.lambda and not c.share then fail "descent.lasso requires `lambda`, or `share` of the largest one" end
  return linear_job(c)
end

---The elastic net: the lasso with ridge/2 sum x^2, or with `mix`: lambda mix |x| + lambda (1 - mix)/2 x^2.
---@param o table as of descent.lasso, and ridge or mix
---@return tide.job
function descent.enet(o)
  local c <const> = check_linear("descent.enet", o, with(LINEAR, RIDGE), "squared")
  if not c.ridge and not c.mix then fail "descent.enet requires `ridge` or `mix`" end
  if not c.lambda and not c.share then fail "descent.enet requires `lambda`, or `share` of the largest one" end
  return linear_job(c)
end

---L1-penalised logistic regression: sum w log(1 + exp(-y (b + X x))) + lambda sum c |x|; labels of two classes.
---@param o table as of descent.lasso
---@return tide.job
function descent.logistic(o)
  local c <const> = check_linear("descent.logistic", o, LINEAR, "logistic")
  if not c.lambda and not c.share then fail "descent.logistic requires `lambda`, or `share` of the largest one" end
  return linear_job(c)
end

---A path of penalties from the largest that lets a variable in, with warm starts, and cross-validation.
---@param o table as of descent.lasso without lambda, and model = "lasso"|"enet"|"logistic", lambdas = how many (100) or
---  a falling list, ratio = the last over the first (1e-3), folds = nil or how many
---@return tide.job
function descent.path(o)
  local c <const> = check_linear("descent.path", o, with(LINEAR, PATH, RIDGE),
    type(o) == "table" and o.model == "logistic" and "logistic" or "squared")
  descent.check_unused("descent.path", o, OF_SETS, "on a path, whose fits are by Gram working sets")
  if o.model == "enet" then
    if not c.ridge and not c.mix then fail "descent.path: model `enet` requires `ridge` or `mix`" end
  else
    descent.check_unused("descent.path", o, {"ridge", "mix"}, 'but with model = "enet"')
  end
  if not ({lasso = true, enet = true, logistic = true})[o.model or "lasso"] then
    fail(("descent.path: model `%s` is none of lasso, enet, logistic"):format(tostring(o.model)))
  end
  if c.lambda or c.share then fail "descent.path has `lambdas`, not one lambda" end
  if c.mode == "sets" then fail "descent.path: paths are of Gram working sets; mode is auto or gram" end
  if c.ratio and c.ratio >= 1 then fail(("descent.path: `ratio` is %g, not below 1"):format(c.ratio)) end
  c.lambdas, c.path = c.lambdas or 100, true
  if type(c.lambdas) == "table" then
    descent.check_unused("descent.path", o, {"ratio"}, "beside a list of `lambdas`")
    if #c.lambdas == 0 then fail "descent.path: `lambdas` is an empty list" end
    for i, v in ipairs(c.lambdas) do
      if type(v) ~= "number" or v <= 0 or (i > 1 and v >= c.lambdas[i - 1]) then
        fail "descent.path: `lambdas` is a falling list of numbers above 0"
      end
    end
  elseif math.type(c.lambdas) ~= "integer" or c.lambdas < 1 then
    fail "descent.path: `lambdas` is a number of them or a list"
  end
  c.ratio = c.ratio or 1e-3
  return linear_job(c)
end

---- models of the script's own --------------------------------------------------------------------------------------

local OWN <const> = {
  name = true, variables = true, mode = true, set = true, check = true, theta = true, tau = true, floor = true,
  order = true, ahead = true, schedule = true, push = true, pull = true, apply = true, objective = true,
  dependency = true, divide = true, start = true, rounds = true, tolerance = true, seed = true, checkpoint = true,
}

---A model of three small functions: push(w, set, x) gives this worker's part of sums, pull(x, set, sums) the changes of
---the set's variables, apply(w, set, changes, x) makes what follows from them on this worker. divide(w, index, size, x)
---says which part of the examples is this worker's from now on; objective(w, x) is its part of what falls.
---schedule(state, round) gives the candidates of a round (state:active(n), :priority(n), :random(n), :blocks(n), or a
---list); dependency(j, k) how much j and k spoil each other, 0 to 1.
---@param o table {name, variables, push, pull, ..., set, check, theta, tau, floor, order, ahead, rounds, seed}
---@return tide.job
function descent.job(o)
  package.check_fields("T0203", "descent.job", o, OWN)
  if math.type(o.variables) ~= "integer" or o.variables < 1 then
    fail "descent.job requires `variables`, how many there are"
  end
  for _, key in ipairs {"push", "pull"} do
    if type(o[key]) ~= "function" then fail(("descent.job requires `%s`, a function"):format(key)) end
  end
  for _, key in ipairs {"schedule", "apply", "objective", "dependency", "divide"} do
    if o[key] ~= nil and type(o[key]) ~= "function" then fail(("descent.job: `%s` is no function"):format(key)) end
  end
  if o.tolerance ~= nil then positive(o, "descent.job", "tolerance") end
  check_seed("descent.job", o)
  if o.rounds and not (math.type(o.rounds) == "integer" and o.rounds >= 1) then
    fail(("descent.job: `rounds` is %s, not a whole number from 1 on"):format(tostring(o.rounds)))
  end
  if o.schedule then descent.check_unused("descent.job", o, {"order", "floor"}, "beside a `schedule`") end
  if not o.objective then descent.check_unused("descent.job", o, {"tolerance"}, "without `objective`") end
  if o.mode and o.mode ~= "sets" then fail "descent.job: models of the script's own are optimised by sets" end
  if not o.objective and not o.rounds then fail "descent.job requires `objective`, or `rounds` after which it ends" end
  descent.check_checkpoint("descent.job", o)
  local c <const> = copied(o)
  c.tolerance = c.tolerance or 1e-12
  local all <const> = (c.checkpoint and 2 or 1) * c.variables + 1
  local job <const> = tide.job {
    name = c.name, seed = c.seed or 1, checkpoint = c.checkpoint, on_worker_loss = "replay", params = live(c),
    tables = function() return {x = descent.table_for(all)} end,
    worker = function(w)
      local t <const> = team.new(w)
      local problem <const> = require("tide.descent.own").new(w, t, c)
      play(w, t, require("tide.descent.sets").engine(w, t, c, problem), all)
    end,
  }
  job.descent_variables = c.variables
  return job
end

---The variables that a run of descent.job has found, or had come to when it was stopped.
---@param run tide.run
---@return table f64 tensor
---@return boolean stopped
function descent.variables(run)
  local J <const> = run.job.descent_variables
  if not J then fail "descent.variables requires a run of descent.job" end
  return descent.found(run, run.tables.x, J)
end

---- factorisations -------------------------------------------------------------------------------------------------

local CCD <const> = {name = true, data = true, rank = true, l2 = true, weighted = true, passes = true, inner = true,
                     tolerance = true, seed = true, checkpoint = true}

---Matrix factorisation by cyclic coordinate descent: sum (R - W H)^2 + l2 (|W|^2 + |H|^2) over the cells that are
---there; weighted: a row's and a column's squares count as often as it has cells. Tables w and h have the factors.
---@param o table {name, data = tide.data.matrix(..), rank = 10, l2, weighted, passes = 20, inner = 1, tolerance, seed}
---@return tide.job
function descent.ccd(o)
  package.check_fields("T0203", "descent.ccd", o, CCD)
  descent.check_checkpoint("descent.ccd", o)
  local c <const> = copied(o)
  c.rank, c.passes, c.inner = c.rank or 10, c.passes or 20, c.inner or 1
  c.tolerance, c.l2 = c.tolerance or 0, c.l2 or 0.1
  check_seed("descent.ccd", o)
  if type(c.tolerance) ~= "number" or not (c.tolerance >= 0 and c.tolerance < math.huge) then
    fail "descent.ccd: `tolerance` is a number of 0 or more"
  end
  for _, key in ipairs {"rank", "passes", "inner"} do
    if math.type(c[key]) ~= "integer" or c[key] < 1 then
      fail(("descent.ccd: `%s` is %s, not a whole number from 1 on"):format(key, tostring(c[key])))
    end
  end
  if type(c.l2) ~= "number" or not (c.l2 >= 0 and c.l2 < math.huge) then
    fail "descent.ccd: `l2` is a number of 0 or more"
  end
  if not package.is_data_set(c.data) then fail "descent.ccd requires `data`, a tide.data.matrix" end
  return tide.job {
    name = c.name, seed = c.seed or 1, checkpoint = c.checkpoint, on_worker_loss = "replay",
    tables = function()
      if c.data:part("train").values:rows() == 0 then fail "descent.ccd: the data has no cells" end
      local copies <const> = package.copies()
      local function factor(count)
        return tide.table {keys = tide.dense(count), width = c.rank, slots = "range", update = {"assign"},
                               replicas = copies}
      end
      return {w = factor(c.data.rows), h = factor(c.data.cols)}
    end,
    worker = function(w)
      local t <const> = team.new(w)
      t:play(require("tide.descent.ccd").new(w, t, c))
    end,
  }
end

---- results --------------------------------------------------------------------------------------------------------

---@class tide.descent.model
---@field coefficients table f64 tensor, one a column
---@field intercept number
---@field stopped boolean whether the run stopped before its end: these are the coefficients it had come to
local model = {}
model.__index = model

---What a run has found, or had come to when it was stopped (`stopped`); an error where there is nothing yet.
---@param run tide.run
---@return tide.descent.model
function descent.model(run)
  local o <const> = run.job.descent
  if not o then fail "descent.model requires a run of descent.lasso, enet, logistic or path" end
  local J <const> = o.data.columns
  local all <const>, stopped <const> = descent.found(run, run.tables.x, J + 1)
  return setmetatable({coefficients = all:slice(1, J):copy(), intercept = all[J + 1], logistic = o.model == "logistic",
                       classes = o.data.classes, stopped = stopped}, model)
end

---How many coefficients are not 0.
---@return table<integer, number> coefficients that are not 0, by column from 1
function model:nonzero()
  local list = {}
  for j, v in pairs(self.coefficients) do
    if v ~= 0 then list[j] = v end
  end
  return list
end

---Scores b + x.coefficients of rows; for logistic regression their sign is the class, s(score) its probability.
---@param rows table a part of a data set
---@return table f64 tensor
function model:predict(rows)
  local n <const> = rows:rows()
  local out <const> = tensor.zeros("f64", n)
  local kernel <const> = kernels.mtl_product
  local a <const> = {kind = "there", d = #self.coefficients, rows = n, from = self.coefficients, to = out}
  if rows.x then
    a.values = rows.x
  else
    a.offsets, a.indices, a.values = rows.offsets, rows.indices, rows.values
  end
  kernel(a)
  kernels.vector_add {to = out, plus = self.intercept}
  return out
end

return descent
