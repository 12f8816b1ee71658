-- Adapts batch and learning rate to the noise of the gradients, in one worker. Qiao et al., Pollux (OSDI 2021),
-- sections 3 and 4.1; AdaScale: Johnson et al. (ICML 2020).
--
-- In sampled steps each worker sends the squared norm of its gradient with the exchange, so that all workers measure
-- the noise. The first worker sends the factor on the rate, progress and the batch of the next step with the sums of a
-- step (the others add 0), so all have the same bits. Passes of a step add up in an array; the last one passes the
-- layers to the exchange. Norms are kept by group, matrices and vectors.
local compute = require "tide.compute"
local package = require "tide.package"
local tensor = require "tide.tensor"
local tide = require "tide"

local adapt = {}
adapt.__index = adapt

local KEY <const> = 1024
local SHARE <const> = 0.01 -- of a step's time that samples may take
local EVERY_MOST <const> = 100 -- steps between two samples
local ADDS <const> = {rule = "sgd", rate = -1} -- as an update rule: w + g

---Places in the numbers of a step; those behind LOCAL are set by the first worker. DIVISOR: of the sums. ROWS: squares
---of the gradients of rows, set by all workers.
adapt.numbers = {DIVISOR = 1, LOSS = 2, CORRECT = 3, COUNT = 4, LOCAL = 5, FACTOR = 7, TOTAL = 9, PASSES = 10,
                 MEET = 11, EVERY = 12, PROGRESS = 13, ROWS = 14}
local N <const> = adapt.numbers

---Rules by name: the factor on the user's rate.
adapt.rules = {adascale = true, adamscale = true, linear = true, sqrt = true, legw = true, none = true}

---@class tide.nn.batch
---@field start integer examples of a step of all workers, to which the rate belongs
---@field max? integer
---@field lo? integer examples of a worker in a pass, at least
---@field hi? integer at most: what its memory holds
---@field rule? string adascale, adamscale, linear, sqrt, legw, none; default by the optimizer
---@field warmup? integer steps of legw
---@field hold? integer examples before the batch changes
---@field grow? number times that it may grow in an epoch

---@param w tide.worker
---@param model tide.nn.model
---@param o tide.nn.batch
---@return tide.nn.adapt
function adapt.new(w, model, o)
  return setmetatable({w = w, model = model, o = o, total = o.start, passes_wished = 1, progress = 0, factor = {1, 1},
                       noise = {}, every = 1, cost_s = 0, restarted = 0, seconds = {}}, adapt)
end

---- state ---------------------------------------------------------------------------------------------------------

---The state that a joiner receives.
function adapt:export()
  return {total = self.total, passes = self.passes_wished, progress = self.progress, factor = self.factor,
          noise = self.noise, every = self.every, restarted = self.restarted}
end

function adapt:import(saved)
  self.total, self.passes_wished, self.progress = saved.total, saved.passes, saved.progress
  self.factor, self.noise, self.every, self.restarted = saved.factor, saved.noise, saved.every, saved.restarted
end

---Squared norm of the mean gradient, and variance of a gradient of `start` examples, of one group or of all.
---@return number|nil sqr, number var
function adapt:statistics(group)
  local sqr, var = 0, 0
  for g = group or 1, group or 2 do
    local n <const> = self.noise[g]
    if n then sqr, var = sqr + math.max(n.sqr, 0), var + math.max(n.var, 1e-6) end
  end
  if var == 0 then return nil, 0 end
  return sqr, var
end

---The progress of a step of `scale` times the user's batch, in steps of that batch.
function adapt:gain(scale, group)
  local sqr, var = self:statistics(group)
  if not sqr then return 1 end
  return (var + sqr) / (var / scale + sqr)
end

---- a step --------------------------------------------------------------------------------------------------------

local function group_of(parameter) return parameter.rows > 1 and 1 or 2 end

---Squared norms of a layer's gradients by group, added to `out`.
---@param layer table of exchange.describe
---@param factor number
function adapt:add_norms(layer, gradients, factor, out)
  local began <const> = tide.now()
  for _, p in ipairs(layer.parameters) do
    local g <const> = group_of(p)
    out[g] = out[g] + factor * compute.norm2("cpu", p.first, p.count, gradients)
  end
  self.cost_s = self.cost_s + tide.now() - began
end

