-- Linear models of examples that are divided over workers: a worker's rows by column, residuals or scores, and what the
-- objective and its certificate are, from sums over all. Used by the ways to choose (gram.lua, sets.lua).
--
-- Squared loss: 1/2 sum w_i (y_i - b - x_i.x)^2 + sum_j L c_j |x_j| + M_j x_j^2 / 2. Logistic: sum w_i log(1 + exp(-y_i
-- (b + x_i.x))) + sum_j L c_j |x_j|. With an intercept b is always the best one. Columns that have a number in every
-- example are less their mean where they are read (`shift`), so that one whose mean is far above its deviation keeps
-- its digits; of the others sums are centred, so that zeros stay zeros. A scaled column has c_j and M_j multiplied
-- instead.
local data = require "tide.data"
local ending = require "tide.descent.ending"
local folds = require "tide.descent.folds"
local kernels = require("tide.package").kernels
local package = require "tide.package"
local tensor = require "tide.tensor"
local tide = require "tide"

local dots <const>, apply <const> = kernels.descent_dots, kernels.descent_apply
local add <const>, dot <const>, times <const> = kernels.vector_add, kernels.vector_dot,
  kernels.vector_times
local logistic <const>, columns_of <const> = kernels.descent_logistic, kernels.sparse_columns

-- The sum of squares around the mean, as a share of that around 0, of a column that counts as constant: one whose mean
-- was subtracted before squares were summed, and one where sums were subtracted, which leaves their rounding.
local LEAST_LAMBDA <const> = 1e-14 -- beside the largest
local CONSTANT <const>, UNRESOLVED <const> = 1e-26, 1e-13

---@class tide.descent.linear
---@field x table f64 tensor, coefficients; b: the intercept
---@field n integer rows of this worker; total: of all
---@field fold_share number weight of the examples that are fitted, as a share of that of all
---@field shift table|nil f64 tensor, what columns are less, with an intercept; y_shift: what the labels are less
---@field mean table|nil f64 tensor, means of the columns that are left, with an intercept
local linear = {}
linear.__index = linear

local function fail(message, help) error(package.error("T0203", message, {help = help}), 0) end

---@return table f64 tensor of a list, a tensor or a number for each, which the driver has checked
local function numbers(value, count, default)
  local out <const> = tensor.zeros("f64", count)
  if value == nil or type(value) == "number" then return out:fill((value or default) + 0.0) end
  for i = 1, count do out[i] = value[i] end
  return out
end

---@param o table data, model ("squared"|"logistic"), intercept, standardise, weights, penalty, positive
function linear.new(team, o)
  local part <const> = o.data:whole(o.part or "train")
  local self = setmetatable({team = team, o = o, part = part, total = part:rows(), J = part.columns or o.data.columns,
                             logistic = o.model == "logistic", b = 0.0}, linear)
  self.x = tensor.zeros("f64", self.J)
  self.zeros = tensor.zeros("f64", self.J)
  return self
end

---- this worker's rows --------------------------------------------------------------------------------------------

