-- tide.nn.exchange: a model's gradients among the workers of a job, step by step.
--
-- A step's gradients leave layer by layer while backward runs; the sums are awaited, and the update made, layer by
-- layer where the next forward asks for the parameters. Every worker holds and updates all parameters; as the sums are
-- the same bit for bit, so are the parameters. How each layer travels is a plan of the run's `comm` policy: worker 1
-- hears of it and tells it with its sums of a step, so that all change with the next one.
local core = require "tide.core"

local exchange = {}
exchange.__index = exchange

local KEY <const> = 1024
local TELL_EVERY_S <const> = 0.25

---What a program's layers are to an exchange: where they lie, and which gradients come as factors.
---@param program tide.nn.program
---@return table[] {id, name, first, count (elements, from 0), rows, cols (largest matrix), values, rest (not in
---matrices), row_values (of factors, for one row), bytes, parameters, matrices}
function exchange.describe(program)
  local layout <const>, run <const> = program:layout(), program.core:plan("cpu", "train", 1)
  local tensors = {}
  for i, layer in ipairs(layout.layers) do
    tensors[i] = {id = i, name = layer.name, first = layer.first_key * KEY, count = 0, row_values = 0, parameters = {},
                  matrices = {}}
  end
  for i, p in ipairs(layout.parameters) do
    local t <const> = tensors[p.layer]
    t.count = math.max(t.count, p.first + p.count - t.first)
    local own = {number = i, first = p.first, count = p.count}
    t.parameters[#t.parameters + 1] = own
    if p.rows > 1 and run:offer(i, true) then
      own.matrix = true
      t.matrices[#t.matrices + 1] = {parameter = i, first = p.first, rows = p.rows, columns = p.columns}
      t.row_values = t.row_values + p.rows + p.columns
      if not t.rows or p.rows * p.columns > t.rows * t.cols then t.rows, t.cols = p.rows, p.columns end
    end
  end
  for _, t in ipairs(tensors) do
    table.sort(t.matrices, function(a, b) return a.first < b.first end)
    t.values, t.rest, t.bytes = t.count, t.count, 4 * t.count
    for _, m in ipairs(t.matrices) do t.rest = t.rest - m.rows * m.columns end
  end
  return tensors
end

---Values that a layer sends out of a worker in a step, by the formulas of docs/exchange.md.
---@param t table of describe()
---@param path string "ps", "ring" or "factor"
---@param workers integer
---@param rank number examples of a worker in a step
function exchange.values_out(t, path, workers, rank)
  if path == "factor" and t.row_values > 0 then return (workers - 1) * (rank * t.row_values + t.rest) end
  return 2 * t.values * (workers - 1) / workers
end

---@param w tide.worker
---@param model table tide.nn.model, or tide.factors.model, which has `tensors` of its own
---@return tide.nn.exchange
function exchange.new(w, model)
  local self = setmetatable({w = w, model = model, tensors = model.tensors or exchange.describe(model.program),
                             product_s = {}, told_at = core.now(), told = {steps = 0}}, exchange)
  self.core = assert(core.exchange {rank = w.rank, workers = w.workers, elements = model.layout.keys * KEY,
                                    layers = self.tensors})
  model:stage(self.core:gradients(KEY))
  self.core:connect(w:barrier("exchange", self.core:address()))
  self.core:plan(w.comm or self:all("ps", "f32"))
  self:offer()
  self.folds = model.optimizer.rule == "sgd" and not model.clip
  w:barrier "exchange is connected"
  return self
end

---A plan with the same path and format for all layers.
function exchange:all(path, format)
  local plan = {epoch = 0, paths = {}, formats = {}, fanouts = {}}
  for i in ipairs(self.tensors) do plan.paths[i], plan.formats[i], plan.fanouts[i] = path, format, 0 end
  return plan
end

---Gradients that travel as factors need not be made.
function exchange:offer()
  self.plan = self.core:plan()
  for l, t in ipairs(self.tensors) do
    for _, m in ipairs(t.matrices) do self.model.train:offer(m.parameter, self.plan.paths[l] == "factor") end
  end
end

local function finite(loss, step)
  if loss - loss == 0 then return end
  error(require("tide.script").error("T0903", ("the loss of step %d is not finite"):format(step),
    {help = "a smaller rate, or clip = 1, keeps it bounded"}), 0)
end

---Applies the sum of a layer's gradients.
function exchange:update(l, folded)
  local p <const> = self.pending
  for _, own in ipairs(self.tensors[l].parameters) do
    if not (folded and own.matrix) then self.model:update(own.first, own.count, p.scale, p.step) end
  end
end

---A layer whose gradients of the last step are here: updates its parameters.
function exchange:take(l)
  local p <const> = self.pending
  p.arrived[l] = true
  local factor <const> = p.paths[l] == "factor"
  local began <const> = core.now()
  local folded
  if factor and self.folds and p.scale > 0 then
    local rate <const> = self.model:rate(p.step)
    folded = self.core:need(l, p.step, true, self.model.parameters, -rate * p.scale,
      1 - rate * self.model.optimizer.decay)
  else
    folded = self.core:need(l, p.step, factor)
  end
  self.product_s[l] = factor and core.now() - began or 0
  if not self.model.clip then self:update(l, folded) end
  if self.model.updated then self.model:updated(l) end
end

---Waits for a layer's gradients of the last step and updates its parameters. While they are on their way, those of
---others are worked on that are here: that has to be done anyway, and hides the waiting.
function exchange:arrive(l)
  local p <const> = self.pending
  while p and not p.arrived[l] do self:take(self.core:next(l, p.step)) end
end

---The global norm needs every gradient before any update.
function exchange:arrive_clipped(count)
  local squares = 0
  for l, t in ipairs(self.tensors) do
    self:arrive(l)
    squares = squares + core.norm2("cpu", t.first, t.count, self.model.gradients)
  end
  self.pending.scale = self.model:scale(squares, count)
  for l in ipairs(self.tensors) do self:update(l, false) end
end

---Before a step: the sums of the last one are here, and the plan that all follow from now on.
function exchange:begin()
  local p <const> = self.pending
  if not p or p.begun then return end
  p.begun = true
  local count, loss, _, _, changed = self.core:sums(p.step)
  p.scale = count > 0 and (self.model.adds and 1 or 1 / count) or 0
  finite(loss, p.step)
  if self.model.clip then self:arrive_clipped(count) end
  if changed then self:offer() end
end

---One step: forward and backward of a batch, with the last step's gradients coming and this one's leaving meanwhile.
---@return table {loss=, count=, correct=} of this worker's batch
function exchange:step(batch, step)
  self:begin()
  local paths <const> = self.plan.paths
  local r = self.model:backward(batch, {
    need = function(l) self:arrive(l) end,
    ready = function(l) self.core:ready(l, step) end,
  }, self.core)
  local w <const> = self.w
  local proposal
  if w.rank == 1 then
    w:stopping() -- news of a plan is in the mailbox
    proposal = w.comm and w.comm.epoch ~= self.plan.epoch and w.comm or nil
    self:tell()
  end
  self.core:share(step, r.count, r.loss, r.correct, 0, proposal)
  self.pending = {step = step, paths = paths, arrived = {}}
  return r
end

---What the policy is told of: seconds of each layer under its path, and what the links gave.
function exchange:tell()
  self.told.steps = self.told.steps + 1
  local now <const> = core.now()
  if now - self.told_at < TELL_EVERY_S or not self.pending then return end
  local stats <const> = self.core:stats()
  local seconds = {}
  for l, s in ipairs(stats.layer_s) do seconds[l] = s + (self.product_s[l] or 0) end
  self.w:exchanged {seconds = seconds, paths = self.pending.paths, bytes = stats.bytes - (self.told.bytes or 0),
                    busy_s = stats.busy_s - (self.told.busy_s or 0), step_s = (now - self.told_at) / self.told.steps,
                    waited_s = (stats.waited_s - (self.told.waited_s or 0)) / self.told.steps}
  self.told_at, self.told = now, {steps = 0, bytes = stats.bytes, busy_s = stats.busy_s, waited_s = stats.waited_s}
end

---Waits for what is under way: then the parameters are those after the last step.
function exchange:settle()
  self:begin()
  for l in ipairs(self.tensors) do self:arrive(l) end
  self.pending = nil
end

---Figures since the last call, for a report of all workers, which adds them up.
---@return table {comm_bytes, comm_s: something was under way, comm_wait_s: this worker waited for it, ...}
function exchange:figures()
  local now <const>, was <const> = self.core:stats(), self.reported
  self.reported = now
  local sent = {comm_bytes = now.bytes - (was and was.bytes or 0), comm_s = now.busy_s - (was and was.busy_s or 0),
                comm_wait_s = now.waited_s - (was and was.waited_s or 0)}
  for path, bytes in pairs(now.payload) do
    sent["comm_" .. path .. "_bytes"] = bytes - (was and was.payload[path] or 0)
  end
  return sent
end

return exchange