---The number of passes in which this worker computes `count` examples.
function adapt:passes(count)
  local most <const> = self.o.hi or count
  return math.max(math.min(math.max(self.passes_wished, (count + most - 1) // most), count), 1)
end

---@param number integer of the step
---@param workers integer
---@return boolean whether this step is sampled
local function is_sampled(self, number, workers)
  if self.o.rule == "none" and not self.o.max then return false end
  return number % self.every == 0 or workers == 1 and number % self.every == 1
end

-- One gradient alone shows no noise; it is compared with the previous step's.
local function pair(self, layers, gradients, number, examples)
  local own = {0, 0}
  for _, layer in ipairs(layers) do self:add_norms(layer, gradients, 1 / examples ^ 2, own) end
  local before <const> = self.before
  if before and before.number == number - 1 and before.examples == examples then
    compute.update("cpu", ADDS, 0, self.model.layout.keys * KEY, before.gradients, gradients)
    local both = {0, 0}
    for _, layer in ipairs(layers) do self:add_norms(layer, before.gradients, 0.25 / examples ^ 2, both) end
    self.pair = {sum = {}, total = both}
    for g = 1, 2 do self.pair.sum[g] = (own[g] + before.own[g]) / 2 end
  end
  local kept <const> = before and before.gradients or tensor.zeros("f32", self.model.layout.keys, KEY)
  kept:fill(0)
  compute.update("cpu", ADDS, 0, self.model.layout.keys * KEY, kept, gradients)
  self.before = {number = number, examples = examples, own = own, gradients = kept}
end

---Forward and backward of this worker's part of a step, in passes.
---@param exchange tide.nn.exchange
---@param batch {passes: integer, load: fun(pass: integer): table}
---@param hooks {need: function, ready: function}
---@return table {loss=, count=, correct=} of all passes
function adapt:backward(exchange, batch, hooks)
  local layers <const>, gradients <const> = exchange.tensors, exchange.core:gradients(KEY)
  local all <const> = self.model.layout.keys * KEY
  local alone <const> = #exchange.ranks == 1
  local own <const> = {sampled = is_sampled(self, exchange.number, #exchange.ranks), local_ = {0, 0},
                       gradients = alone and batch.passes or 1}
  self.own, self.pair = own, nil
  local sum = {loss = 0, count = 0, correct = 0}
  local function took(r)
    for k, v in pairs(sum) do sum[k] = v + r[k] end
  end
  for pass = 1, batch.passes - 1 do
    local r <const> = self.model:backward(batch.load(pass), {need = hooks.need})
    took(r)
    if own.sampled and alone and r.count > 0 then
      for _, layer in ipairs(layers) do self:add_norms(layer, gradients, 1 / r.count, own.local_) end
    end
    self.added = self.added or tensor.zeros("f32", self.model.layout.keys, KEY)
    if pass == 1 then self.added:fill(0) end
    compute.update("cpu", ADDS, 0, all, self.added, gradients)
  end
  local last <const> = batch.load(batch.passes)
  local rows <const>, several <const> = last.rows, batch.passes > 1
  local examples <const> = sum.count + rows
  took(self.model:backward(last, {need = hooks.need, ready = function(l)
    local layer <const> = layers[l]
    if own.sampled and alone and several and rows > 0 then
      self:add_norms(layer, gradients, 1 / rows, own.local_)
    end
    if several then compute.update("cpu", ADDS, layer.first, layer.count, gradients, self.added) end
    if own.sampled and not alone and examples > 0 then
      self:add_norms(layer, gradients, 1 / examples, own.local_)
    end
    hooks.ready(l)
  end}))
  if own.sampled and alone and not several and sum.count > 0 then
    pair(self, layers, gradients, exchange.number, sum.count)
  end
  return sum
end

-- The factor of each group for the step that this worker has ended and that is not yet summed.
local function factors_of(self, scale)
  local rule <const> = self.o.rule
  if rule == "adascale" then return self:gain(scale, 1), self:gain(scale, 2) end
  local f = 1
  if rule == "adamscale" then f = self:gain(scale) ^ 0.5 end
  if rule == "linear" then f = scale end
  if rule == "sqrt" or rule == "legw" then f = scale ^ 0.5 end
  if rule == "legw" and self.o.warmup then f = f * math.min(1, (self.progress + 1) / (scale * self.o.warmup)) end
  return f, f
end

---The worker's contribution to the numbers of a step; the first worker sets those of all.
---@param numbers number[]
---@param leads boolean
---@param step_s number|nil seconds of a step, if measured
function adapt:tell(numbers, leads, step_s)
  numbers[N.LOCAL], numbers[N.LOCAL + 1] = self.own.local_[1], self.own.local_[2]
  if not leads then return end
  local scale <const> = (self.cut or self.total) / self.o.start
  numbers[N.FACTOR], numbers[N.FACTOR + 1] = factors_of(self, scale)
  numbers[N.PROGRESS] = self.progress + (self.o.rule == "none" and 1 or self:gain(scale))
  local wish <const> = self.w.work
  numbers[N.TOTAL], numbers[N.PASSES] = wish and wish.total or self.total, wish and wish.accum or self.passes_wished
  if step_s and self.own.sampled and step_s > 0 then
    self.every = math.min(math.max(math.ceil(self.cost_s / (SHARE * step_s)), 1), EVERY_MOST)
  end
  numbers[N.EVERY] = self.every
  self.cost_s = 0
end

---Applies the numbers of a step, which are equal on all workers.
---@param p table the step, whose updates are pending
function adapt:told(p, numbers)
  p.own_local, p.examples = {numbers[N.LOCAL], numbers[N.LOCAL + 1]}, numbers[N.DIVISOR]
  if numbers[N.FACTOR] > 0 then -- else the first worker died in this step
    self.factor = {numbers[N.FACTOR], numbers[N.FACTOR + 1]}
    self.progress, self.every = numbers[N.PROGRESS], math.tointeger(numbers[N.EVERY])
    local total <const> = math.tointeger(numbers[N.TOTAL])
    if total ~= self.total then self.restart = p.number end
    self.total, self.passes_wished = total, math.tointeger(numbers[N.PASSES])
  end
  p.rates = {step = self.o.rule == "none" and p.step or self.progress, self.factor[1], self.factor[2]}
  p.step = p.step - self.restarted
end

---Called after all updates of a step: adds its measurements to the averages.
---@param p table the step
---@param present integer workers whose gradients are in it
function adapt:learn(p, present)
  if p.sampled and p.whole and p.examples > 0 then
    local count = present >= 2 and present or p.gradients
    for g = 1, 2 do
      local sample = {count = count, batch = p.examples, start = self.o.start, sum = p.own_local[g] / p.examples,
                      total = p.totals[g]}
      if count < 2 and p.pair then
        sample = {count = 2, batch = 2 * p.examples, start = self.o.start, sum = p.pair.sum[g], total = p.pair.total[g],
                  biased = true}
      end
      if sample.count >= 2 then self.noise[g] = tide.k.noise(self.noise[g], sample) end
    end
  end
  if self.restart and self.restart <= p.number and #self.model.memory > 1 then -- moments of another batch's gradients
    for _, memory in ipairs(self.model.memory) do memory:fill(0) end
    self.restarted, self.restart = self.restarted + p.step, nil
  end
end

---- measurements for the policy --------------------------------------------------------------------------------------

---Called at the end of a step of this worker.
---@param seconds number since the previous one
---@param waited_s number of them, blocked on other workers
---@param count integer its examples
---@param passes integer
function adapt:measured(seconds, waited_s, count, passes)
  local s <const> = self.seconds
  local key <const> = ("%d/%d"):format(self.total, passes)
  if s.key ~= key then self.seconds = {key = key, steps = 0, sum = 0, waited = 0, count = 0, passes = passes} return end
  s.steps, s.sum, s.waited, s.count = s.steps + 1, s.sum + seconds, s.waited + waited_s, s.count + count
end

---@return table|nil of the steps since the last call: {n steps .., pass_s, step_s (of one pass), m, total, ...}
function adapt:report(workers)
  local s <const> = self.seconds
  if (s.steps or 0) == 0 then return nil end
  local pass_s <const> = math.max((s.sum - s.waited) / s.steps / s.passes, 1e-9)
  local sqr, var = self:statistics()
  self.seconds = {key = s.key, steps = 0, sum = 0, waited = 0, count = 0, passes = s.passes}
  return {workers = workers, m = s.count / s.steps / s.passes, pass_s = pass_s, steps = s.steps,
          step_s = s.sum / s.steps - (s.passes - 1) * pass_s, total = self.total, accum = s.passes, sqr = sqr,
          var = var, progress = self.progress}
end

---This worker's examples of a step, cut into passes.
---@return {passes: integer, load: fun(pass: integer): table}
function adapt:batch(count, load)
  local passes <const> = self:passes(count)
  return {passes = passes, load = function(pass) return load(package.piece(count, pass, passes)) end}
end

return adapt
