-- A linear model as scheduled sets see it: sums of a few columns with the residual, exact steps, products of columns.
-- Logistic regression steps by the bound 1/4 of its curvature; its intercept is moved between epochs.
local kernels = require("tide.package").kernels
local linear = require "tide.descent.linear"
local tensor = require "tide.tensor"

local dots <const>, apply <const>, gram_of <const> = kernels.descent_dots, kernels.descent_apply,
  kernels.descent_gram
local dot <const>, times <const>, logistic <const> = kernels.vector_dot, kernels.vector_times,
  kernels.descent_logistic
local choose <const> = kernels.descent_choose

---@class tide.descent.linear_sets: tide.descent.problem
---@field model tide.descent.linear
local problem = {}
problem.__index = problem

---@param model? tide.descent.linear that another way to choose has begun with
function problem.new(team, o, model)
  model = model or linear.new(team, o)
  return setmetatable({team = team, o = o, model = model, J = model.J, x = model.x, lambda = o.lambda}, problem)
end

function problem:digest() return self.model:digest() end
function problem:intercept() return self.model:intercept() end

---The penalty's two parts: of sizes, of squares.
function problem:penalties()
  local mix <const> = self.o.mix
  if mix then return self.lambda * mix, self.lambda * (1 - mix) end
  return self.lambda, self.o.ridge or 0
end

function problem:prepare(team)
  local m <const> = self.model
  m.b = self.b or m.b
  m:divide()
  m:moments()
  m:rebuild()
  self.left_out = m.inside_at_first
  self.curvature = m.logistic and 0.25 or 1
  if not self.lambda then -- a share of the largest penalty that lets a variable in, from x = 0
    m.x:fill(0)
    m.b = 0.0
    local first <const> = require("tide.descent.gram").new(team.w, team, self.o, m)
    repeat first:step() until first.lambdas
    self.lambda, self.b = first.lambdas[1], m.b
  end
end

function problem:rebuild() self.model:rebuild() end

local function places(set)
  local t <const> = tensor.zeros("u32", #set)
  for i, j in ipairs(set) do t[i] = j - 1 end
  return t
end

---The vector whose products with columns are wanted, and its sum.
local function slopes(m)
  if m.logistic then
    local l <const> = logistic {v = m.r, y = m.y, weights = m.weights, slope = m.slope}
    return m.slope, l.loss, l.slope
  end
  local v = m.r
  if m.weights then
    m.slope:put(1, m.r)
    times {to = m.slope, x = m.weights}
    v = m.slope
  end
  return v, dot({x = m.r, y = v}).sum / 2, m.mean and dot({x = v}).sum or 0
end

function problem:push(set)
  local m <const>, out <const> = self.model, tensor.zeros("f64", #set)
  local v, loss, sum = slopes(m)
  m:kernel(dots, {set = places(set), v = v, out = out})
  self.loss, self.sum = loss, sum
  return out
end

function problem:part()
  local loss, sum = self.loss, self.sum
  self.loss = nil
  if not loss then loss, sum = select(2, slopes(self.model)) end
  return loss, sum
end

function problem:penalty()
  local m <const>, lambda <const>, ridge <const> = self.model, self:penalties()
  return lambda * dot({x = self.x, weights = m.c}).sizes
    + (ridge > 0 and ridge / 2 * dot({x = self.x, y = self.x, weights = m.m}).sum or 0)
end

function problem:whole(loss, sum, penalty)
  local m <const> = self.model
  return loss + penalty - (m.mean and not m.logistic and sum ^ 2 / (2 * m.weight) or 0)
end

function problem:pull(set, sums, total)
  local m <const>, changes, size = self.model, {}, 0
  local lambda <const>, ridge <const> = self:penalties()
  for i, j in ipairs(set) do
    local q <const>, x <const>, by <const> = m.square[j] * self.curvature, self.x[j], lambda * m.c[j]
    local z = sums[i]
    if m.mean and not m.logistic then z = z - total * m.mean[j] end
    local to, h <const> = 0.0, q + ridge * m.m[j]
    if h > 0 then
      local a <const> = z + q * x
      to = a > by and (a - by) / h or a < -by and (a + by) / h or 0.0
      if self.o.positive and to < 0 then to = 0.0 end
    end
    changes[i] = to - x
    size = size + h * changes[i] ^ 2
  end
  return changes, size
end

function problem:apply(set, changes)
  local m <const>, d <const> = self.model, tensor.zeros("f64", #set)
  for i, j in ipairs(set) do
    d[i] = changes[i]
    self.x[j] = self.x[j] + changes[i]
  end
  if #set > 0 then m:kernel(apply, {set = places(set), v = m.r, d = d, by = m.logistic and 1 or -1}) end
end

---This worker's part of products of columns.
function problem:pairs(from, with)
  local m <const>, all <const>, n <const> = self.model, {}, #with
  table.move(with, 1, n, 1, all)
  table.move(from, 1, #from, n + 1, all)
  local out <const> = tensor.zeros("f64", #from, #all)
  m:kernel(gram_of, {set = places(all), from = n, weights = m.weights, out = out})
  local narrow <const> = tensor.zeros("f64", #from, n)
  for a = 1, #from do
    for b = 1, n do narrow[(a - 1) * n + b] = out[(a - 1) * #all + b] end
  end
  return narrow
end

function problem:scaled(j, k, product)
  local m <const> = self.model
  if m.mean then product = product - m.weight * m.mean[j] * m.mean[k] end
  local q <const> = m.square[j] * m.square[k]
  return q > 0 and math.abs(product) / math.sqrt(q) or 0
end

---The intercept of logistic regression, to where its slope is 0.
function problem:settle()
  local m <const> = self.model
  if not (m.logistic and self.o.intercept) then return end
  for _ = 1, 20 do
    local l <const> = logistic {v = m.r, y = m.y, weights = m.weights, slope = m.slope, curvature = m.curvature}
    local sum <const> = self.team:sum("intercept", tensor.from("f64", {l.slope, l.curvature}))
    local by <const> = sum[1] / math.max(sum[2], m.weight * 1e-3)
    m.b = m.b + by
    kernels.vector_add {to = m.r, plus = by}
    if math.abs(by) < 1e-12 then break end
  end
  self.b = m.b
end

function problem:gap()
  local m <const>, lambda <const>, ridge <const> = self.model, self:penalties()
  m:gradient()
  local objective <const> = m:value(lambda, ridge)
  local r <const> = choose {z = m.zr, c = m.c, inside = m.inside_at_first, count = 0,
                            positive = self.o.positive or false, out = tensor.zeros("u32", 0)}
  self.b = m.b
  return objective, m:gap(lambda, ridge, r.most)
end

return problem
