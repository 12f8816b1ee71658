-- Gram working sets (Massias, Gramfort and Salmon, "Celer", ICML 2018; covariance updates as in glmnet): all workers
-- know the products of the columns of few variables, and solve for them alike without a message. What travels is the
-- gradient of all variables, once a round, and the products of columns that are new in the set.
--
-- The set and its matrix are made anew when the workers change; x, which all have, is all that a round begins with.
-- Logistic regression does the same inside Newton steps: products are weighted by the curvature of the loss.
local core = require "tide.core"
local linear = require "tide.descent.linear"
local script = require "tide.script"

local choose <const>, grow <const>, solve <const> = core.kernel "descent_choose", core.kernel "descent_grow",
  core.kernel "descent_solve"
local gram_of <const>, apply <const> = core.kernel "descent_gram", core.kernel "descent_apply"
local dots <const>, logistic <const> = core.kernel "descent_dots", core.kernel "descent_logistic"
local add <const>, put <const>, dot <const> = core.kernel "vector_add", core.kernel "vector_put",
  core.kernel "vector_dot"

local SET_LEAST <const> = 100
local STEPS <const> = 12 -- of the line search: 1, 1/2, 1/4, ..

---@class tide.descent.gram: tide.team.part
---@field problem tide.descent.linear
local gram = {}
gram.__index = gram

---@param o table as tide.descent checks it
function gram.new(w, team, o)
  local self <const> = setmetatable({w = w, team = team, o = o, problem = linear.new(team, o), round = 0, results = {},
                                     stage = 1, at = 1, began = core.now()}, gram)
  self.lambdas = o.lambda and {o.lambda} or nil
  return self
end

---- what workers tell one another ---------------------------------------------------------------------------------

function gram:state()
  local p <const> = self.problem
  return {x = p.x, b = p.b, round = self.round, stage = self.stage, at = self.at, lambdas = self.lambdas or false,
          results = self.results, best = self.best or false, due = self.due or false, most = self.most or false}
end

function gram:adopt(s)
  local p <const> = self.problem
  p.x:put(1, s.x)
  p.b, self.round, self.stage, self.at = s.b, s.round, s.stage, s.at
  self.lambdas, self.results, self.best, self.due = s.lambdas or nil, s.results, s.best or nil, s.due or nil
  self.most = s.most or nil
end

function gram:divide()
  self.problem.fold = self:fold()
  self.problem:divide(self.shares)
  self.ready = false
end

---- the set --------------------------------------------------------------------------------------------------------

