-- Multi-task learning over workers (Liu, Pan and Ho, "Distributed Multi-Task Relationship Learning", KDD 2017). A
-- worker owns tasks: their examples, dual variables and parameters w_i. And it owns columns: those of B and W = S B /
-- lambda of all tasks, so that products with the m x m covariance S need no other worker. A round swaps d numbers a
-- task from owners of tasks to owners of columns, and back.
--
-- sdca: steps on the dual of each task as it is, all added at once; rho makes that safe (docs/guides/multitask.md). cg,
-- squared loss: conjugate gradients on (A + lambda S^-1) W = C, preconditioned by S. Both begin from any dual
-- variables, and W is made anew of them when S, the workers or the examples change.
local ending = require "tide.descent.ending"
local kernels = require("tide.package").kernels
local package = require "tide.package"
local relation = require "tide.multitask.relation"
local tensor = require "tide.tensor"
local tide = require "tide"

local sdca <const>, score <const>, times <const> = kernels.mtl_sdca, kernels.mtl_score,
  kernels.mtl_product
local add <const>, dot <const>, product <const> = kernels.vector_add, kernels.vector_dot,
  kernels.product
local cut <const> = kernels.matrix_columns

local function fail(message, help) error(package.error("T0203", message, {help = help}), 0) end

local CG_MOST <const> = 200 -- rounds of conjugate gradients that continue where sdca ended
local SLICES <const> = 8 -- looks at the clock in a pass over a task
local LESS <const> = 0.45 -- of the safe weight, at least
local LOOKS_APART <const> = 16 -- rounds from one look at the gap to the next, at most, with a deadline

---@class tide.multitask.solver
---@field S table covariance; lambda: number
---@field a table f64 tensor, dual variables of all rows; this worker's are up to date
local solver = {}
solver.__index = solver

---@param p tide.multitask.problem
---@param o table smooth, passes, deadline, rho
function solver.new(team, p, o)
  local self <const> = setmetatable({team = team, p = p, o = o, a = tensor.zeros("f64", p.n), all = false,
                                     times = {}}, solver)
  self:forget(nil)
  return self
end

---Dual variables at their start, of a task (nil: of all).
function solver:forget(t)
  local p <const> = self.p
  for i = t or 1, t or p.m do
    local c <const> = p.counts[i]
    for j = p.first[i] + 1, p.first[i] + c.train + c.validate do
      self.a[j] = p.loss == "logistic" and 1e-6 * p.y[j] or 0
    end
  end
end

---- ownership -----------------------------------------------------------------------------------------------------

