-- Relations between tasks: covariances S, m x m, positive definite, of trace 1.
local kernels = require("tide.package").kernels
local package = require "tide.package"
local tensor = require "tide.tensor"

local eigen <const>, product <const> = kernels.eigen, kernels.product

local relation = {}

local LEAST <const> = 1e-6 -- of I/m in a learned relation
local RIDGE <const> = 0.1 -- on the Laplacian of a graph
local LEAST_VALUE <const> = 1e-12 -- of a matrix that is given, beside its largest eigenvalue

local function fail(message, help) error(package.error("T0203", message, {help = help}), 0) end

---((1 - c) I + c 11') / m: a part that all tasks share, and one of each its own.
function relation.mean(m, c)
  local s <const> = tensor.zeros("f64", m, m):fill(c / m)
  for i = 1, m do s[(i - 1) * m + i] = 1 / m end
  return s
end

local function to_trace(s)
  local m <const>, trace = s:rows(), 0
  for i = 1, m do trace = trace + s[(i - 1) * m + i] end
  kernels.vector_add {to = s, scale = 1 / trace}
  return s
end

---f of the eigenvalues of a symmetric matrix.
local function of_values(matrix, f)
  local m <const> = matrix:rows()
  local values <const>, vectors <const> = tensor.zeros("f64", m), tensor.zeros("f64", m, m)
  eigen {a = matrix, values = values, vectors = vectors}
  local scaled <const> = vectors:copy()
  for i = 1, m do kernels.vector_add {to = scaled:slice(i, 1), scale = f(values[i])} end
  local out <const> = tensor.zeros("f64", m, m)
  product {a = vectors, b = scaled, transpose_a = true, out = out}
  for i = 1, m do -- both halves the same bits
    for j = 1, i - 1 do out[(j - 1) * m + i] = out[(i - 1) * m + j] end
  end
  return out, values
end

---The best covariance for fixed W, M = W W': M^1/2 / tr, a little of I/m added.
---@return table S
---@return number[] eigenvalues of S, falling
function relation.learned(matrix)
  local m <const> = matrix:rows()
  local s = of_values(matrix, function(v) return v > 0 and math.sqrt(v) or 0 end)
  local trace = 0
  for i = 1, m do trace = trace + s[(i - 1) * m + i] end
  if trace <= 0 then return relation.mean(m, 0), {} end
  kernels.vector_add {to = s, scale = (1 - LEAST) / trace}
  for i = 1, m do s[(i - 1) * m + i] = s[(i - 1) * m + i] + LEAST / m end
  return s, relation.values(s)
end

---@return number[] eigenvalues, falling
function relation.values(s)
  local m <const>, list = s:rows(), {}
  local values <const> = tensor.zeros("f64", m)
  eigen {a = s, values = values}
  for i = 1, m do list[i] = values[m + 1 - i] end
  return list
end

---A matrix as a list of rows, or {graph = {{i, j, weight}, ..}}: (L + e I)^-1 of its Laplacian.
function relation.given(value, m)
  local s <const> = tensor.zeros("f64", m, m)
  if value.graph then
    local ridge <const> = value.ridge == nil and RIDGE or value.ridge
    if type(ridge) ~= "number" or not (ridge > 0 and ridge < math.huge) then
      fail(("relation: ridge is %s, not a number above 0"):format(tostring(ridge)))
    end
    for _, edge in ipairs(value.graph) do
      local i <const>, j <const>, w <const> = edge[1], edge[2], edge[3] or 1
      if math.type(i) ~= "integer" or math.type(j) ~= "integer" or i < 1 or j < 1 or i > m or j > m or i == j
        or type(w) ~= "number" or not (w >= 0 and w < math.huge) then
        fail(("relation: edge {%s, %s, %s} of a graph of %d tasks"):format(tostring(i), tostring(j), tostring(w), m))
      end
      for _, at in ipairs {{i, i, w}, {j, j, w}, {i, j, -w}, {j, i, -w}} do
        local place <const> = (at[1] - 1) * m + at[2]
        s[place] = s[place] + at[3]
      end
    end
    for i = 1, m do s[(i - 1) * m + i] = s[(i - 1) * m + i] + ridge end
    return to_trace((of_values(s, function(v) return 1 / v end)))
  end
  if #value ~= m then fail(("relation: a matrix of %d rows for %d tasks"):format(#value, m)) end
  for i = 1, m do
    if type(value[i]) ~= "table" or #value[i] ~= m then fail(("relation: row %d has not %d numbers"):format(i, m)) end
    for j = 1, m do
      local v <const> = value[i][j]
      if type(v) ~= "number" or v ~= v or math.abs(v) == math.huge then
        fail(("relation: row %d, number %d is %s"):format(i, j, tostring(v)))
      end
      s[(i - 1) * m + j] = v
    end
  end
  for i = 1, m do
    for j = 1, i - 1 do
      if math.abs(value[i][j] - value[j][i]) > 1e-12 * (math.abs(value[i][i]) + math.abs(value[j][j])) then
        fail(("relation: not symmetric at %d, %d"):format(i, j))
      end
    end
  end
  local values <const> = relation.values(s)
  if values[m] <= LEAST_VALUE * values[1] then fail "relation: the matrix is not positive definite" end
  return to_trace(s)
end

---The largest eigenvalue of the correlations of units: pieces of tasks, all of which add their changes at once.
---Adding is safe with this weight (and not with a smaller one in general); it is at most their number.
---@param s table
---@param tasks integer[] of each unit, from 1
---@param bound? "rows" the looser bound by sums of rows, for comparison
function relation.rho(s, tasks, bound)
  local m <const>, u <const> = s:rows(), #tasks
  local c <const> = tensor.zeros("f64", u, u)
  local most = 1
  for i = 1, u do
    local a, sum = tasks[i], 0
    for j = 1, u do
      local b <const> = tasks[j]
      local v <const> = s[(a - 1) * m + b]
      c[(i - 1) * u + j] = v / math.sqrt(s[(a - 1) * m + a] * s[(b - 1) * m + b])
      sum = sum + math.abs(v)
    end
    most = math.max(most, sum / s[(a - 1) * m + a])
  end
  if bound == "rows" then return most end
  local values <const> = tensor.zeros("f64", u)
  eigen {a = c, values = values}
  return math.max(1, values[u])
end

---@return table f64 tensor, correlations
function relation.correlation(s)
  local m <const> = s:rows()
  local c <const> = tensor.zeros("f64", m, m)
  for i = 1, m do
    for j = 1, m do
      c[(i - 1) * m + j] = s[(i - 1) * m + j] / math.sqrt(s[(i - 1) * m + i] * s[(j - 1) * m + j])
    end
  end
  return c
end

return relation