---Variables that are not 0, and those without a penalty.
local function begin_set(self)
  local p <const> = self.problem
  self.inside = p.inside_at_first:copy()
  local list, known = {}, {}
  local function enter(j)
    if known[j] or p.inside_at_first[j + 1] == 2 then return end
    known[j] = true
    list[#list + 1] = j
    self.inside[j + 1] = 1
  end
  for _, j in ipairs(p.free) do enter(j) end
  for j, v in pairs(p.x) do
    if v ~= 0 then enter(j - 1) end
  end
  self.set, self.gram, self.known = core.tensor("u32", list), nil, 0
end

---Lets variables in, by |z_j| / c_j.
local function extend_set(self, lambda, over)
  local p <const>, m <const> = self.problem, #self.set
  local support <const> = dot({x = p.x}).nonzero
  local room <const> = math.max(math.max(SET_LEAST, 2 * support) - m, math.min(over, math.max(SET_LEAST, m // 2)), 0)
  local count <const> = math.min(math.tointeger(room), p.J)
  if count == 0 then return end
  local out <const> = core.tensor("u32", count, 1)
  local r <const> = choose {z = p.zr, c = p.c, inside = self.inside, count = count, positive = self.o.positive or false,
                            least = 0.3 * lambda, out = out}
  local chosen <const> = math.tointeger(r.chosen)
  if chosen == 0 then return end
  local set <const> = core.tensor("u32", m + chosen, 1)
  set:put(1, self.set)
  set:put(m + 1, out:slice(1, chosen))
  for i = 1, chosen do self.inside[out[i] + 1] = 1 end
  self.set = set
  if #set > self.o.gram_most then
    error(script.error("T0203", ("%d variables are not 0 or near it, `gram_most` is %d"):format(#set, self.o.gram_most),
      {help = 'mode = "sets", a larger lambda, or a larger gram_most'}), 0)
  end
end

---Products of the columns of the set with one another, weighted, of all workers.
local function extend_matrix(self)
  local p <const>, all <const>, m <const> = self.problem, #self.set, self.known
  if all == m then return end
  local part <const> = core.tensor("f64", all - m, all)
  p:kernel(gram_of, {set = self.set, from = m, weights = p.weights, out = part})
  local rows <const> = self.team:sum("products", part)
  local wide <const> = core.tensor("f64", all, all)
  local means
  if p.mean then means = core.tensor("f64", all, 1):pick(p.mean, self.set) end
  grow {old = self.gram, rows = rows:view(1, all - m, all), out = wide, means = means, weight = p.weight}
  self.gram, self.known = wide, all
end

---- steps ----------------------------------------------------------------------------------------------------------

local function picked(self, from) return core.tensor("f64", #self.set, 1):pick(from, self.set) end

---x of the set becomes the solution of the quadratic problem around it.
---@return table x of the set before, table after
local function solve_set(self, matrix, z, lambda, ridge, tolerance, objective)
  local p <const> = self.problem
  local before <const> = picked(self, p.x)
  local after <const>, penalty <const>, ridges <const> = before:copy(), picked(self, p.c), picked(self, p.m)
  add {to = penalty, scale = lambda}
  add {to = ridges, scale = ridge}
  local r <const> = solve {gram = matrix, z = z, x = after, penalty = penalty, ridge = ridges,
                           positive = self.o.positive or false, tolerance = tolerance,
                           objective = math.max(objective, 1e-300)}
  self.passes = (self.passes or 0) + r.passes
  return before, after
end

local function squared_step(self, lambda, ridge, tolerance, objective)
  local p <const> = self.problem
  extend_matrix(self)
  local before <const>, after <const> = solve_set(self, self.gram, picked(self, p.z), lambda, ridge, tolerance,
    objective)
  put {to = p.x, set = self.set, values = after}
  local d <const> = before:copy()
  add {to = d, x = after, scale = -1}
  p:kernel(apply, {set = self.set, v = p.r, d = d})
end

---The products and column sums weighted by the curvature, centred where there is an intercept.
local function curved(self)
  local p <const>, m <const> = self.problem, #self.set
  if m == 0 then return core.tensor("f64", 0, 0), core.tensor("f64", 0, 1) end
  local part <const> = core.tensor("f64", m + 1, m)
  p:kernel(gram_of, {set = self.set, weights = p.curvature, out = part:slice(1, m)})
  p:kernel(dots, {set = self.set, v = p.curvature, out = part:slice(m + 1, 1)})
  local sum <const> = self.team:sum("curvatures", part):view(1, m + 1, m)
  local means <const> = sum:slice(m + 1, 1):copy()
  local wide <const> = core.tensor("f64", m, m)
  if p.o.intercept then
    add {to = means, scale = 1 / p.sums.curvature}
    grow {rows = sum:slice(1, m), out = wide, means = means:view(1, m, 1), weight = p.sums.curvature}
  else
    wide:put(1, sum:slice(1, m))
  end
  return wide, means:view(1, m, 1)
end

local function logistic_step(self, lambda, ridge, tolerance, objective)
  local p <const>, s <const> = self.problem, self.problem.sums
  local wide <const>, means <const> = curved(self)
  local z <const> = picked(self, p.z)
  if p.o.intercept then add {to = z, x = means, by = -s.slope} end
  local before <const>, after <const> = solve_set(self, wide, z, lambda, ridge, tolerance, objective)
  local d <const> = before:copy()
  add {to = d, x = after, scale = -1, by = 1}
  local db <const> = p.o.intercept and s.slope / s.curvature - dot({x = means, y = d}).sum or 0
  local move <const> = core.tensor("f64", p.n, 1):fill(db + 0.0)
  p:kernel(apply, {set = self.set, v = move, d = d, by = 1})
  local part <const> = core.tensor("f64", STEPS, 1)
  for k = 1, STEPS do
    part[k] = logistic({v = p.r, d = move, step = 0.5 ^ (k - 1), y = p.y, weights = p.weights}).loss
  end
  local losses <const> = self.team:sum("trials", part)
  local c <const>, ridges <const> = picked(self, p.c), picked(self, p.m)
  local function at(step) -- the penalty
    local x <const> = before:copy()
    add {to = x, x = d, by = step}
    return lambda * dot({x = x, weights = c}).sizes + ridge / 2 * dot({x = x, y = x, weights = ridges}).sum
  end
  local old <const> = at(0)
  local slope <const> = -dot({x = picked(self, p.z), y = d}).sum - s.slope * db + at(1) - old
  local taken = 0
  for k = 1, STEPS do
    local step <const> = 0.5 ^ (k - 1)
    if losses[k] + at(step) - s.loss - old <= 0.01 * step * math.min(slope, 0) + 1e-15 * objective then
      taken = step
      break
    end
  end
  self.still = taken == 0
  if taken == 1 then
    put {to = p.x, set = self.set, values = after}
  else
    add {to = before, x = d, by = taken}
    put {to = p.x, set = self.set, values = before}
  end
  p.b = p.b + taken * db
  add {to = p.r, x = move, by = taken}
end

---- rounds ---------------------------------------------------------------------------------------------------------

---@return integer|nil fold that this stage leaves out; the first stage takes all examples
function gram:fold() return self.stage > 1 and self.stage - 1 or nil end

local function mixed(self, lambda)
  local mix <const> = self.o.mix
  if mix then return lambda * mix, lambda * (1 - mix) end
  return lambda, self.o.ridge or 0
end

---The penalties of the path, when the largest that lets a variable in is known.
local function make_path(self, most)
  local o <const> = self.o
  local top <const> = o.mix and most / o.mix or most
  self.most = top
  if o.share then
    self.lambdas = {top * o.share}
  elseif type(o.lambdas) == "table" then
    self.lambdas = o.lambdas
  else
    self.lambdas = {}
    for k = 1, o.lambdas do self.lambdas[k] = top * o.ratio ^ ((k - 1) / math.max(1, o.lambdas - 1)) end
  end
end

---Nothing is left to do with this penalty: the next one, the next fold, or the end.
local function arrived(self, objective, gap)
  local p <const>, o <const> = self.problem, self.o
  local lambda <const> = self.lambdas[self.at]
  local fields <const> = {stage = self.stage, lambda = lambda, objective = objective, gap = gap,
                          support = dot({x = p.x}).nonzero, intercept = p.b, rounds = self.round,
                          set = #self.set, lambda_most = self.most, passes = self.passes or 0}
  if self.stage > 1 then
    local sum <const>, count <const> = p:held_out()
    fields.held_out, fields.held = sum, count
    local r <const> = self.results[self.at]
    r.folds = r.folds or {}
    table.insert(r.folds, sum / math.max(1, count))
  else
    local null <const> = self.null or p.sums.loss
    self.null = null
    fields.explained = 1 - p.sums.loss / (p.logistic and null or p.y_square / 2)
    local set, values = {}, {}
    for j, v in pairs(p.x) do
      if v ~= 0 then set[#set + 1], values[#values + 1] = j - 1, v end
    end
    self.results[self.at] = {lambda = lambda, set = core.tensor("u32", set), values = core.tensor("f64", values),
                             b = p.b}
  end
  self.round = self.round + 1
  local last <const> = self.at == #self.lambdas
  if not last then
    self.at = self.at + 1
  elseif self.stage <= (o.folds or 0) then
    self.at, self.stage = 1, self.stage + 1
    p.x:fill(0)
    p.b = 0.0
    p:weigh(self:fold())
    self.ready = false
  else
    self:choose_best(fields)
    fields.last = 1
  end
  self.due = {alike = fields, last = fields.last ~= nil}
end

---With folds: the penalty with the least mean error; x becomes what it gives.
function gram:choose_best(fields)
  local best <const>, p <const> = {error = math.huge}, self.problem
  for i, r in ipairs(self.results) do
    local folds <const> = r.folds or {}
    local sum, squares = 0, 0
    for _, v in ipairs(folds) do sum, squares = sum + v, squares + v * v end
    local mean <const> = #folds > 0 and sum / #folds or 0
    if #folds == 0 or mean < best.error then
      best.error, best.at = mean, i
      best.deviation = #folds > 1 and math.sqrt(math.max(0, squares / #folds - mean ^ 2) / (#folds - 1)) or 0
    end
  end
  local r <const> = self.results[best.at]
  fields.best_lambda, fields.best_error, fields.best_deviation = r.lambda, best.error, best.deviation
  p.x:fill(0)
  if #r.set > 0 then put {to = p.x, set = r.set, values = r.values} end
  p.b = r.b
end

function gram:step()
  local p <const>, o <const> = self.problem, self.o
  if not self.ready then
    p:moments()
    p:rebuild()
    begin_set(self)
    self.ready, self.fresh, self.still = true, false, false
  end
  if not self.fresh then p:gradient() end
  self.fresh = true
  local given <const> = self.lambdas and self.lambdas[self.at]
  local lambda, ridge = mixed(self, given or 0)
  p:value(lambda, ridge)
  local r = choose {z = p.zr, c = p.c, inside = self.inside, count = 0, positive = o.positive or false, least = lambda,
                    out = core.tensor("u32", 0, 1)}
  if not given then -- the largest penalty that lets a variable in is asked for
    lambda = math.max(r.most, 1e-300)
    if p:free_gain() <= 1e-3 * o.tolerance * p:value(0, 0) then
      make_path(self, r.most)
      self.round = self.round + 1
      return
    end
  end
  local objective <const> = p:value(lambda, ridge)
  local gap <const> = p:gap(lambda, ridge, r.most)
  local goal <const> = o.tolerance * math.max(objective, 1e-300)
  if given and (gap <= goal or self.still) then return arrived(self, objective, gap) end
  if given then extend_set(self, lambda, math.tointeger(r.over)) end
  local tolerance <const> = math.max(0.05 * gap / math.max(objective, 1e-300), 0.2 * o.tolerance)
  if p.logistic then
    logistic_step(self, lambda, ridge, tolerance, objective)
  else
    squared_step(self, lambda, ridge, tolerance, objective)
  end
  self.round, self.fresh = self.round + 1, false
  if given and not o.path then
    self.due = {alike = {objective = objective, gap = gap, lambda = given, support = dot({x = p.x}).nonzero,
                         rounds = self.round, set = #self.set, intercept = p.b, lambda_most = self.most}}
  end
end

function gram:advance()
  repeat self:step() until self.due
end

return gram
