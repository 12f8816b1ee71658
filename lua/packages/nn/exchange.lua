-- tide.nn.exchange: a model's gradients among the workers of a job, step by step.
--
-- The gradients of a step leave layer by layer while backward runs. The next forward pass blocks on the sum of a layer,
-- and updates it, where it first reads the layer's parameters. Every worker holds and updates all parameters; the sums
-- are equal bit for bit, and so are the parameters. The plan of the run's `comm` policy says how each layer travels:
-- worker 1 receives it and sends it with its sums of a step, so that all workers change at the next one.
--
-- If workers die, the others continue the step in flight (runtime/exchange/view.c): `present` are the ranks of the last
-- step whose sums are complete, equal on all workers. A layer's sum is divided by the number of its examples.
local adapt = require "tide.nn.adapt"
local compute = require "tide.compute"
local package = require "tide.package"
local replica = require "tide.nn.replica"
local tide = require "tide"

local exchange = {}
exchange.__index = exchange

local KEY <const> = 1024
local TELL_EVERY_S <const> = 0.25
local N <const> = adapt.numbers

---The layers of a program for an exchange: their places, and which gradients are factors.
---@param program tide.nn.program
---@return table[] {id, name, first, count (elements, from 0), rows, cols (largest matrix), values, rest (not in
---matrices), row_values (of factors, for one row), positions (rows of factors for one example: as many as the matrix is
---applied to), bytes, parameters, matrices}
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
    local own = {number = i, first = p.first, count = p.count, rows = p.rows}
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
    t.positions = exchange.positions(t, run, 1)
  end
  return tensors
end

---Rows of a layer's factors for one example: the mean over its matrices, weighted by what a row of each sends.
---@param t table of describe()
---@param run table a run of the program, in training
---@param examples number of its last batch; 1 before the first
---@return number
function exchange.positions(t, run, examples)
  local values = 0
  for _, m in ipairs(t.matrices) do values = values + run:factor_rows(m.parameter) * (m.rows + m.columns) end
  return t.row_values > 0 and values / (t.row_values * examples) or 1
end

---Values that a layer sends out of a worker in a step, by the formulas of docs/guides/exchange.md.
---@param t table of describe()
---@param path string "ps", "ring" or "factor"
---@param workers integer
---@param rank number rows of its factors: examples of a worker in a step times `positions`
function exchange.values_out(t, path, workers, rank)
  if path == "factor" and t.row_values > 0 then return (workers - 1) * (rank * t.row_values + t.rest) end
  return 2 * t.values * (workers - 1) / workers
end

