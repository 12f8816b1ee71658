-- Multi-task learning's solver on one worker, and how two divide the work: the owners' rows, and what counts of them.
local core = require "tide.core"
local solver = require "tide.multitask.solver"

local cases = {}
local function case(name, f) cases[#cases + 1] = {name, f} end

local D <const> = 3

-- Tasks of so many rows, all to train on. Labels follow from weights that are known.
local function problem_of(rows)
  local p = {m = #rows, d = D, n = 0, loss = "squared", first = {}, counts = {}, out = {}}
  for t, count in ipairs(rows) do
    p.first[t], p.counts[t], p.n = p.n, {train = count, validate = 0, test = 0}, p.n + count
  end
  local random <const> = core.random(5)
  p.x, p.y = {values = core.tensor("f32", p.n, D)}, core.tensor("f64", p.n, 1)
  for t = 1, p.m do
    for r = p.first[t] + 1, p.first[t] + rows[t] do
      for j = 1, D do
        local v <const> = random:uniform() - 0.5
        p.x.values[(r - 1) * D + j] = v
        p.y[r] = p.y[r] + v * (j + t)
      end
    end
  end
  return setmetatable(p, require "tide.multitask.problem")
end

local function team_of(index, size)
  local team = {index = index, size = size, w = {log = function() end}}
  function team:piece(count, _, i) return require("tide.package").piece(count, i or self.index, self.size) end
  function team.took() end
  function team.speed() end
  function team.balance() return false end
  function team.swap(_, _, out) return {out[index]} end
  function team.sum(_, _, t) return t end
  function team.gather(_, _, own) return {own} end
  return team
end

local function solver_of(p, index, size, how)
  local s <const> = solver.new(team_of(index, size), p, {solver = how or "sdca", passes = 1, seed = 1, smooth = 1})
  s.S, s.lambda = core.tensor("f64", p.m, p.m), 1e-3
  for t = 1, p.m do s.S[(t - 1) * p.m + t] = 1.0 end
  s:deal()
  return s
end

case("two or three workers own each row of each task once", function()
  for _, rows in ipairs {{5, 90}, {101}, {7, 7, 7, 7}, {3, 200, 1, 17}} do
    local p <const> = problem_of(rows)
    for size = 1, 3 do
      local owned = {}
      for index = 1, size do
        for _, u in ipairs(solver_of(p, index, size).own) do
          for r = u.first + 1, u.first + u.rows do owned[r] = (owned[r] or 0) + 1 end
        end
      end
      for r = 1, p.n do assert(owned[r] == 1, ("row %d of %d: %s owners of %d"):format(r, p.n, owned[r], size)) end
    end
  end
end)

case("a task that several workers own is judged once", function()
  local p <const> = problem_of {5, 90}
  for size = 1, 3 do
    local count = 0
    for index = 1, size do count = count + solver_of(p, index, size):errors("train").count end
    assert(count == p.n, ("%d rows are judged by %d workers, there are %d"):format(count, size, p.n))
  end
end)

case("weights are those of the dual variables that conjugate gradients leave", function()
  local p <const> = problem_of {40, 25}
  local s <const> = solver_of(p, 1, 1, "cg")
  local got <const> = s:solve(1e-10, 100)
  assert(got.met, "it does not converge")
  local before <const> = s.W:copy()
  s:rebuild()
  for i = 1, #before do assert(math.abs(before[i] - s.W[i]) < 1e-4 * (1 + math.abs(before[i])), i) end
  assert(before:max() > 1, "the weights are nothing")
end)

return cases
