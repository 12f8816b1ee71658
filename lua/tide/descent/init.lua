-- tide.descent: models that are fitted variable by variable, by workers that each have some of the examples. What is
-- updated together, and when, is a decision: Gram working sets (gram.lua), scheduled sets (sets.lua), one rank of a
-- factorisation after the other (ccd.lua). docs/descent.md is the guide.
--
-- Every worker has all variables and makes all decisions itself, alike; what travels are sums over examples. The data
-- set is the script's, not the job's: so workers can come and go.
local core = require "tide.core"
local script = require "tide.script"
local table_spec = require "tide.run.table_spec"
local team = require "tide.run.team"
local tensor = require "tide.tensor"

local descent = {}

local KEY <const> = 1024

local function fail(message, help) error(script.error("T0203", message, {help = help}), 0) end

---- options --------------------------------------------------------------------------------------------------------

local LINEAR <const> = {
  name = true, data = true, lambda = true, share = true, tolerance = true, intercept = true, standardise = true,
  penalty = true, positive = true, weights = true, mode = true, gram_most = true, seed = true, checkpoint = true,
  set = true, check = true, theta = true, tau = true, floor = true, order = true, ahead = true, labels = true,
  start = true,
}
local PATH <const> = {model = true, lambdas = true, ratio = true, folds = true}
local MODES <const> = {auto = true, gram = true, sets = true}

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

---@return table o checked and with defaults
local function check_linear(what, given, known, model)
  script.check_fields("T0203", what, given, known)
  local o <const> = copied(given)
  if not require("tide.data").is_set(o.data) then fail(what .. " wants `data`, a data set of examples with labels") end
  o.model = model
  o.tolerance, o.mode, o.gram_most = o.tolerance or 1e-6, o.mode or "auto", o.gram_most or 4096
  for _, key in ipairs {"lambda", "share", "tolerance", "gram_most", "ratio", "ridge"} do positive(o, what, key) end
  if not MODES[o.mode] then fail(("%s: mode `%s` is none of auto, gram, sets"):format(what, tostring(o.mode))) end
  if o.mix and not (type(o.mix) == "number" and o.mix > 0 and o.mix <= 1) then
    fail(("%s: `mix` is %s, not in (0, 1]"):format(what, tostring(o.mix)))
  end
  if o.folds and not (math.type(o.folds) == "integer" and o.folds >= 2) then
    fail(("%s: `folds` is %s, not a whole number of 2 or more"):format(what, tostring(o.folds)))
  end
  return o
end

---- x in a table ---------------------------------------------------------------------------------------------------

---Rows of KEY that hold `count` f64 numbers.
local function keys_for(count) return (3 * count + KEY - 1) // KEY end

---A table that holds `count` f64 numbers.
---@package
function descent.table_for(count)
  return table_spec.new {keys = table_spec.dense(keys_for(count)), width = KEY, slots = "range", update = {"assign"},
                         replicas = require("tide.nn.replica").copies()}
end