---Makes the actor and distributes all addresses; retries without the workers that died meanwhile.
---@param w tide.worker
---@param layers table[] of compute.exchange
---@param elements integer
---@param ranks integer[] of the callers, in order
---@return table compute.exchange
---@return integer[] ranks of the participants
function exchange.connect(w, layers, elements, ranks)
  while true do
    local index
    for i, rank in ipairs(ranks) do index = rank == w.rank and i or index end
    local x <const> = assert(compute.exchange {rank = index, workers = #ranks, elements = elements, layers = layers})
    local addresses <const> = w:barrier("exchange", x:address())
    local there <const> = replica.ranks(addresses)
    if #there == #ranks then
      local peers = {}
      for i, rank in ipairs(ranks) do peers[i] = addresses[rank] end
      x:connect(peers)
      w:barrier "exchange is connected"
      return x, ranks
    end
    x:close()
    ranks = there
  end
end

---An exchange among the workers of these ranks, all of which call this.
---@param w tide.worker
---@param model table tide.nn.model, or tide.factors.model, which has `tensors` of its own
---@param ranks integer[] in order
---@param adapts? tide.nn.adapt of a batch that changes
---@return tide.nn.exchange
function exchange.new(w, model, ranks, adapts)
  local self = setmetatable({w = w, model = model, adapts = adapts, meet = 0,
                             tensors = model.tensors or exchange.describe(model.program),
                             product_s = {}, told_at = tide.now(), told = {steps = 0}, number = 0,
                             waited_s = 0, left_at = {}, windows = {}, flops = 0, products_s = 0,
                             total = {count = 0, loss = 0, correct = 0}}, exchange)
  self.core, ranks = exchange.connect(w, self.tensors, model.layout.keys * KEY, ranks)
  self.ranks, self.present = ranks, ranks
  model:stage(self.core:gradients(KEY), self.core:sum(KEY))
  self:follow(self:all("ps", "f32"))
  self.folds = model:folds() and not adapts
  return self
end

---Ends the exchange, after all workers have received its sums.
function exchange:close()
  self.core:close()
end

---Later steps follow the plan, which is equal on all workers.
function exchange:follow(plan)
  self.core:plan(self:whole(plan))
  self:offer()
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
  error(package.error("T0903", ("the loss of step %d is not finite"):format(step),
    {help = "a smaller rate, or clip = 1, keeps it bounded"}), 0)
end

---Applies the sum of a layer's gradients.
function exchange:update(l, folded)
  local p <const> = self.pending
  for _, own in ipairs(self.tensors[l].parameters) do
    if not (folded and own.matrix) then self.model:change(own.first, own.count, p.scale, p.step, p.rates) end
  end
end

---The factor on the sum of a layer with so many examples.
function exchange:scale(count) return count > 0 and (self.model.adds and 1 or 1 / count) or 0 end

---Updates the parameters of a layer whose sum of the last step has arrived.
---@param l integer
---@param count integer examples in its sum
function exchange:take(l, count)
  local p <const> = self.pending
  p.arrived[l] = true
  p.scale = self:scale(count)
  local factor <const> = p.paths[l] == "factor"
  local began <const> = tide.now()
  local folded
  if factor and self.folds and p.scale > 0 then
    local rate <const> = self.model:rate(p.step)
    folded = self.core:need(l, p.number, true, self.model.parameters, -rate * p.scale,
      1 - rate * self.model.optimizer.decay)
  else
    folded = self.core:need(l, p.number, factor)
  end
  self.product_s[l] = factor and tide.now() - began or 0
  if factor then
    local t <const> = self.tensors[l]
    self.flops = self.flops + 2 * (t.values - t.rest) * count * t.positions
    self.products_s = self.products_s + self.product_s[l]
  end
  p.scales[l] = p.scale
  if p.sampled then
    p.whole = p.whole and count == p.examples
    self.adapts:add_norms(self.tensors[l], self.core:sum(KEY), p.scale ^ 2, p.totals)
  end
  if not self.model.clip and not p.skipped then self:update(l, folded) end
  if self.model.updated then self.model:updated(l) end
end

---Blocks until a layer's sum of the last step has arrived, and updates its parameters. Meanwhile it updates other
---layers whose sums have arrived, which hides the wait.
function exchange:arrive(l)
  local p <const> = self.pending
  while p and not p.arrived[l] do
    local since <const> = tide.now()
    local m <const>, count <const> = self.core:next(l, p.number)
    self.waited_s = self.waited_s + tide.now() - since
    self:take(m, count)
  end
end

---Called when the next forward pass reaches a layer: measures the time since its gradient, in which its sum could
---travel unnoticed.
function exchange:reach(l)
  local left <const> = self.left_at[l]
  if left then self.windows[l] = tide.now() - self.waited_s - left end
  self:arrive(l)
end

---The global norm needs every gradient before any update.
function exchange:arrive_clipped()
  local p <const> = self.pending
  local squares = p.row_squares
  for l, t in ipairs(self.tensors) do
    self:arrive(l)
    squares = squares + p.scales[l] ^ 2 * compute.norm2("cpu", t.first, t.count, self.model.summed)
  end
  local clip <const> = self.model:scale(squares, 1)
  p.clip = clip or 0
  if not clip then -- the loss was finite, the gradient is not
    self.total.skipped = (self.total.skipped or 0) + (p.skipped and 0 or 1)
    return
  end
  for l in ipairs(self.tensors) do
    p.scale = clip * p.scales[l]
    self:update(l, false)
  end
end

---Called before a step, after the sums of the last one: adopts the plan of all workers.
---@return integer[] ranks of the last step
function exchange:begin()
  local p <const> = self.pending
  if not p or p.begun then return self.present end
  p.begun = true
  local since <const> = tide.now()
  local numbers, changed = self.core:sums(p.number)
  local count, loss, correct = numbers[N.COUNT], numbers[N.LOSS], numbers[N.CORRECT]
  self.waited_s = self.waited_s + tide.now() - since
  local present = {}
  for i, index in ipairs(self.core:took_part(p.number)) do present[i] = self.ranks[index] end
  self.present, p.present = present, #present
  local total <const> = self.total
  if self.model.nan == "skip" and loss - loss ~= 0 then
    p.skipped, total.skipped = true, (total.skipped or 0) + 1
  else
    total.count, total.loss, total.correct = total.count + count, total.loss + loss, total.correct + correct
    finite(loss, p.step)
  end
  self.meet = math.max(self.meet, math.tointeger(numbers[N.MEET]))
  if self.adapts then self.adapts:told(p, numbers) end
  if self.model.clip then
    p.row_squares = count > 0 and numbers[N.ROWS] / numbers[N.DIVISOR] ^ 2 or 0
    self:arrive_clipped()
  end
  if changed then self:offer() end
  return present
end

---@return number the factor on the last step's gradients: below 1 if they are clipped, 0 if the step is left out
function exchange:bound()
  self:begin()
  local p <const> = self.pending
  return p.skipped and 0 or p.clip or 1
end

---@return boolean whether this worker is the first of those present
function exchange:leads() return self.present[1] == self.w.rank end

---One step: forward and backward of a batch. The last step's sums arrive and this step's gradients leave meanwhile.
---@param step integer number of it in the training
---@return table {loss=, count=, correct=} of this worker's batch
function exchange:step(batch, step)
  self:begin()
  local paths <const>, number <const> = self.plan.paths, self.number + 1
  self.number, self.examples = number, batch.count or batch.rows -- of a forest, rows is a method
  local hooks <const> = {
    need = function(l) self:reach(l) end,
    ready = function(l)
      self.left_at[l] = tide.now() - self.waited_s
      self.core:ready(l, number)
    end,
  }
  local adapts <const> = self.adapts
  local r = adapts and adapts:backward(self, batch, hooks) or self.model:backward(batch, hooks, self.core)
  if adapts and self.pending then adapts:learn(self.pending, self.pending.present) end
  local w <const> = self.w
  local leads <const> = self:leads()
  local proposal
  local numbers <const> = {0, r.loss, r.correct, r.count}
  if leads then
    w:stopping() -- news of a plan is in the mailbox
    proposal = self:proposed()
    numbers[N.MEET] = w.meet
    self:tell()
  end
  if adapts then adapts:tell(numbers, leads, self:timed(r.count, batch.passes)) end
  numbers[N.ROWS] = self.model.row_squares and self.model.row_squares() or 0
  numbers[N.DIVISOR] = self.model.divisor and self.model:divisor(r) or r.count
  for i = 1, N.ROWS do numbers[i] = numbers[i] or 0 end
  self.core:share(number, numbers, proposal)
  self.pending = {step = step, number = number, paths = paths, arrived = {}, scales = {}}
  if adapts then
    local p <const>, own <const> = self.pending, adapts.own
    p.sampled, p.whole, p.totals, p.gradients, p.pair = own.sampled, true, {0, 0}, own.gradients, adapts.pair
  end
  return r
end

---The plan of the next step, if it changed.
function exchange:proposed()
  local plan <const> = self.w.comm
  if not plan or plan.epoch == self.plan.epoch then return nil end
  return self:whole(plan)
end

---A batch that changes requires norms of whole gradients, and the pieces of a cut batch add up: none travels as
---factors.
function exchange:whole(plan)
  if not self.adapts and not self.model.memory_limit then return plan end
  local whole = {epoch = plan.epoch, paths = {}, formats = {}, fanouts = plan.fanouts}
  for l in ipairs(self.tensors) do
    local factor <const> = plan.paths[l] == "factor"
    whole.paths[l], whole.formats[l] = factor and "ps" or plan.paths[l], factor and "f32" or plan.formats[l]
  end
  return whole
end

---@return number seconds since the step before ended
function exchange:timed(count, passes)
  local now <const> = tide.now()
  local seconds <const>, waited_s <const> = now - (self.ended_at or now), self.waited_s - (self.waited_before or 0)
  self.ended_at, self.waited_before = now, self.waited_s
  if seconds > 0 then self.adapts:measured(seconds, waited_s, count, passes) end
  return seconds
end

---to = scale * from
---@param to userdata f32, of rows of 1024, as `from`
function exchange.set(to, from, scale, elements)
  to:fill(0)
  compute.update("cpu", {rule = "sgd", rate = -scale}, 0, elements, to, from)
end

---All workers receive the tensors of one that has them, layer by layer: the others add zeros.
---@param tensors table[] of the parameters' layout
---@param sources integer[] ranks of workers that have them; if one dies, the next one sends
function exchange:hand_over(tensors, sources)
  local gradients <const>, sum <const> = self.core:gradients(KEY), self.core:sum(KEY)
  local all <const> = self.model.layout.keys * KEY
  local has
  for _, rank in ipairs(sources) do has = has or rank == self.w.rank end
  local source = 1
  local i = 1
  while i <= #tensors do
    if not sources[source] then error("no worker that has the parameters is left", 0) end
    local gives <const> = sources[source] == self.w.rank
    gradients:fill(0)
    if gives then exchange.set(gradients, tensors[i], 1, all) end
    self.number = self.number + 1
    for l in ipairs(self.tensors) do self.core:ready(l, self.number) end
    self.core:share(self.number, {gives and 1 or 0})
    self.core:sums(self.number)
    local whole, taken = true, {}
    for l in ipairs(self.tensors) do
      while not taken[l] do
        local m, count = self.core:next(l, self.number)
        self.core:need(m, self.number, false)
        whole, taken[m] = whole and count == 1, true
      end
    end
    if whole and not has then exchange.set(tensors[i], sum, 1, all) end
    if whole then i = i + 1 else source = source + 1 end
  end
end

---Measurements for the policy: seconds of each layer under its path, and the rate of the links.
function exchange:tell()
  self.told.steps = self.told.steps + 1
  local now <const> = tide.now()
  if now - self.told_at < TELL_EVERY_S or not self.pending then return end
  local stats <const> = self.core:stats()
  local waited_s <const> = stats.waited_s + stats.skew_s
  local seconds, windows, positions = {}, {}, {}
  local counted <const> = self.model.program and (self.examples or 0) > 0
  for l, s in ipairs(stats.layer_s) do
    local t <const> = self.tensors[l]
    seconds[l], windows[l] = s + (self.product_s[l] or 0), self.windows[l] or 0
    if counted then t.positions = exchange.positions(t, self.model.train, self.examples) end
    positions[l] = t.positions
  end
  self.w:exchanged {seconds = seconds, paths = self.pending.paths, bytes = stats.bytes - (self.told.bytes or 0),
                    busy_s = stats.busy_s - (self.told.busy_s or 0), step_s = (now - self.told_at) / self.told.steps,
                    windows = windows, positions = positions, flops = self.flops, products_s = self.products_s,
                    adapts = self.adapts and self.adapts:report(#self.present),
                    waited_s = (waited_s - (self.told.waited_s or 0)) / self.told.steps}
  self.flops, self.products_s = 0, 0
  self.told_at, self.told = now, {steps = 0, bytes = stats.bytes, busy_s = stats.busy_s, waited_s = waited_s}
end

---Blocks until no sum is in flight. Then the parameters are those after the last step, and the figures include all that
---this worker sent for it.
function exchange:settle()
  self:begin()
  for l in ipairs(self.tensors) do self:arrive(l) end
  if self.adapts and self.pending then self.adapts:learn(self.pending, self.pending.present) end
  self.pending, self.ended_at = nil, nil
  self.core:flush()
end

---@return table {loss=, count=, correct=} of all workers since the last call
function exchange:totals()
  local total <const> = self.total
  self.total = {count = 0, loss = 0, correct = 0}
  return total
end

---Figures since the last call, for a report of all workers, which adds them up.
---@return table {comm_bytes, comm_s: some gradient was in flight, comm_skew_s: of it, only this worker had ended the
---step, comm_wait_s: of it, blocked on gradients that all had ready, ...}
function exchange:figures()
  local now <const>, was <const> = self.core:stats(), self.reported
  self.reported = now
  local sent = {comm_bytes = now.bytes - (was and was.bytes or 0), comm_s = now.busy_s - (was and was.busy_s or 0),
                comm_wait_s = now.waited_s - (was and was.waited_s or 0),
                comm_skew_s = now.skew_s - (was and was.skew_s or 0)}
  for path, bytes in pairs(now.payload) do
    sent["comm_" .. path .. "_bytes"] = bytes - (was and was.payload[path] or 0)
  end
  return sent
end

return exchange
