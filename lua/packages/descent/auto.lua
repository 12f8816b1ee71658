-- Gram working sets as long as few variables matter, scheduled sets where they are too many: what mode = "auto" does.
-- A run begins with Gram sets, which need the fewest messages. When more variables than `gram_most` are not 0 or ought
-- not to be, it continues with scheduled sets, from the x it has; and back, once, when the support has become half as
-- large again.
---@class tide.descent.auto: tide.team.part
---@field mode "gram"|"sets"
---@field inner tide.descent.gram|tide.descent.sets
local auto = {}
auto.__index = auto

function auto.new(w, team, o)
  local self <const> = setmetatable({w = w, team = team, o = o, returned = false}, auto)
  self:begin("gram")
  return self
end

---The other way to choose, from the same x.
function auto:begin(mode, from)
  self.mode = mode
  self.inner = require("tide.descent." .. mode).new(self.w, self.team, self.o, from and from.problem.model
    or from and from.problem)
  if not from then
    self.round = self.inner.round
    return
  end
  self.inner.round = from.round + 1 -- those behind take over what has
  self.round = self.inner.round
  if mode == "sets" then
    self.inner.problem.lambda, self.inner.problem.b = from.lambdas[1], from.problem.b
    self.most = from.most
  else
    self.inner.lambdas, self.inner.most = {from.problem.lambda}, self.most
  end
end

---Goes over to the other way, and says why.
local function switch(self, mode, why)
  self:begin(mode, self.inner)
  if self.team.index == 1 then
    self.w:log(("round %d: %s, so the run continues with %s"):format(self.round, why,
      mode == "sets" and "scheduled sets" or "Gram working sets"))
  end
end

local function wrap(self, s)
  return {mode = self.mode, returned = self.returned, most = self.most or false, due = self.due or false, inner = s}
end

local function unwrap(self, s)
  if s.mode ~= self.mode then self:begin(s.mode) end
  self.returned, self.most, self.due = s.returned, s.most or nil, s.due or nil
  return s.inner
end

function auto:state() return wrap(self, self.inner:state()) end
function auto:kept() return wrap(self, self.inner:kept()) end
function auto:numbers() return self.inner:numbers() end
function auto:digest() return self.inner:digest() end
function auto:divide() self.inner:divide() end
function auto:refresh() self.inner:refresh() end

function auto:adopt(s)
  local own <const> = unwrap(self, s)
  self.inner:adopt(own)
  self.round = self.inner.round
end

function auto:fetch(s, numbers)
  local own <const> = unwrap(self, s)
  self.inner:fetch(own, numbers)
  self.round = self.inner.round
end

function auto:advance()
  self.inner:advance()
  local why <const> = self.mode == "gram" and self.inner:refuses()
  if why then
    switch(self, "sets", why)
    self.inner:advance()
  end
  local inner <const> = self.inner
  self.round, self.due, inner.due = inner.round, inner.due, nil
  local alike <const> = self.due.alike
  alike.gram = self.mode == "gram" and 1 or 0
  if self.mode == "sets" and not self.due.last and alike.gap and not self.returned
    and 2 * alike.support <= self.o.gram_most then
    self.returned = true
    switch(self, "gram", ("%d variables are not 0, `gram_most` is %d"):format(math.tointeger(alike.support),
      self.o.gram_most))
  end
end

return auto
