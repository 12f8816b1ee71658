-- Local steps between two exchanges: local SGD (Stich, arXiv 1805.09767) and DiLoCo (Douillard et al., arXiv
-- 2311.08105, algorithm 1). Each worker makes `every` local steps of the job's optimizer. Then the difference
-- D = w0 - w from the common parameters w0 is averaged over the workers, weighted by examples, and the outer rule
-- applies it to w0 like a gradient; all begin the next round with w0.
--
-- For an exchange and a group of workers this is a model whose step is a round and whose gradient is D, so deaths,
-- joiners and formats are handled as for gradients. Each worker's inner optimizer has a memory of its own; a joiner
-- begins with the first worker's.
local compute = require "tide.compute"
local exchange = require "tide.nn.exchange"
local optimizer = require "tide.nn.optimizer"
local tensor = require "tide.tensor"

local KEY <const> = 1024

---@class tide.nn.local_steps
---@field inner tide.nn.model
---@field parameters table tensor: w0
---@field memory table[] tensors of the outer rule
local rounds = {}
rounds.__index = rounds

---The layers of a program for an exchange of rounds: none of them has factors.
function rounds.describe(program)
  local tensors <const> = exchange.describe(program)
  for _, t in ipairs(tensors) do
    t.rest, t.row_values, t.matrices, t.rows, t.cols, t.positions = t.values, 0, {}, nil, nil, 1
  end
  return tensors
end

---@param inner tide.nn.model
---@param o {every: integer, outer: table, weigh: string}
---@return tide.nn.local_steps
function rounds.new(inner, o)
  local self = setmetatable({inner = inner, o = o, layout = inner.layout, optimizer = o.outer, memory = {},
                             tensors = rounds.describe(inner.program), steps = 0}, rounds)
  self.updates = optimizer.new(o.outer, self.layout)
  -- Arrays in a device's own memory cannot be sent to a joiner directly.
  if inner.on.parameters ~= inner.parameters then inner:stage(inner.summed, inner.summed) end
  self.parameters = tensor.zeros("f32", self.layout.keys, KEY)
  for i = 1, self.updates.plan.arrays do self.memory[i] = tensor.zeros("f32", self.layout.keys, KEY) end
  exchange.set(self.parameters, inner.parameters, 1, self.layout.keys * KEY)
  return self
end

function rounds.folds() return false end

---The state that a joiner receives beside w0: the outer rule's memory, then the first worker's inner memory.
function rounds:remembered()
  local all <const> = {table.unpack(self.memory)}
  for _, array in ipairs(self.inner:remembered()) do all[#all + 1] = array end
  return all
end

---Gradients are the exchange's, and their sum.
function rounds:stage(made, sum) self.made, self.summed = made, sum end

---The inner parameters become w0.
function rounds:give()
  exchange.set(self.inner.parameters, self.parameters, 1, self.layout.keys * KEY)
  self.inner:give()
end

---@param batch {steps: integer, load: fun(step: integer): table|nil} load: nil for a step without examples here
---@return table {loss=, count=, correct=, skipped=, steps=} of all local steps
function rounds:backward(batch, hooks)
  for l in ipairs(self.tensors) do hooks.need(l) end
  self:give()
  local r <const> = {loss = 0, count = 0, correct = 0, skipped = 0, steps = batch.steps}
  for step = 1, batch.steps do
    local part <const> = batch.load(step)
    if part then
      local made <const> = self.inner:step(part)
      for _, k in ipairs(made.skipped and {"skipped"} or {"loss", "count", "correct"}) do r[k] = r[k] + made[k] end
    else
      self.inner.steps = self.inner.steps + 1 -- schedules are the same on all
    end
  end
  self.inner:fetch()
  local all <const> = self.layout.keys * KEY
  exchange.set(self.made, self.parameters, 1, all)
  compute.update("cpu", {rule = "sgd", rate = 1}, 0, all, self.made, self.inner.parameters)
  local weight <const> = self:divisor(r)
  compute.update("cpu", {rule = "sgd", rate = 1, scale = 0, decay = 1 - weight}, 0, all, self.made, self.made)
  for l = #self.tensors, 1, -1 do hooks.ready(l) end
  return r
end

---The weight of this worker's difference in the mean.
function rounds:divisor(r) return self.o.weigh == "equal" and math.min(r.count, 1) or r.count end

---The outer rule's step.
function rounds:change(first, count, scale, step)
  local at <const> = {device = "cpu", parameters = self.parameters, gradients = self.summed, memory = self.memory}
  for i, p in ipairs(self.layout.parameters) do
    if p.first >= first and p.first < first + count then self.updates:apply(i, at, scale, step) end
  end
end

return rounds