---Pieces of tasks: whole ones, but for those that are too large for one worker.
local function units_of(self)
  local p <const>, size <const>, list, total = self.p, self.team.size, {}, 0
  for t = 1, p.m do total = total + p:rows(t, self.all) end
  for t = 1, p.m do
    local rows <const> = p:rows(t, self.all)
    local share <const> = total / size
    local pieces = 1
    if size > 1 and (rows > 1.5 * share or size > p.m) then
      pieces = math.max(1, math.min(size, rows, math.floor(rows / share + 0.999)))
    end
    for k = 1, pieces do
      local from <const> = rows * (k - 1) // pieces
      list[#list + 1] = {task = t, first = p.first[t] + from, rows = rows * k // pieces - from, head = k == 1}
    end
  end
  return list
end

---Deals units to workers, by their size and the workers' speeds, and columns; all have the same dual variables.
function solver:deal()
  local p <const>, size <const> = self.p, self.team.size
  self.units = units_of(self)
  local weights, capacity = {}, {}
  for i, u in ipairs(self.units) do weights[i] = u.rows + 0.0 end
  for i = 1, size do capacity[i] = self.team.shares and self.team.shares[i] or 1.0 end
  local homes = tide.k.makespan(weights, capacity)
  self.of = {}
  for i = 1, size do self.of[i] = {} end
  for i, u in ipairs(self.units) do
    u.number = i
    table.insert(self.of[homes[i]], u)
  end
  self.own = self.of[self.team.index]
  self.tasks_of = {}
  for i = 1, size do
    local list = {}
    for k, u in ipairs(self.of[i]) do list[k] = u.task - 1 end
    self.tasks_of[i] = tensor.from("u32", list)
  end
  self.cut_at = {}
  for i = 1, size do
    local first <const>, count <const> = self.team:piece(p.d, self.team.shares, i)
    self.cut_at[i] = {from = first - 1, count = count}
  end
  local mine <const> = self.cut_at[self.team.index]
  self.B, self.W = tensor.zeros("f64", p.m, mine.count), tensor.zeros("f64", p.m, mine.count)
  self.w = tensor.zeros("f64", #self.own, p.d)
  self.fetched = false
  self:refresh()
  local tasks = {}
  for i, u in ipairs(self.units) do tasks[i] = u.task end
  self.unit_tasks = tasks
end

---Passes begin anew.
function solver:refresh() self.orders, self.turn = {}, 0 end

---The dual variables of all become known to all; those without an owner begin anew.
function solver:share()
  local mine, own = {}, self.own or {}
  if self.fetched then -- all have them, from a checkpoint
    local first, count = self.team:piece(self.p.n)
    own = {{first = first - 1, rows = count}}
  end
  for _, u in ipairs(own) do
    mine[#mine + 1] = {first = u.first, a = self.a:slice(u.first + 1, u.rows)}
  end
  local flat = {firsts = {}, counts = {}}
  local total = 0
  for i, m in ipairs(mine) do
    flat.firsts[i], flat.counts[i] = m.first, #m.a
    total = total + #m.a
  end
  flat.a = tensor.zeros("f64", total)
  local at = 1
  for _, m in ipairs(mine) do
    flat.a:put(at, m.a)
    at = at + #m.a
  end
  local told <const> = self.team:gather("duals", flat)
  self:forget(nil)
  for _, theirs in ipairs(told) do
    local from = 1
    for i, first in ipairs(theirs.firsts) do
      local count <const> = theirs.counts[i]
      if count > 0 then self.a:put(first + 1, theirs.a:slice(from, count)) end
      from = from + count
    end
  end
end

---- rows to columns and back ---------------------------------------------------------------------------------------

---Gives rows of own units to the owners of columns.
---@param rows table f64 tensor units x d
---@param numbers number[] that all get the sums of
---@return table sum f64 tensor m x own columns: rows of a task added, in the order of ranks
---@return number[] sums
---@return number[][] each worker's numbers
function solver:to_columns(tag, rows, numbers)
  local k <const>, u <const>, out = #numbers, #self.own, {}
  for i, c in ipairs(self.cut_at) do
    local t <const> = tensor.zeros("f64", k + u * c.count)
    for n, v in ipairs(numbers) do t[n] = v end
    if u * c.count > 0 then cut {wide = rows, first = c.from, narrow = t:view(k + 1, u, c.count)} end
    out[i] = t
  end
  local count <const> = self.cut_at[self.team.index].count
  local sum <const>, sums, each = tensor.zeros("f64", self.p.m, count), {}, {}
  for n = 1, k do sums[n] = 0 end
  for i, t in ipairs(self.team:swap(tag, out)) do
    each[i] = {}
    for n = 1, k do sums[n], each[i][n] = sums[n] + t[n], t[n] end
    for row, unit in ipairs(self.of[i]) do
      if count > 0 then
        add {to = sum:slice(unit.task, 1), x = t:view(k + 1 + (row - 1) * count, 1, count)}
      end
    end
  end
  return sum, sums, each
end

---Gives the owners of tasks their rows.
---@param columns table f64 tensor m x own columns
---@return table rows f64 tensor units x d
---@return number[] sums of the numbers
function solver:to_rows(tag, columns, numbers)
  local k <const>, count <const>, out = #numbers, self.cut_at[self.team.index].count, {}
  for i, tasks in ipairs(self.tasks_of) do
    local t <const> = tensor.zeros("f64", k + #tasks * count)
    for n, v in ipairs(numbers) do t[n] = v end
    if #tasks * count > 0 then t:view(k + 1, #tasks, count):pick(columns, tasks) end
    out[i] = t
  end
  local rows <const>, sums = tensor.zeros("f64", #self.own, self.p.d), {}
  for n = 1, k do sums[n] = 0 end
  for i, t in ipairs(self.team:swap(tag, out)) do
    for n = 1, k do sums[n] = sums[n] + t[n] end
    local c <const> = self.cut_at[i]
    if #self.own * c.count > 0 then
      cut {wide = rows, first = c.from, narrow = t:view(k + 1, #self.own, c.count), back = true}
    end
  end
  return rows, sums
end

local function row_of(matrix, i) return matrix:slice(i, 1):view(1, matrix:columns(), 1) end

---W = S B / lambda of own columns.
local function primal(self)
  if self.W:columns() > 0 then product {a = self.S, b = self.B, out = self.W, by = 1 / self.lambda} end
end

---B of all dual variables, W of B: after anything has changed that they follow from.
function solver:rebuild()
  local p <const> = self.p
  local rows <const> = tensor.zeros("f64", #self.own, p.d)
  for i, u in ipairs(self.own) do
    if u.rows > 0 then
      p:kernel(times, {first = u.first, rows = u.rows, kind = "back", from = self.a, to = row_of(rows, i),
                       by = 1 / p:rows(u.task, self.all)})
    end
  end
  self.B = self:to_columns("dual", rows, {})
  primal(self)
  local product_ <const> = #self.W > 0 and dot({x = self.W, y = self.B}).sum or 0
  local w, sums = self:to_rows("primal", self.W, {product_})
  self.w, self.wb = w, sums[1]
end

---- sdca -----------------------------------------------------------------------------------------------------------

---Loss and dual value of own units, over the rows of their tasks.
local function scores(self)
  local p <const>, loss, dual = self.p, 0, 0
  for i, u in ipairs(self.own) do
    if u.rows > 0 then
      local r <const> = p:kernel(score, {y = p.y, a = self.a, w = row_of(self.w, i), loss = p.loss,
                                         smooth = self.o.smooth, first = u.first, rows = u.rows})
      local n <const> = p:rows(u.task, self.all)
      loss, dual = loss + r.loss / n, dual + r.dual / n
    end
  end
  return loss, dual
end

---Where in a pass over a unit's rows this worker is; without replacement within a pass.
local function next_rows(self, i, u, count)
  local o = self.orders[i]
  if not o or o.at >= u.rows then
    o = {at = 0, pass = (o and o.pass or 0) + 1, list = tensor.zeros("u32", u.rows):fill(0, 1)}
    o.list:shuffle(((self.o.seed * 8191 + u.number) * 8191 + o.pass) % (1 << 50))
    self.orders[i] = o
  end
  local n <const> = math.min(count, u.rows - o.at)
  local slice <const> = o.list:slice(o.at + 1, n)
  o.at = o.at + n
  return slice
end

---Steps on own units: a pass, or until the deadline. The next round continues behind the unit where this one ended, so
---that a worker that never comes to the end of a pass takes all its units in turn.
---@return table rows f64 tensor units x d: the change of B
---@return number seconds that a pass takes
local function steps(self)
  local p <const>, began <const>, count <const> = self.p, tide.now(), #self.own
  local rows <const> = tensor.zeros("f64", count, p.d)
  local ends <const> = self.deadline_s and began + self.deadline_s or math.huge
  local made, whole = 0, 0
  for _, u in ipairs(self.own) do whole = whole + u.rows end
  whole = whole * self.o.passes
  local slices <const> = self.o.deadline and SLICES * self.o.passes or self.o.passes
  local first <const> = self.turn
  local over = false
  for s = 1, slices do
    for k = 1, count do
      if over then break end
      local i <const> = (first + k - 1) % count + 1
      local u <const> = self.own[i]
      local left = u.rows * self.o.passes * s // slices - u.rows * self.o.passes * (s - 1) // slices
      while left > 0 and not over do
        local order <const> = next_rows(self, i, u, left)
        p:kernel(sdca, {y = p.y, a = self.a, w = row_of(self.w, i), loss = p.loss, smooth = self.o.smooth,
                        first = u.first, rows = u.rows, r = row_of(rows, i), order = order,
                        samples = p:rows(u.task, self.all),
                        weight = self.weight * self.S[(u.task - 1) * p.m + u.task] / self.lambda})
        left, made = left - #order, made + #order
        over = tide.now() >= ends
      end
      self.turn = i
    end
    if over then break end
  end
  local seconds <const> = tide.now() - began
  self.team:took(seconds, made)
  self.share_made = whole > 0 and made / whole or 1
  return rows, made > 0 and seconds * whole / made or 0
end

local function median(list)
  table.sort(list)
  local n <const> = #list
  if n == 0 then return 0 end
  return n % 2 == 1 and list[(n + 1) // 2] or (list[n // 2] + list[n // 2 + 1]) / 2
end

---The deadline of the next round: some times the median of a pass over the last five rounds.
local function mind_time(self, each)
  if not self.o.deadline then return end
  local now = {}
  for i, numbers in ipairs(each) do now[i] = numbers[3] end
  self.times[#self.times + 1] = median(now)
  if #self.times > 5 then table.remove(self.times, 1) end
  self.deadline_s = self.o.deadline * median({table.unpack(self.times)})
end

---The reported speeds of workers.
local function told_speeds(each, at)
  local list <const> = {}
  for i, numbers in ipairs(each) do list[i] = numbers[at] > 0 and {numbers[at], numbers[at + 1]} end
  return list
end

---When to look at the gap next: with a deadline a look, which requires all rows, would cost a slow worker more than its
---steps. Half way to where the gap is small enough, if it continues to fall as it does.
local function plan_look(self, round, gap, goal)
  local last <const>, ahead = self.looked, 2
  if last and gap < last.gap then
    local rate <const> = math.log(last.gap / gap) / (round - last.round)
    ahead = math.max(1, math.min(LOOKS_APART, math.log(gap / goal) / rate // 2))
  end
  self.looked = {round = round, gap = gap}
  self.look = round + ahead
end

---The weight rho is safe for any changes, and twice as much as most need: less is tried as long as D rises. Where it
---falls, the changes that made it fall are taken back.
---@return boolean false: they were, and those of this round with them
local function try_less(self, before, D)
  if self.o.deadline or self.o.rho then return true end -- D is not known in every round; or the script's is wanted
  local former <const> = self.former
  if former and D < former.D then
    self.a:put(1, former.a)
    self.B, self.W, self.w, self.wb = former.B, former.W, former.w, former.wb
    self.weight = math.min(self.rho, 1.5 * self.weight)
    self.former = nil
    return false
  end
  self.former = {a = before, B = self.B:copy(), W = self.W:copy(), w = self.w, wb = self.wb, D = D}
  self.weight = math.max(1, LESS * self.rho, 0.5 * self.weight)
  return true
end

---@param round integer
---@return number|nil primal, number|nil dual, boolean whether that is enough; nil: the gap was not looked at
local function sdca_round(self, tolerance, round, last)
  local looks <const> = not self.o.deadline or last or round >= self.look
  local before <const>, loss, dual = self.a:copy(), 0, 0
  if looks then loss, dual = scores(self) end
  local rows, seconds = steps(self)
  local speed <const> = self.team:speed() or {0, 0}
  local change, sums, each = self:to_columns("changes", rows,
    {loss, dual, seconds, self.share_made, speed[1], speed[2]})
  mind_time(self, each)
  for _, numbers in ipairs(each) do self.least_made = math.min(self.least_made, numbers[4]) end
  local P, D
  if looks then
    P, D = sums[1] + self.wb / 2, sums[2] - self.wb / 2
    local goal <const> = tolerance * math.abs(P)
    if P - D <= goal then
      self.a:put(1, before)
      self:refresh()
      return P, D, true
    end
    plan_look(self, round, P - D, goal)
    if not try_less(self, before, D) then return P, D, false end
  end
  if #self.B > 0 then add {to = self.B, x = change} end
  primal(self)
  local w, products = self:to_rows("primal", self.W, {#self.W > 0 and dot({x = self.W, y = self.B}).sum or 0})
  self.w, self.wb = w, products[1]
  return P, D, false, told_speeds(each, 5)
end

---- cg -------------------------------------------------------------------------------------------------------------

local cg_round

---A_i times rows, A_i = X_i'X_i / n_i.
local function products(self, rows, kind, from)
  local p <const> = self.p
  local out <const>, began <const> = tensor.zeros("f64", #self.own, p.d), tide.now()
  local count = 0
  for i, u in ipairs(self.own) do
    if u.rows > 0 then
      p:kernel(times, {first = u.first, rows = u.rows, kind = kind, from = from or row_of(rows, i),
                       to = row_of(out, i), by = 1 / p:rows(u.task, self.all)})
    end
    count = count + u.rows
  end
  if kind == "both" then self.team:took(tide.now() - began, count) end
  return out
end

local function inner(x, y) return #x > 0 and dot({x = x, y = y}).sum or 0 end
local function by_relation(self, x)
  local out <const> = tensor.zeros("f64", x:rows(), x:columns())
  if #x > 0 then product {a = self.S, b = x, out = out} end
  return out
end

---@param from_zero? boolean and not from W of the dual variables
local function begin_cg(self, from_zero)
  local p <const>, g = self.p, {from_zero = from_zero}
  local square = 0
  for _, u in ipairs(self.own) do
    local own <const> = p.y:slice(u.first + 1, u.rows)
    if u.rows > 0 then square = square + dot({x = own, y = own}).sum / (2 * p:rows(u.task, self.all)) end
  end
  local sums
  g.C, sums = self:to_columns("labels", products(self, nil, "back", p.y), {square})
  g.Y = sums[1]
  g.W, g.Wo = self.W:copy(), self.B:copy()
  if from_zero then
    g.W:fill(0.0)
    g.Wo:fill(0.0)
    self.w:fill(0.0)
  elseif #g.Wo > 0 then
    add {to = g.Wo, scale = 1 / self.lambda}
  end
  g.AW = self:to_columns("product", products(self, self.w, "both"), {})
  g.r = g.C:copy()
  if #g.r > 0 then
    add {to = g.r, x = g.AW, by = -1}
    add {to = g.r, x = g.Wo, by = -self.lambda}
  end
  g.z = by_relation(self, g.r)
  g.p, g.po = tensor.zeros("f64", g.z:rows(), g.z:columns()), tensor.zeros("f64", g.z:rows(), g.z:columns())
  g.rows = tensor.zeros("f64", #self.own, p.d)
  return g
end

function cg_round(self, tolerance)
  local g <const>, lambda <const> = self.cg or begin_cg(self), self.lambda
  self.cg = g
  local B <const> = g.C:copy()
  if #B > 0 then add {to = B, x = g.AW, by = -1} end
  local zrows, s = self:to_rows("preconditioned", g.z, {inner(g.r, g.z), inner(g.C, g.W), inner(g.W, g.AW),
                                                        inner(g.W, g.Wo), inner(B, by_relation(self, B))})
  local P <const> = g.Y - s[2] + s[3] / 2 + lambda / 2 * s[4]
  local D <const> = g.Y - s[3] / 2 - s[5] / (2 * lambda)
  if (P > g.Y or P ~= P) and not g.from_zero then -- W of the dual variables is rounding, divided by a small lambda
    self.cg = begin_cg(self, true)
    return cg_round(self, tolerance)
  end
  if P - D <= tolerance * math.abs(P) or s[1] <= 0 then return P, D, true end
  local be <const> = g.rz and s[1] / g.rz or 0
  g.rz = s[1]
  add {to = g.rows, scale = be, x = zrows}
  if #g.p > 0 then
    add {to = g.p, scale = be, x = g.z}
    add {to = g.po, scale = be, x = g.r}
  end
  local q <const> = products(self, g.rows, "both")
  local speed <const> = self.team:speed() or {0, 0}
  local Ap, sums, each = self:to_columns("product", q, {inner(g.rows, q), lambda * inner(g.p, g.po), speed[1],
                                                        speed[2]})
  local al <const> = g.rz / (sums[1] + sums[2])
  if #g.p > 0 then
    add {to = g.W, x = g.p, by = al}
    add {to = g.Wo, x = g.po, by = al}
    add {to = g.AW, x = Ap, by = al}
    add {to = g.r, x = Ap, by = -al}
    add {to = g.r, x = g.po, by = -al * lambda}
  end
  g.z = by_relation(self, g.r)
  return P, D, false, told_speeds(each, 3)
end

---Dual variables of the W that conjugate gradients have come to. W stays: made of the dual variables it would be their
---rounding, divided by lambda.
local function end_cg(self)
  local g <const>, p <const> = self.cg, self.p
  self.cg = nil
  self.W, self.w = g.W, self:to_rows("solution", g.W, {})
  for i, u in ipairs(self.own) do
    if u.rows > 0 then
      p:kernel(times, {first = u.first, rows = u.rows, kind = "there", from = row_of(self.w, i), to = self.a})
      local own <const> = self.a:slice(u.first + 1, u.rows)
      add {to = own, scale = -1, x = p.y:slice(u.first + 1, u.rows)}
    end
  end
end

---- one relation, one lambda ---------------------------------------------------------------------------------------

---Rounds of sdca are spent and the script has asked for a tolerance: of squared loss conjugate gradients reach it.
---@return boolean
local function goes_over(self, so_far, gap)
  if so_far.with_cg or self.p.loss ~= "squared" or not self.o.asked then return false end
  so_far.with_cg, so_far.best, so_far.most = true, nil, so_far.rounds + CG_MOST
  if self.team.index == 1 then
    self.team.w:log(("%d rounds of sdca end at a gap of %.3g: conjugate gradients continue from there"):format(
      so_far.rounds, gap))
  end
  return true
end

---Rounds until the gap is small enough, or the work is to be divided anew: then with nothing in hand, and the next call
---continues.
---@param tolerance number share of the primal objective
---@param most integer rounds
---@return table|nil {primal =, dual =, rounds =, rho =, trace = gaps by round, met = whether the gap is small enough,
---  still = whether nothing gets better any more}
function solver:solve(tolerance, most)
  self.cg = nil
  self:rebuild()
  local so_far <const> = self.so_far or {rounds = 0, trace = {}, with_cg = self.o.solver == "cg", most = most}
  self.rho = so_far.with_cg and 1 or relation.rho(self.S, self.unit_tasks, self.o.rho)
  self.weight, self.former = self.rho, nil
  self.so_far, self.look, self.looked = so_far, 0, nil
  if so_far.rounds == 0 then self.least_made = math.huge end
  local P, D, done, told, still
  repeat
    if told and self.team:balance(told) then
      if so_far.with_cg then end_cg(self) end
      return nil
    end
    local round <const> = so_far.rounds
    if so_far.with_cg then
      P, D, done, told = cg_round(self, tolerance)
    else
      P, D, done, told = sdca_round(self, tolerance, round, round + 1 >= so_far.most)
    end
    if P ~= P then fail(("round %d of %s: the objective is not a number"):format(round + 1, self.o.solver)) end
    so_far.rounds = round + 1
    if P then
      so_far.trace[so_far.rounds] = P - D
      so_far.best, still = ending.look(so_far.best, -D, P - D)
    end
  until done or still or so_far.rounds >= so_far.most and not goes_over(self, so_far, P - D)
  if so_far.with_cg then end_cg(self) end
  self.so_far = nil
  return {primal = P, dual = D, rounds = so_far.rounds, rho = self.rho, trace = so_far.trace,
          least_made = self.least_made, met = P - D <= tolerance * math.abs(P), still = still or false}
end

---- errors ---------------------------------------------------------------------------------------------------------

---Sums over all tasks of a part: squared error (or loss), how many are right, and rows.
---@param part "train"|"validate"|"test"
function solver:errors(part)
  local p <const> = self.p
  local sums <const> = tensor.zeros("f64", 4)
  local all <const> = tensor.zeros("f64", p.n)
  for i, u in ipairs(self.own) do
    local c <const> = p.counts[u.task]
    local before <const> = part == "train" and 0 or part == "validate" and c.train or c.train + c.validate
    local from <const> = p.first[u.task] + before
    if u.head and c[part] > 0 and not p.out[u.task] then
      local r <const> = p:kernel(score, {y = p.y, a = all, w = row_of(self.w, i), loss = p.loss, smooth = self.o.smooth,
                                         first = from, rows = c[part]})
      sums[1], sums[2] = sums[1] + r.squares, sums[2] + r.correct
      sums[3], sums[4] = sums[3] + c[part], sums[4] + r.loss
    end
  end
  local s <const> = self.team:sum("errors", sums)
  return {squares = s[1], correct = s[2], count = s[3], loss = s[4]}
end

---M = W W', of all columns.
function solver:products()
  local m <const> = self.p.m
  local out <const> = tensor.zeros("f64", m, m)
  if #self.W > 0 then product {a = self.W, b = self.W, transpose_b = true, out = out} end
  return self.team:sum("products", out)
end

return solver
