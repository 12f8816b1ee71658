-- A model of the script's own as scheduled sets see it: its functions push, pull, apply, objective and dependency.
local package = require "tide.package"
local tensor = require "tide.tensor"

---@class tide.descent.own: tide.descent.problem
local problem = {}
problem.__index = problem

local function fail(message, help) error(package.error("T0203", message, {help = help}), 0) end

function problem.new(w, team, o)
  local self <const> = setmetatable({w = w, team = team, o = o, J = o.variables, x = tensor.zeros("f64", o.variables),
                                     dependency = o.dependency}, problem)
  if o.start then
    for j = 1, self.J do self.x[j] = type(o.start) == "number" and o.start or o.start[j] end
  end
  if not o.objective then self.part, self.whole, self.penalty = false, false, false end
  return self
end

function problem:prepare(team)
  self.index, self.size = team.index, team.size
  if self.o.divide then self.o.divide(self.w, team.index, team.size, self.x) end
end

function problem:push(set)
  local sums <const> = self.o.push(self.w, set, self.x)
  if sums == nil or type(sums) == "number" then fail("push gives no list of numbers") end
  return sums
end

function problem:part() return self.o.objective(self.w, self.x), 0 end
function problem.whole(_, sum) return sum end
function problem.penalty() return 0 end

function problem:pull(set, sums)
  local changes <const> = self.o.pull(self.x, set, sums)
  if type(changes) ~= "table" then fail("pull gives no list of changes") end
  local size = 0
  for i, d in ipairs(changes) do
    if type(d) ~= "number" or d ~= d or math.abs(d) == math.huge then
      fail(("pull changes variable %d by %s"):format(set[i], tostring(d)))
    end
    size = size + d * d
  end
  return changes, size
end

function problem:apply(set, changes)
  for i, j in ipairs(set) do self.x[j] = self.x[j] + changes[i] end
  if self.o.apply then self.o.apply(self.w, set, changes, self.x) end
end

return problem
