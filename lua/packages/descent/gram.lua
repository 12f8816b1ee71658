-- Gram working sets (Massias, Gramfort and Salmon, "Celer", ICML 2018; covariance updates as in glmnet): all workers
-- know the products of the columns of few variables, and solve for them alike without a message. What travels is the
-- gradient of all variables, once a round, and the products of columns that are new in the set.
--
-- The set and its matrix are made anew when the workers change; x, which all have, is all that a round begins with.
-- A run that is resumed lets the same variables in by the same steps, so that its matrix has the same bits.
-- Logistic regression does the same inside Newton steps: products are weighted by the curvature of the loss.
local ending = require "tide.descent.ending"
local kernels = require("tide.package").kernels
local linear = require "tide.descent.linear"
local package = require "tide.package"
local tensor = require "tide.tensor"

local choose <const>, grow <const>, solve <const> = kernels.descent_choose, kernels.descent_grow,
  kernels.descent_solve
local gram_of <const>, apply <const> = kernels.descent_gram, kernels.descent_apply
local dots <const>, logistic <const> = kernels.descent_dots, kernels.descent_logistic
local add <const>, put <const>, dot <const> = kernels.vector_add, kernels.vector_put,
  kernels.vector_dot

local SET_LEAST <const> = 100
local SLOW <const>, HALF <const> = 3, 0.5 -- steps in a row after which the gap is more than so much of the one before
local STEPS <const> = 12 -- of the line search: 1, 1/2, 1/4, ..

---@class tide.descent.gram: tide.team.part
---@field problem tide.descent.linear
local gram = {}
gram.__index = gram

---@param o table as tide.descent checks it
---@param model? tide.descent.linear that another way to choose has begun with
function gram.new(w, team, o, model)
  local self <const> = setmetatable({w = w, team = team, o = o, problem = model or linear.new(team, o), round = 0,
                                     results = {}, stage = 1, at = 1}, gram)
  self.lambdas = o.lambda and {o.lambda} or nil
  return self
end

---- messages between workers -------------------------------------------------------------------------------------

function gram:kept()
  local p <const>, steps <const> = self.problem, {}
  for i, count in ipairs(self.grown or {}) do steps[i] = count end
  return {b = p.b, round = self.round, stage = self.stage, at = self.at, lambdas = self.lambdas or false,
          results = self.results, best = self.best or false, due = self.due or false, most = self.most or false,
          null = self.null or false, ending = self.ending or false, fitted = self.fitted or false,
          exact = self.exact or false, slow = self.slow or 0, gap = self.gap_before or false,
          set = self.ready and self.set or false, grown = steps}
end

function gram:state()
  local s <const> = self:kept()
  s.x, s.set = self.problem.x, nil
  return s
end

function gram:take(s)
  local p <const> = self.problem
  p.b, self.round, self.stage, self.at = s.b, s.round, s.stage, s.at
  self.lambdas, self.results, self.best, self.due = s.lambdas or nil, s.results, s.best or nil, s.due or nil
  self.most, self.null, self.ending, self.fitted = s.most or nil, s.null or nil, s.ending or nil, s.fitted
  self.exact, self.slow, self.gap_before = s.exact, s.slow, s.gap or nil
end

function gram:adopt(s)
  self.problem.x:put(1, s.x)
  self:take(s)
end

---Coefficients, and the intercept behind them: what table x has.
---@return table f64 tensor
---@return boolean whether they are those of a fit of all examples, even if one that has not ended
function gram:numbers() return self.problem:numbers(), self.fitted or false end

---The state of a checkpoint, whose x is in a table.
function gram:fetch(s, numbers)
  self.problem.x:put(1, numbers:slice(1, self.problem.J))
  self:take(s)
  self.former = s.set and {set = s.set, grown = s.grown} or nil
end

---What a resumed run makes anew, so that both continue with the same bits.
function gram:refresh()
  if self.ready then self.problem:rebuild() end
  self.fresh = false
end

function gram:digest() return self.problem:digest() end

function gram:divide()
  self.problem.fold = self:fold()
  self.problem:divide()
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
  self.set, self.gram, self.known, self.grown = tensor.from("u32", list), nil, 0, {}
end