local function labels_of(self)
  local y <const>, labels <const> = tensor.zeros("f64", self.n), self.rows.labels
  if self.logistic then
    local classes <const> = self.o.data.classes
    if classes and #classes ~= 2 then
      fail(("logistic regression has two classes, the data has %d"):format(#classes))
    end
    for i = 1, self.n do
      local label = labels[i]
      if classes then
        label = label == 1 and 1 or -1
      elseif label ~= 1 and label ~= -1 then
        if label ~= 0 then
          fail(("label %g of example %d is none of -1, 0 and 1"):format(label, self.first + i - 1),
            'read the data with labels = "class"')
        end
        label = -1
      end
      y[i] = label
    end
  else
    for i = 1, self.n do
      local label <const> = labels[i]
      if label ~= label or label == math.huge or label == -math.huge then
        fail(("label %d of the data is not finite"):format(self.first + i - 1))
      end
      y[i] = label
    end
  end
  return y
end

---Coefficients, and the intercept behind them.
---@return table f64 tensor
function linear:numbers()
  local all <const> = tensor.zeros("f64", self.J + 1)
  all:put(1, self.x)
  all[self.J + 1] = self:intercept()
  return all
end

---The intercept of columns and labels as they are given.
---@return number
function linear:intercept()
  if not self.shift then return self.b end
  local b <const> = self.logistic and self.b or self.y_shift + self.y_mean - dot({x = self.mean, y = self.x}).sum
  return b - dot({x = self.shift, y = self.x}).sum
end

---A digest of the examples, which all workers have to have alike.
---@return string
function linear:digest()
  local p <const> = self.part
  return data.digest(p.x and {p.x, p.labels} or {p.offsets, p.indices, p.values, p.labels})
end

---Cuts out this worker's rows, by column; more where a worker is faster.
function linear:divide()
  self.first, self.n = self.team:piece(self.total, self.team.shares)
  local key <const> = self.first .. ":" .. self.n
  if self.cut ~= key then
    self.cut = key
    local rows <const> = self.part:slice(self.first, self.n)
    self.rows = rows
    if rows.x then -- dense
      self.columns = {values = rows:by_column(), n = self.n}
    else
      local entries <const> = rows:entries()
      local c <const> = {offsets = tensor.zeros("u64", self.J + 1), rows = tensor.zeros("u32", entries),
                         values = tensor.zeros("f32", entries), n = self.n}
      columns_of {offsets = rows.offsets, indices = rows.indices, values = rows.values, columns = self.J,
                  to_offsets = c.offsets, to_rows = c.rows, to_values = c.values}
      self.columns = c
    end
    self.labels = labels_of(self)
    self.y = self.labels
    self.weights = nil
    self.r = tensor.zeros("f64", self.n)
    self.slope, self.curvature = tensor.zeros("f64", self.n), tensor.zeros("f64", self.n)
  end
  self:weigh(self.fold)
end

---Deals the examples to the folds; the same on all workers.
local function deal_folds(self)
  local o <const>, order, labels <const> = self.o, {}, self.part.labels
  for k, i in pairs(data.order(self.total, o.seed or 1)) do order[k] = math.tointeger(i) + 1 end
  local function class(i) return labels[i] == 1 and 1 or 2 end
  local note
  self.fold_of, note = folds.of(order, o.folds, {weights = o.weights, class = self.logistic and class or nil})
  if note and self.team.index == 1 then self.team.w:log(note) end
end

---Weights of the examples; those of a fold are 0.
---@param fold? integer of o.folds, from 1
function linear:weigh(fold)
  local o <const> = self.o
  self.fold, self.weights, self.fold_share = fold, nil, 1
  if not o.weights and not fold then return end
  if fold and not self.fold_of then deal_folds(self) end
  local weights <const>, all, kept = tensor.zeros("f64", self.n), 0, 0
  for i = 1, self.total do
    local v <const> = o.weights and o.weights[i] or 1
    local own <const> = fold and self.fold_of[i] == fold and 0 or v
    all, kept = all + v, kept + own
    if i >= self.first and i < self.first + self.n then weights[i - self.first + 1] = own end
  end
  self.weights, self.fold_share = weights, kept / all
end

---A kernel of columns with these arguments.
local function on(self, kernel, a)
  local c <const> = self.columns
  a.offsets, a.rows, a.values, a.n, a.shift = c.offsets, c.rows, c.values, c.n, self.shift
  return kernel(a)
end

function linear:kernel(kernel, a) return on(self, kernel, a) end

---- sums over all -------------------------------------------------------------------------------------------------

---Sums of weight, columns and labels over all examples, and of how many have a number in each column.
local function first_moments(self, w)
  local J <const> = self.J
  local part <const>, counted = tensor.zeros("f64", 3 * J + 4), w
  if self.weights then
    counted = w:copy()
    for i = 1, self.n do counted[i] = w[i] > 0 and 1 or 0 end
  end
  on(self, dots, {v = w, out = part:slice(1, J)})
  on(self, dots, {v = w, out = part:slice(J + 1, J), power = 2})
  on(self, dots, {v = counted, out = part:slice(2 * J + 1, J), power = 0})
  part[3 * J + 1], part[3 * J + 2] = dot({x = w}).sum, dot({x = self.labels, weights = w}).sum
  part[3 * J + 3], part[3 * J + 4] = dot({x = counted}).sum, dot({x = self.labels, y = self.labels, weights = w}).sum
  local sum <const> = self.team:sum("moments", part)
  self.weight = sum[3 * J + 1]
  if self.weight <= 0 then fail "all weights of examples are 0" end
  for j = 1, J do
    local whole <const> = sum[J + j]
    if whole ~= whole or whole == math.huge then
      fail(("column %d of the data has numbers that are not finite"):format(j))
    end
  end
  return {sums = sum:slice(1, J), squares = sum:slice(J + 1, J), entries = sum:slice(2 * J + 1, J),
          labels = sum[3 * J + 2], rows = sum[3 * J + 3], label_squares = sum[3 * J + 4]}
end

---Means, and squares around them: columns that have a number in every example are less their mean from here on, so
---that the second pass has no large numbers to subtract.
local function centre(self, w, first)
  local J <const>, weight <const> = self.J, self.weight
  self.shift = tensor.zeros("f64", J)
  for j = 1, J do
    if first.entries[j] == first.rows then self.shift[j] = first.sums[j] / weight end
  end
  if not self.logistic then
    self.y_shift = first.labels / weight
    self.y = self.labels:copy()
    add {to = self.y, plus = -self.y_shift}
  end
  local part <const> = tensor.zeros("f64", 2 * J + 2)
  on(self, dots, {v = w, out = part:slice(1, J)})
  on(self, dots, {v = w, out = part:slice(J + 1, J), power = 2})
  part[2 * J + 1] = dot({x = self.y, weights = w}).sum
  part[2 * J + 2] = dot({x = self.y, y = self.y, weights = w}).sum
  local sum <const> = self.team:sum("centred", part)
  self.mean = sum:slice(1, J):copy()
  add {to = self.mean, scale = 1 / weight}
  self.y_mean = sum[2 * J + 1] / weight
  self.y_square = sum[2 * J + 2] - weight * self.y_mean ^ 2
  self.square = sum:slice(J + 1, J):copy()
  for j = 1, J do self.square[j] = self.square[j] - weight * self.mean[j] ^ 2 end
end

---Weight, labels and columns of all examples: self.weight, self.y_mean, self.y_square, self.mean, self.square (sums of
---w x^2, centred with an intercept), self.inside_at_first (u8: 2 for columns that are constant, which stay 0).
function linear:moments()
  local J <const> = self.J
  local w <const> = self.weights or tensor.zeros("f64", self.n):fill(1.0)
  self.shift, self.mean, self.y, self.y_shift = nil, nil, self.labels, 0.0
  local first <const> = first_moments(self, w)
  if self.logistic and math.abs(first.labels) == self.weight then
    fail "logistic regression has two classes, all examples are of one"
  end
  if self.o.intercept then
    centre(self, w, first)
  else
    self.y_mean, self.y_square = first.labels / self.weight, first.label_squares
    self.square = first.squares:copy()
  end
  self.inside_at_first, self.constant = tensor.zeros("u8", J), {}
  for j = 1, J do
    local whole <const>, shifted <const> = first.squares[j], self.shift and self.shift[j] ~= 0
    if self.square[j] <= (shifted and CONSTANT or UNRESOLVED) * whole then
      self.square[j], self.inside_at_first[j] = 0, 2
      if whole > 0 then self.constant[#self.constant + 1] = j end -- of empty columns there is nothing to say
    end
  end
  self:note_constant()
  self:scale()
  self:check_lambda()
end

---A lambda is an error that f64 cannot distinguish from 0 beside the largest that could let a variable in: by Cauchy
---and Schwarz no gradient exceeds the root of the column's squares times those of the labels.
function linear:check_lambda()
  local o <const>, most = self.o, 0
  local least = o.lambda or type(o.lambdas) == "table" and o.lambdas[#o.lambdas]
  if not least then return end
  least = least * (o.mix or 1)
  for j = 1, self.J do
    if self.c[j] > 0 then most = math.max(most, self.square[j] / self.c[j] ^ 2) end
  end
  most = LEAST_LAMBDA * math.sqrt(most * (self.logistic and self.weight / 4 or self.y_square))
  if least < most then
    fail(("lambda %g is below %.2g, the least that f64 tells from 0 beside these examples"):format(least, most),
      "a larger lambda")
  end
end

---Which columns stay 0 because they are constant; once.
function linear:note_constant()
  if #self.constant == 0 or self.noted or self.fold or self.team.index ~= 1 then return end
  self.noted = true
  self.team.w:log(ending.constant(self.constant, self.J))
end

---Weights of the penalty: o.penalty, times the deviation of a column where columns are scaled.
function linear:scale()
  local J <const> = self.J
  self.c = numbers(self.o.penalty, J, 1)
  self.m = tensor.zeros("f64", J):fill(1.0)
  if self.o.standardise then
    for j = 1, J do
      local deviation <const> = math.sqrt(self.square[j] / self.weight)
      self.c[j], self.m[j] = self.c[j] * deviation, deviation ^ 2
    end
  end
  self.free = {}
  for j = 1, J do
    if self.c[j] == 0 and self.inside_at_first[j] == 0 then self.free[#self.free + 1] = j - 1 end
  end
end

---Residuals (or scores) of x as they are.
function linear:rebuild()
  if self.logistic then
    self.r:fill(self.b)
    on(self, apply, {v = self.r, d = self.x, by = 1})
  else
    self.r:put(1, self.y)
    on(self, apply, {v = self.r, d = self.x})
  end
end

---The gradient at x, summed over all: minus that of the smooth part without the ridge, in self.z; and what the
---objective needs.
function linear:gradient()
  local J <const> = self.J
  local part <const> = self.part_sums or tensor.zeros("f64", J + 3)
  self.part_sums = part
  local v, began <const> = self.r, tide.now()
  if self.logistic then
    local l <const> = logistic {v = self.r, y = self.y, weights = self.weights, slope = self.slope,
                                curvature = self.curvature}
    part[J + 1], part[J + 2], part[J + 3] = l.loss, l.slope, l.curvature
    v = self.slope
  else
    if self.weights then
      self.slope:put(1, self.r)
      times {to = self.slope, x = self.weights}
      v = self.slope
    end
    part[J + 1] = dot({x = self.r, y = v}).sum
    part[J + 2] = dot({x = v}).sum
    part[J + 3] = dot({x = v, y = self.y}).sum
  end
  on(self, dots, {v = v, out = part:slice(1, J)})
  self.team:took(tide.now() - began, self.n)
  local sum <const> = self.team:sum("gradient", part)
  self.z = sum:slice(1, J):copy()
  local s <const> = {}
  if self.logistic then
    s.loss, s.slope, s.curvature = sum[J + 1], self.o.intercept and sum[J + 2] or 0, sum[J + 3]
  elseif self.o.intercept then
    self.b = sum[J + 2] / self.weight
    add {to = self.z, x = self.mean, by = -sum[J + 2]}
    s.residual = sum[J + 1] - self.weight * self.b ^ 2
    s.product = sum[J + 3] - self.b * self.weight * self.y_mean
    s.loss = s.residual / 2
  else
    s.residual, s.product, s.loss = sum[J + 1], sum[J + 3], sum[J + 1] / 2
  end
  s.absolute = dot({x = self.x, weights = self.c}).sizes
  s.square = dot({x = self.x, y = self.x, weights = self.m}).sum
  self.sums = s
end

---The objective at x, from the sums of the last gradient; and self.zr, minus the gradient of the smooth part.
---@param lambda number
---@param ridge number
---@return number objective
function linear:value(lambda, ridge)
  local s <const> = self.sums
  self.zr = self.z
  if ridge > 0 then
    self.zr = self.x:copy()
    times {to = self.zr, x = self.m}
    add {to = self.zr, x = self.z, scale = -ridge}
  end
  local objective <const> = s.loss + lambda * s.absolute + ridge * s.square / 2
  if objective ~= objective or objective == math.huge then fail(("the objective is %g"):format(objective)) end
  return objective
end

---What is left to gain in variables without a penalty and in the intercept, about.
function linear:free_gain()
  local gain, four <const> = 0, self.logistic and 4 or 1
  for _, j in ipairs(self.free) do
    local z <const>, square <const> = self.zr[j + 1], self.square[j + 1]
    local bound <const> = self.o.positive and self.x[j + 1] == 0 and z < 0 -- it cannot fall below 0
    if square > 0 and not bound then gain = gain + four * z ^ 2 / (2 * square) end
  end
  if self.logistic and self.o.intercept then gain = gain + four * self.sums.slope ^ 2 / (2 * self.weight) end
  return gain
end

---The distance of the objective from the optimum, at most: from a dual point, the residual (or the slopes) scaled.
---@param most number the largest |z_j| / c_j
---@return number gap
function linear:gap(lambda, ridge, most)
  local s <const> = self.sums
  local scale <const> = most > lambda and lambda / most or 1
  local dual
  if self.logistic then
    local part <const> = tensor.zeros("f64", 1)
    part[1] = logistic({v = self.r, y = self.y, weights = self.weights, scale = scale}).dual
    dual = self.team:sum("dual", part)[1]
  else
    dual = scale * s.product - scale ^ 2 / 2 * (s.residual + ridge * s.square)
  end
  -- Of variables without a penalty the dual point is a little off: what that adds is taken out, what they have to
  -- gain is put in.
  local off = self.logistic and self.o.intercept and self.b * s.slope or 0
  for _, j in ipairs(self.free) do off = off + self.zr[j + 1] * self.x[j + 1] end
  return s.loss + lambda * s.absolute + ridge * s.square / 2 - dual + scale * off + self:free_gain()
end

---- predictions ---------------------------------------------------------------------------------------------------

---Over the examples of the fold that are left out: the sum of squared errors or logistic losses, each times its
---weight, and the sum of weights.
function linear:held_out()
  local out <const> = tensor.zeros("f64", self.n)
  for i = 1, self.n do
    local at <const> = self.first + i - 1
    if self.fold_of[at] == self.fold then out[i] = self.o.weights and self.o.weights[at] or 1 end
  end
  local part <const> = tensor.zeros("f64", 2)
  if self.logistic then
    part[1] = logistic({v = self.r, y = self.y, weights = out, slope = self.slope}).loss
  else
    local r <const> = self.r:copy()
    add {to = r, plus = -self.b}
    part[1] = dot({x = r, y = r, weights = out}).sum
  end
  part[2] = dot({x = out}).sum
  local sum <const> = self.team:sum("held out", part)
  return sum[1], sum[2]
end

return linear