---Writes numbers to a table; each worker its range of rows.
---@param numbers table f64 tensor
---@package
function descent.store(t, handle, numbers)
  local rows <const> = keys_for(#numbers)
  local flat <const> = core.tensor("f32", rows, KEY)
  flat:view(1, #numbers, 3):put(1, numbers:view(1, #numbers, 1):split())
  local first, count = t:piece(rows)
  if count == 0 then return end
  local keys <const> = core.tensor("u64", count, 1):fill(first - 1, 1)
  handle:push(keys, flat:slice(first, count))
end

---@param count integer
---@return table f64 tensor
---@package
function descent.load(handle, count)
  local keys <const> = core.tensor("u64", keys_for(count), 1):fill(0, 1)
  return tensor.joined(handle:pull(keys):view(1, count, 3))
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
  function part:store()
    local numbers <const> = core.tensor("f64", count, 1)
    numbers:put(1, self:numbers())
    descent.store(t, w.tables.x, numbers)
  end
  function part:fetch(kept) fetch(self, kept, descent.load(w.tables.x, count)) end
  t:play(part)
end

local function linear_job(o)
  descent.check_checkpoint("descent", o)
  if o.path then o.mode = "gram" end
  local function count() -- coefficients, the intercept, and with checkpoints the weights of sets
    return (o.checkpoint and o.mode ~= "gram" and 2 or 1) * o.data.columns + 1
  end
  local job <const> = require("tide.run.job").new {
    name = o.name, seed = o.seed or 1, checkpoint = o.checkpoint, on_worker_loss = "replay",
    params = live(o),
    tables = function() return {x = descent.table_for(count())} end,
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
  if not c.lambda and not c.share then fail "descent.lasso wants `lambda`, or `share` of the largest one" end
  return linear_job(c)
end

local function with(known, ...)
  local all = copied(known)
  for _, more in ipairs {...} do
    for k, v in pairs(more) do all[k] = v end
  end
  return all
end

---The elastic net: the lasso with ridge/2 sum x^2, or with `mix`: lambda mix |x| + lambda (1 - mix)/2 x^2.
---@param o table as of descent.lasso, and ridge or mix
---@return tide.job
function descent.enet(o)
  local c <const> = check_linear("descent.enet", o, with(LINEAR, {ridge = true, mix = true}), "squared")
  if not c.lambda and not c.share then fail "descent.enet wants `lambda`, or `share` of the largest one" end
  return linear_job(c)
end

---L1-penalised logistic regression: sum w log(1 + exp(-y (b + X x))) + lambda sum c |x|; labels of two classes.
---@param o table as of descent.lasso
---@return tide.job
function descent.logistic(o)
  local c <const> = check_linear("descent.logistic", o, LINEAR, "logistic")
  if not c.lambda and not c.share then fail "descent.logistic wants `lambda`, or `share` of the largest one" end
  return linear_job(c)
end

---A path of penalties from the largest that lets a variable in, with warm starts, and cross-validation.
---@param o table as of descent.lasso without lambda, and model = "lasso"|"enet"|"logistic", lambdas = how many (100) or
---  a falling list, ratio = the last over the first (1e-3), folds = nil or how many
---@return tide.job
function descent.path(o)
  local c <const> = check_linear("descent.path", o, with(LINEAR, PATH, {ridge = true, mix = true}),
    o.model == "logistic" and "logistic" or "squared")
  if not ({lasso = true, enet = true, logistic = true})[o.model or "lasso"] then
    fail(("descent.path: model `%s` is none of lasso, enet, logistic"):format(tostring(o.model)))
  end
  if c.lambda or c.share then fail "descent.path has `lambdas`, not one lambda" end
  if c.mode == "sets" then fail "descent.path: paths are of Gram working sets; mode is auto or gram" end
  c.lambdas, c.ratio, c.path = c.lambdas or 100, c.ratio or 1e-3, true
  if type(c.lambdas) == "table" then
    for i, v in ipairs(c.lambdas) do
      if type(v) ~= "number" or v <= 0 or (i > 1 and v >= c.lambdas[i - 1]) then
        fail "descent.path: `lambdas` is a falling list of numbers above 0"
      end
    end
  elseif math.type(c.lambdas) ~= "integer" or c.lambdas < 1 then
    fail "descent.path: `lambdas` is a number of them or a list"
  end
  return linear_job(c)
end

---- models of the script's own --------------------------------------------------------------------------------------

local OWN <const> = {
  name = true, variables = true, mode = true, set = true, check = true, theta = true, tau = true, floor = true,
  order = true, ahead = true, schedule = true, push = true, pull = true, apply = true, objective = true,
  dependency = true, divide = true, start = true, rounds = true, tolerance = true, seed = true, checkpoint = true,
  data = true,
}

---A model of three small functions: push(w, set, x) gives this worker's part of sums, pull(x, set, sums) the changes of
---the set's variables, apply(w, set, changes, x) makes what follows from them on this worker. divide(w, index, size, x)
---says which part of the examples is this worker's from now on; objective(w, x) is its part of what falls.
---schedule(state, round) gives the candidates of a round (state:active(n), :priority(n), :random(n), :blocks(n), or a
---list); dependency(j, k) how much j and k spoil each other, 0 to 1.
---@param o table {name, variables, push, pull, ..., set, check, theta, tau, floor, order, ahead, rounds, seed}
---@return tide.job
function descent.job(o)
  script.check_fields("T0203", "descent.job", o, OWN)
  if math.type(o.variables) ~= "integer" or o.variables < 1 then
    fail "descent.job wants `variables`, how many there are"
  end
  for _, key in ipairs {"push", "pull"} do
    if type(o[key]) ~= "function" then fail(("descent.job wants `%s`, a function"):format(key)) end
  end
  for _, key in ipairs {"schedule", "apply", "objective", "dependency", "divide"} do
    if o[key] ~= nil and type(o[key]) ~= "function" then fail(("descent.job: `%s` is no function"):format(key)) end
  end
  if o.mode and o.mode ~= "sets" then fail "descent.job: models of the script's own are optimised by sets" end
  if not o.objective and not o.rounds then fail "descent.job wants `objective`, or `rounds` after which it ends" end
  descent.check_checkpoint("descent.job", o)
  local c <const> = copied(o)
  c.tolerance = c.tolerance or 1e-6
  local all <const> = (c.checkpoint and 2 or 1) * c.variables + 1
  local job <const> = require("tide.run.job").new {
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

---The variables that a run of descent.job has found.
---@param run tide.run
---@return table f64 tensor
function descent.variables(run)
  local J <const> = run.job.descent_variables
  if not J then fail "descent.variables wants a run of descent.job" end
  return descent.load(run.tables.x, J)
end

---- factorisations -------------------------------------------------------------------------------------------------

local CCD <const> = {name = true, data = true, rank = true, l2 = true, weighted = true, passes = true, inner = true,
                     tolerance = true, seed = true, checkpoint = true}

---Matrix factorisation by cyclic coordinate descent: sum (R - W H)^2 + l2 (|W|^2 + |H|^2) over the cells that are
---there; weighted: a row's and a column's squares count as often as it has cells. Tables w and h have the factors.
---@param o table {name, data = tide.data.matrix(..), rank = 10, l2, weighted, passes = 20, inner = 1, tolerance, seed}
---@return tide.job
function descent.ccd(o)
  script.check_fields("T0203", "descent.ccd", o, CCD)
  descent.check_checkpoint("descent.ccd", o)
  local c <const> = copied(o)
  c.rank, c.passes, c.inner = c.rank or 10, c.passes or 20, c.inner or 1
  c.tolerance, c.l2 = c.tolerance or 0, c.l2 or 0.1
  for _, key in ipairs {"rank", "passes", "inner"} do
    if math.type(c[key]) ~= "integer" or c[key] < 1 then
      fail(("descent.ccd: `%s` is %s, not a whole number from 1 on"):format(key, tostring(c[key])))
    end
  end
  if type(c.l2) ~= "number" or not (c.l2 >= 0 and c.l2 < math.huge) then
    fail "descent.ccd: `l2` is a number of 0 or more"
  end
  if not require("tide.data").is_set(c.data) then fail "descent.ccd wants `data`, a tide.data.matrix" end
  return require("tide.run.job").new {
    name = c.name, seed = c.seed or 1, checkpoint = c.checkpoint, on_worker_loss = "replay",
    tables = function()
      local copies <const> = require("tide.nn.replica").copies()
      local function factor(count)
        return table_spec.new {keys = table_spec.dense(count), width = c.rank, slots = "range", update = {"assign"},
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
local model = {}
model.__index = model

---What a finished run has found.
---@param run tide.run
---@return tide.descent.model
function descent.model(run)
  local o <const> = run.job.descent
  if not o then fail "descent.model wants a run of descent.lasso, enet, logistic or path" end
  local J <const> = o.data.columns
  local all <const> = descent.load(run.tables.x, J + 1)
  return setmetatable({coefficients = all:slice(1, J):copy(), intercept = all[J + 1], logistic = o.model == "logistic",
                       classes = o.data.classes}, model)
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
  local out <const> = core.tensor("f64", n, 1)
  local kernel <const> = core.kernel "mtl_product"
  local a <const> = {kind = "there", d = #self.coefficients, rows = n, from = self.coefficients, to = out}
  if rows.x then
    a.values = rows.x
  else
    a.offsets, a.indices, a.values = rows.offsets, rows.indices, rows.values
  end
  kernel(a)
  core.kernel "vector_add" {to = out, plus = self.intercept}
  return out
end

return descent