---Lets variables in, by |z_j| / c_j. Where there would be too many, those that are 0 leave first.
---@param over integer how many of those outside have a gradient above the penalty
---@return boolean false: even so they would be too many
local function extend_set(self, lambda, over)
  local p <const>, most <const> = self.problem, self.o.gram_most
  local support <const> = math.tointeger(dot({x = p.x}).nonzero)
  local m = #self.set
  if m + over > most then
    if 2 * support > most then
      self.outgrown = {support = support, over = over}
      return false
    end
    begin_set(self)
    m = #self.set
  end
  local room <const> = math.max(math.max(SET_LEAST, 2 * support) - m, math.min(over, math.max(SET_LEAST, m // 2)), 0)
  local count <const> = math.max(0, math.min(room, p.J, most - m))
  if count == 0 then return true end
  local out <const> = tensor.zeros("u32", count)
  local r <const> = choose {z = p.zr, c = p.c, inside = self.inside, count = count, positive = self.o.positive or false,
                            least = 0.3 * lambda, out = out}
  local chosen <const> = math.tointeger(r.chosen)
  if chosen == 0 then return true end
  local set <const> = tensor.zeros("u32", m + chosen)
  set:put(1, self.set)
  set:put(m + 1, out:slice(1, chosen))
  for i = 1, chosen do self.inside[out[i] + 1] = 1 end
  self.set = set
  return true
end

---Products of the columns of the set with one another, weighted, of all workers.
local function extend_matrix(self)
  local p <const>, all <const>, m <const> = self.problem, #self.set, self.known
  if all == m then return end
  local part <const> = tensor.zeros("f64", all - m, all)
  p:kernel(gram_of, {set = self.set, from = m, weights = p.weights, out = part, exact = self.exact or false})
  local rows <const> = self.team:sum("products", part)
  local wide <const> = tensor.zeros("f64", all, all)
  local means
  if p.mean then means = tensor.zeros("f64", all):pick(p.mean, self.set) end
  grow {old = self.gram, rows = rows:view(1, all - m, all), out = wide, means = means, weight = p.weight}
  self.gram, self.known = wide, all
  self.grown[#self.grown + 1] = all
end

---The set of a checkpoint, and its products by the steps in which they were made.
local function restore_set(self, former)
  begin_set(self)
  for i = 1, #former.set do self.inside[former.set[i] + 1] = 1 end
  for _, count in ipairs(former.grown) do
    self.set = former.set:slice(1, count):copy()
    extend_matrix(self)
  end
  self.set = former.set
end

---- steps ----------------------------------------------------------------------------------------------------------

local function picked(self, from) return tensor.zeros("f64", #self.set):pick(from, self.set) end

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
  if m == 0 then return tensor.zeros("f64", 0, 0), tensor.zeros("f64", 0) end
  local part <const> = tensor.zeros("f64", m + 1, m)
  p:kernel(gram_of, {set = self.set, weights = p.curvature, out = part:slice(1, m), exact = self.exact or false})
  p:kernel(dots, {set = self.set, v = p.curvature, out = part:slice(m + 1, 1)})
  local sum <const> = self.team:sum("curvatures", part):view(1, m + 1, m)
  local means <const> = sum:slice(m + 1, 1):copy()
  local wide <const> = tensor.zeros("f64", m, m)
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
  local move <const> = tensor.zeros("f64", p.n):fill(db + 0.0)
  p:kernel(apply, {set = self.set, v = move, d = d, by = 1})
  local part <const> = tensor.zeros("f64", STEPS)
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

---@return integer|nil fold that this stage leaves out; the first stage takes all examples, and the one behind the folds
function gram:fold() return self.stage > 1 and self.stage <= (self.o.folds or 0) + 1 and self.stage - 1 or nil end

---The penalty's two parts. They are beside a sum over examples: those that a fold is fitted to have their share.
local function mixed(self, lambda)
  local mix <const>, share <const> = self.o.mix, self.problem.fold_share
  if mix then return share * lambda * mix, share * lambda * (1 - mix) end
  return share * lambda, share * (self.o.ridge or 0)
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
                          support = dot({x = p.x}).nonzero, intercept = p:intercept(), rounds = self.round,
                          set = #self.set, lambda_most = self.most, passes = self.passes or 0}
  if self:fold() then
    fields.held_out, fields.held = p:held_out()
    table.insert(self.results[self.at], {sum = fields.held_out, weight = fields.held})
  else
    local null <const> = self.null or p.sums.loss
    self.null = null
    local whole <const> = p.logistic and null or p.y_square / 2
    if whole > 0 then fields.explained = 1 - p.sums.loss / whole end
    self.results[self.at] = self.results[self.at] or {}
  end
  self.round, self.ending, self.still, self.gap_before = self.round + 1, nil, false, nil
  self.fitted = not self:fold() -- without a step, where x = 0 is the best
  local folds <const> = o.folds or 0
  if self.best or folds == 0 and self.at == #self.lambdas then
    local best <const> = self.best or {}
    fields.last, fields.best_lambda = 1, lambda
    fields.best_error, fields.best_deviation = best.error, best.deviation
  elseif self.at < #self.lambdas then
    self.at = self.at + 1
  else -- another fold, or all examples again, with the best penalty
    self.at, self.stage = 1, self.stage + 1
    if self.stage > folds + 1 then
      self.best = self:choose_best()
      self.at = self.best.at
    end
    p.x:fill(0)
    p.b = 0.0
    p:weigh(self:fold())
    self.ready, self.fitted = false, false
  end
  self.due = {alike = fields, last = fields.last ~= nil}
end

---The penalty with the least error of held-out examples, and the standard error of its mean over the folds.
---@return {error: number, deviation: number, at: integer}
function gram:choose_best()
  local best = {error = math.huge, deviation = 0, at = 1}
  for i, folds in ipairs(self.results) do
    local sum, weight, around = 0, 0, 0
    for _, f in ipairs(folds) do sum, weight = sum + f.sum, weight + f.weight end
    local mean <const> = sum / weight
    if mean < best.error then
      for _, f in ipairs(folds) do
        if f.weight > 0 then around = around + f.weight * (f.sum / f.weight - mean) ^ 2 end
      end
      best = {error = mean, at = i, deviation = math.sqrt(around / weight / (#folds - 1))}
    end
  end
  return best
end

---Products of dense columns are f32, which nearly dependent columns make too rough to steer by: when the gap falls
---slowly they are made anew, in f64.
local function mind_digits(self, gap)
  local before <const> = self.gap_before
  self.gap_before = gap
  self.slow = before and gap > HALF * before and (self.slow or 0) + 1 or 0
  if self.slow < SLOW or self.exact or self.problem.columns.offsets then return end
  self.exact, self.gram, self.known, self.grown = true, nil, 0, {}
end

---Whether this penalty's fit is over: its gap is within the tolerance, or nothing gets better any more.
local function is_over(self, objective, gap, goal)
  local over
  mind_digits(self, gap)
  self.ending, over = ending.look(self.ending, objective, gap)
  if gap > goal and (over or self.still) and self.problem.team.index == 1 then
    self.w:log(ending.unmet(ending.STILL, self.o.tolerance, gap, objective))
  end
  return gap <= goal or over or self.still
end

function gram:step()
  local p <const>, o <const> = self.problem, self.o
  if not self.ready then
    p:moments()
    p:rebuild()
    if self.former then restore_set(self, self.former) else begin_set(self) end
    self.former = nil
    self.ready, self.fresh, self.still = true, false, false
  end
  if not self.fresh then p:gradient() end
  self.fresh = true
  local given <const> = self.lambdas and self.lambdas[self.at]
  local lambda, ridge = mixed(self, given or 0)
  p:value(lambda, ridge)
  local r = choose {z = p.zr, c = p.c, inside = self.inside, count = 0, positive = o.positive or false, least = lambda,
                    out = tensor.zeros("u32", 0)}
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
  if given and is_over(self, objective, gap, goal) then return arrived(self, objective, gap) end
  if given and not extend_set(self, lambda, math.tointeger(r.over)) then return end
  local tolerance <const> = math.max(0.05 * gap / math.max(objective, 1e-300), 0.2 * o.tolerance)
  if p.logistic then
    logistic_step(self, lambda, ridge, tolerance, objective)
  else
    squared_step(self, lambda, ridge, tolerance, objective)
  end
  self.round, self.fresh = self.round + 1, false
  self.fitted = given ~= nil and not self:fold()
  if given and not o.path then
    self.due = {alike = {objective = objective, gap = gap, lambda = given, support = dot({x = p.x}).nonzero,
                         rounds = self.round, set = #self.set, intercept = p:intercept(), lambda_most = self.most}}
  end
end

---Why this way to choose cannot continue.
---@return string|nil
function gram:refuses()
  local o <const> = self.outgrown
  return o and ("%d variables are not 0, %d more ought not to be, and `gram_most` is %d"):format(o.support, o.over,
    self.o.gram_most)
end

function gram:advance()
  repeat self:step() until self.due or self.outgrown
  if self.outgrown and self.o.mode ~= "auto" then
    error(package.error("T0203", self:refuses(), {help = 'mode = "sets", a larger lambda, or a larger gram_most'}), 0)
  end
end

return gram
