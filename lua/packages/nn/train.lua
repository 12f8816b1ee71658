-- tide.nn.train: data-parallel training of a program as a job on tables.
--
-- Each worker computes the gradient of its part of a batch, passes its layers to the exchange (tide.nn.exchange) and
-- updates its replica of the parameters with the sums. Batches are cut from an order of the examples that depends on
-- seed and epoch alone, and divided among the present workers. If a worker dies, its examples of the step in flight are
-- assigned again at the epoch's end, and the others take over the rest of its share. Running statistics are local
-- during an epoch and averaged over the workers at its end. At an epoch's end parameters and statistics are written to
-- the tables `params` and `states`. Workers join and leave between two steps, at an epoch's end or in the middle of it.
--
-- With `batch = {start =, max =}` batch and learning rate follow the noise of the gradients (tide.nn.adapt).
local adapt = require "tide.nn.adapt"
local compute = require "tide.compute"
local group = require "tide.nn.worker_group"
local local_steps = require "tide.nn.local_steps"
local data = require "tide.data"
local optimizer = require "tide.nn.optimizer"
local exchange = require "tide.nn.exchange"
local package = require "tide.package"
local replica = require "tide.nn.replica"
local shared_rows = require "tide.nn.shared_rows"
local tensor = require "tide.tensor"
local tide = require "tide"
local units = require "tide.units"

local train = {}

local KEY <const> = 1024
local SLOTS <const> = 64 -- workers whose inner optimizers' memory is kept, with local steps

local function state_keys(layout) return math.max(1, (layout.states + KEY - 1) // KEY) end

local nets <const> = setmetatable({}, {__mode = "k"}) -- job -> inputs, metrics and options that its workers read

---Examples as rows of tensors "PART.NAME", one for each input of the program.
local function tensors_of(w, part)
  local inputs <const> = nets[w.job].inputs
  local whole, buffers, rows = {}, nil, nil
  for i, name in ipairs(inputs) do
    local t <const> = w.data:whole(("%s.%s"):format(part, name))
    if rows and t:rows() ~= rows then
      error(package.error("T0402", ("`%s.%s` has %d examples, `%s.%s` %d"):format(part, inputs[1], rows, part, name,
        t:rows()), {help = "an example is a row of each input"}), 0)
    end
    whole[i], rows = t, rows or t:rows()
  end
  return {
    count = rows,
    ---Examples first .. of an order, copied.
    pick = function(order, first, count, most)
      if not buffers then
        buffers = {}
        for i, t in ipairs(whole) do buffers[i] = tensor.zeros(t:type(), most, t:columns()) end
      end
      local batch <const>, numbers <const> = {first = 1, rows = count}, order:slice(first, count)
      for i, name in ipairs(inputs) do
        buffers[i]:pick(whole[i], numbers)
        batch[name] = buffers[i]
      end
      return batch
    end,
    slice = function(first, count)
      local batch <const> = {first = first, rows = count}
      for i, name in ipairs(inputs) do batch[name] = whole[i] end
      return batch
    end,
  }
end

---Examples as samples of a tide.data.forest.
local function forest_of(w, part)
  local samples <const> = w.data:whole(part)
  local weights <const> = samples:weights()
  local start <const> = samples.first
  return {
    count = samples.count,
    pick = function(order, first, count) return samples:numbered(order):slice(first, count) end,
    slice = function(first, count) return samples:slice(first, count) end,
    weight = function(number) return weights[start + number] end, -- number from 0
    ---Labels that count among samples first .. of an order, of all workers; requires no computation.
    ---@param counts table[] of program:counting()
    counted = function(counts, order, first, count)
      local all <const>, sum = samples:numbered(order):slice(first, count), 0
      for _, each in ipairs(counts) do sum = sum + all:counted(each.label, each.kind and {each.kind}) end
      return sum
    end,
  }
end

---@class tide.nn.trainer
local trainer = {}
trainer.__index = trainer

-- The name under which checkpoints store the memory of update rules.
local function identity(o)
  local layout <const> = o.program:layout()
  local outer <const> = o.exchange and ", outer " .. optimizer.identity(o.exchange.outer, layout) or ""
  return optimizer.identity(o.optimizer, layout) .. (o.average and ", averaged" or "") .. outer
end

-- Why a job cannot resume from the records of a checkpoint's workers: they have the state of another optimizer.
local function misfit(o, records)
  for _, record in pairs(records) do
    local has <const>, trains <const> = (record.state or {}).optimizer, identity(o)
    if has and has ~= trains then
      return ("the checkpoint has the state of optimizer `%s`, the job trains with `%s`"):format(has, trains)
    end
  end
  return nil
end

-- This worker's share of the squares of the rows' gradients, summed over all workers: each row counts once.
local function row_squares(self)
  local tables <const>, squares = self.model.tables, 0
  for _, t in ipairs(tables) do t:offer() end
  for _, t in ipairs(tables) do t:settle() end
  self.w:clock()
  for _, t in ipairs(tables) do squares = squares + t:product() end
  return squares
end

local function new_trainer(w, o, changes)
  local self = setmetatable({w = w, batch = o.batch, per = o.per, figures = {}}, trainer)
  self.counts = o.program.vertex and o.program:counting() or nil
  local rules <const> = o.program.vertex and shared_rows.rules(o.tables) or nil
  self.model = o.program:compile {device = o.device, seed = w.seed, mask_seed = w.seed * 1000003 + w.rank,
                                  optimizer = o.optimizer, clip = o.clip, per = o.per, memory = o.memory,
                                  average = o.average, nan = o.nan,
                                  tables = rules, rows = o.program.vertex and shared_rows.of(w) or nil}
  if o.clip and #self.model.tables > 0 then self.model.row_squares = function() return row_squares(self) end end
  self.identity = identity(o)
  self.rounds = o.exchange and local_steps.new(self.model, o.exchange)
  self.replica = replica.new(w, self.rounds or self.model)
  self.state_rows = state_keys(self.model.layout)
  self.examples = (o.program.vertex and forest_of or tensors_of)(w, "train")
  self.most = math.min(changes and changes.hi or o.batch, self.examples.count)
  self.clocked = shared_rows.clocked(o.tables)
  self.group = group.new(w, self.rounds or self.model, {meets = not o.program.vertex,
                                       adapts = changes and adapt.new(w, self.model, changes)})
  return self
end

---Running statistics become their mean over the workers; buffers stay as they are.
---@return fun()|nil write writes them to their table
function trainer:average_states()
  local states <const> = self.model.states
  self.model:fetch()
  if self.model.layout.states == 0 then return nil end
  local buffers = {}
  for i, b in ipairs(self.model.program.buffers) do
    buffers[i] = {view = states:view(b.first + 1, b.rows, b.columns)}
    buffers[i].values = buffers[i].view:copy()
  end
  self.group:average(states)
  for _, b in ipairs(buffers) do b.view:put(1, b.values) end
  self.model:give()
  return function() self:write_states() end
end

function trainer:write_states()
  if self.model.layout.states == 0 then return end
  self.w.tables.states:push(replica.range(0, self.state_rows), self.model.states)
end

-- The memory of update rules, and the moving average: f(table, first row in it, array, own) for each. own: with local
-- steps the inner rule's, of which each worker has another; they lie behind the outer rule's, worker after worker.
local function each_memory(self, f)
  local own <const>, rows <const>, tables <const> = self.model, self.model.layout.keys, self.w.tables
  local here <const> = own.staged or own.on.parameters == own.parameters -- else in the device's memory
  local function visit(to, first, array, alone)
    local held <const> = here and array or tensor.zeros("f32", rows, KEY)
    if not here then compute.fetch(array, held) end
    f(to, first, held, alone)
    if not here then compute.give(array, held) end
  end
  local before = 0
  if self.rounds then
    for i, array in ipairs(self.rounds.memory) do f(tables.memory, (i - 1) * rows, array) end
    before = #self.rounds.memory + (self.slot - 1) % SLOTS * #own.memory
  end
  for i, array in ipairs(own.memory) do visit(tables.memory, (before + i - 1) * rows, array, self.rounds) end
  if own.average then visit(tables.average, 0, own.average) end
end

-- Writes a piece of it to the tables: the average alone if no checkpoint requires the rest.
local function write_memory(self, i, n, all)
  self.slot, self.slots = i, n
  each_memory(self, function(to, first, held, alone)
    if not all and to ~= self.w.tables.average then return end
    local from, count = 1, held:rows()
    if not alone then from, count = package.piece(count, i, n) end
    if count > 0 then to:push(replica.range(first + from - 1, count), held:slice(from, count)) end
  end)
end

---Writes the parameters to the tables; for checkpoints the update rule's memory too.
function trainer:store()
  local keeps <const> = self.w.job.checkpoint
  self.replica:store(self:average_states(), function(i, n) write_memory(self, i, n, keeps) end)
end

---Called when all workers leave and others will resume: parameters and memory go to tables, the rest to w.state.
---Running statistics are equal on all workers by now.
---@param left_off table of the group
function trainer:hand_in(left_off)
  self.replica:store(function() self:write_states() end, function(i, n) write_memory(self, i, n, true) end)
  left_off.optimizer, left_off.inner, left_off.slots = self.identity, self.model.steps, self.slots
  self.w.state = left_off
end

---Called before the first epoch: writes the initial parameters to the tables.
function trainer:begin()
  self.replica:store(function()
    for _, t in ipairs(self.model.tables) do t:begin() end
  end)
end

---Resumes from a checkpoint, or from workers that have left.
function trainer:recall()
  self.group.steps = self.w.state.steps
  self.model.steps = self.rounds and self.w.state.inner or self.w.state.steps
  for i, rank in ipairs(self.group.ranks) do
    if rank == self.w.rank then self.slot = (i - 1) % (self.w.state.slots or 1) + 1 end
  end
  if self.group.adapts and self.w.state.adapts then self.group.adapts:import(self.w.state.adapts) end
  each_memory(self, function(from, first, held) from:pull(replica.range(first, held:rows()), {into = held}) end)
end

---One synchronous step of all workers, on this one's part of a batch, which may be empty.
---@param order table u32 tensor numbers of examples
---@param whole table {first=, count=} of the batch of all workers
function trainer:train(order, first, count, whole)
  local own <const>, adapts <const> = self.model, self.group.adapts
  local function load(from, rows) return self.examples.pick(order, first + from - 1, rows, self.most) end
  local steps <const> = self.rounds and (whole.count + self.batch - 1) // self.batch
  local r <const> = self.group:step(adapts and adapts:batch(count, load) or steps and {
    steps = steps, rows = count, load = function(step)
      local from <const>, rows <const> = package.piece(count, step, steps)
      return rows > 0 and load(from, rows) or nil
    end} or load(1, count))
  if #own.tables > 0 then
    if self.group.exchange then -- alone, the model has changed them itself
      local all <const> = self.per == "sample" and whole.count
        or self.examples.counted(self.counts, order, whole.first, whole.count)
      local bound <const> = (own.clip or own.nan == "skip") and self.group.exchange:bound() or 1
      for _, t in ipairs(bound > 0 and all > 0 and own.tables or {}) do t:update(bound / all, self.group.steps) end
    end
    for _, t in ipairs(own.tables) do t:settle() end
    if self.clocked then self.w:clock() end
  end
  return r
end

local function add(to, from)
  for k, v in pairs(from) do to[k] = (to[k] or 0) + v end
end

---Blocks until no sum is in flight, and writes the parameters to the tables.
---@return table figures of the exchange since the last time
function trainer:settle()
  local figures <const> = self.group:settle()
  if self.rounds then self.rounds:give() end
  self:store()
  self.replica:compare()
  if self.rounds then self.rounds:give() end
  figures.resyncs, self.replica.resyncs = self.replica.resyncs, 0
  return figures
end

---Leaves an epoch in its middle: a joiner finds running statistics and the rest of the epoch.
---@param left table[] spans
---@param total table of all workers so far
function trainer:pause(left, total)
  add(self.figures, self.group:settle())
  local write <const> = self:average_states()
  if write and self.group:present()[1] == self.w.rank then write() end
  self.group.unfinished = {left = left, total = total}
end

local EVALUATED <const> = 256 -- examples at a time

---@param examples table of tensors_of or forest_of
local function evaluate_on(w, examples)
  local own <const> = w.trainer.model
  local sums, tested = {loss = 0, correct = 0}, 0
  local from, rows <const> = w.trainer.group:piece(examples.count)
  for first = from, from + rows - 1, EVALUATED do
    local r = own:evaluate(examples.slice(first, math.min(EVALUATED, from + rows - first)))
    sums.loss, sums.correct, tested = sums.loss + r.loss, sums.correct + r.correct, tested + r.count
  end
  return sums, tested
end

-- Sums and counts of the job's own metrics over this worker's piece of a part.
local function measure(w, part, names)
  local examples <const>, own <const> = tensors_of(w, part), w.trainer.model
  local from, rows <const> = w.trainer.group:piece(examples.count)
  local sums, counts = {}, {}
  for _, name in ipairs(names) do sums[name], counts[name] = 0, 0 end
  for first = from, from + rows - 1, EVALUATED do
    local given <const> = examples.slice(first, math.min(EVALUATED, from + rows - first))
    local outputs <const>, batch = own:forward(given), {rows = given.rows}
    for _, name in ipairs(nets[w.job].inputs) do batch[name] = given[name]:slice(first, given.rows) end
    for _, name in ipairs(names) do
      local sum, count = nets[w.job].metrics[name](outputs, batch)
      if type(sum) ~= "number" or count ~= nil and type(count) ~= "number" then
        error(package.error("T0203", ("metric `%s` returns a sum over the examples of the batch, and perhaps a count")
          :format(name)), 0)
      end
      sums[name], counts[name] = sums[name] + sum, counts[name] + (count or given.rows)
    end
  end
  return sums, counts
end

---Adds the held-out part to a report: its loss, correct answers and metrics, as sums, each with its count: `valid_loss`
---with `valid_examples`, `valid_NAME` with `valid_NAME_n`.
---@param report table
---@param part string
function trainer:validate(report, part)
  local w <const> = self.w
  local sums, tested = evaluate_on(w, tensors_of(w, part))
  report.valid_loss, report.valid_correct, report.valid_examples = sums.loss, sums.correct, tested
  local names <const> = package.sorted_keys(nets[w.job].metrics)
  if #names == 0 then return end
  local own, counts = measure(w, part, names)
  for _, name in ipairs(names) do
    report["valid_" .. name], report[("valid_%s_n"):format(name)] = own[name], counts[name]
  end
end

-- With `nan = "skip"` an epoch of which nothing is left has no loss, and learned nothing.
local function refuse_all_skipped(number, skipped)
  local why <const> = ("all %d steps of epoch %d were skipped: none had a finite loss"):format(skipped, number)
  error(package.error("T0903", why,
    {help = "look for inputs that are not finite; a smaller rate, or clip = 1, bounds the loss"}), 0)
end

local function run_epoch(self, epoch)
  local w <const> = self.w
  self.model.params = w.params -- of the newest report, the same on all workers
  local order <const> = data.order(self.examples.count, w.seed * 7919 + epoch.number)
  local weight <const> = self.examples.weight
  local weigh <const> = weight and function(place) return weight(order[place]) end or nil
  local goes_on <const> = epoch.unfinished
  local left <const> = goes_on and goes_on.left or {{first = 1, count = #order}}
  local own = not epoch.joins and goes_on and self.own or {loss = 0, count = 0, correct = 0, skipped = 0, steps = 0}
  local round <const> = self.rounds and self.batch * self.rounds.o.every or self.batch
  for first, count, whole in self.group:batches(left, round, false, weigh) do
    local r <const> = self:train(order, first, count, whole)
    own.steps, own.skipped = own.steps + (r.steps or 1), own.skipped + (r.skipped or 0)
    local counts <const> = self.model.nan == "stop" or r.loss - r.loss == 0
    for _, k in ipairs(counts and {"loss", "count", "correct"} or {}) do own[k] = own[k] + r[k] end
    w:report {loss = counts and r.loss or 0, examples = r.count, wait = false}
  end
  local total <const> = self.group:totals()
  if goes_on then add(total, goes_on.total) end
  self.own = own
  if #left > 0 then return self:pause(left, total) end
  local skipped <const> = math.max(total.skipped or 0, own.skipped)
  if total.count == 0 and skipped > 0 then refuse_all_skipped(epoch.number, skipped) end
  local report <const> = self:settle()
  add(report, self.figures)
  self.figures = {}
  report.loss, report.examples, report.correct, report.steps = own.loss, own.count, own.correct, own.steps
  report.alike = {loss = total.loss, examples = total.count, correct = total.correct, skipped = total.skipped}
  if self.rounds then report.skipped = own.skipped end -- of its local steps; without them all skip the same step
  if nets[w.job].watch and self.group:present()[1] == w.rank and self.model.last then -- sums of one worker's
    for name, number in pairs(self.model:watch(self.model.last):fields()) do report[name] = number end
  end
  if nets[w.job].validate then self:validate(report, nets[w.job].validate) end
  local adapts <const> = self.group.adapts
  if adapts then report.alike.batch, report.alike.progress = adapts.total, adapts.progress end
  w:report(report)
  if w.job.checkpoint then -- a cut at this clock contains this epoch and nothing of the next one
    w.state = {epoch = epoch.number, steps = self.group.steps, optimizer = self.identity, inner = self.model.steps,
               slots = self.slots}
    w:clock()
  end
end

---Evaluations of a job: of forests all vertices, and roots alone, of each part that is held out.
local function evaluations(program, metrics)
  local made = {}
  if not program.vertex then
    made.test = function(w) return evaluate_on(w, tensors_of(w, "test")) end
    for name in pairs(metrics) do
      made[name] = function(w)
        local sums, counts = measure(w, "test", {name})
        return sums[name], counts[name]
      end
    end
    return made
  end
  for _, part in ipairs {"test", "dev"} do
    made[part] = function(w) return evaluate_on(w, forest_of(w, part)) end
    made[part .. "_roots"] = function(w)
      local roots <const> = w.data:whole(part):roots(program:label())
      return evaluate_on(w, {count = roots.count, slice = function(first, count) return roots:slice(first, count) end})
    end
  end
  return made
end

local KNOWN <const> = {name = true, program = true, data = true, batch = true, epochs = true, optimizer = true,
                       clip = true, seed = true, comm = true, device = true, tables = true, per = true, memory = true,
                       batching = true, metrics = true, validate = true, stop = true, checkpoint = true,
                       params = true, average = true, exchange = true, nan = true, watch = true}
local EXCHANGE <const> = {every = true, outer = true, format = true, weigh = true}
local STOP <const> = {loss = true, time = true, metric = true, patience = true, better = true, by = true}
local REPORTED <const> = {loss = "examples", valid_loss = "valid_examples", valid_correct = "valid_examples",
                          correct = "examples"}
local BATCH <const> = {start = true, max = true, lo = true, hi = true, rule = true, warmup = true, hold = true,
                       grow = true}
local ADAM <const> = {adam = true, adamw = true, rmsprop = true} -- and own rules that are `normalised`

local function fail(o, why) error(package.error("T0203", ("nn.job `%s`: %s"):format(tostring(o.name), why)), 4) end

-- The complete options of a batch that changes; nil: the batch is a number.
local function check_batch(o)
  local b <const> = o.batch
  if type(b) ~= "table" then
    if o.batching then fail(o, "`batching` names a policy for a batch that changes: batch = {start =, max =}") end
    if math.type(b) ~= "integer" or b < 1 then fail(o, "`batch` must be a whole number of examples, 1 or more") end
    return nil
  end
  if o.program.vertex then fail(o, "a batch that changes is for programs of tensors") end
  package.check_fields("T0203", "`batch` of nn.job", b, BATCH)
  for _, name in ipairs {"start", "max", "lo", "hi", "warmup", "hold"} do
    if b[name] ~= nil and (math.type(b[name]) ~= "integer" or b[name] < (name == "hold" and 0 or 1)) then
      fail(o, ("`batch.%s` must be a whole number of 1 or more"):format(name))
    end
  end
  if not b.start then fail(o, "`batch.start`, the examples of a step to which the rate belongs, is missing") end
  local adam <const> = ADAM[o.optimizer.rule] or o.optimizer.normalised
  local all <const> = {start = b.start, max = b.max or b.start, lo = b.lo or 1, hi = b.hi or b.max or b.start,
                       rule = b.rule or (adam and "adamscale" or "adascale"), warmup = b.warmup, hold = b.hold or 0,
                       grow = b.grow or 2}
  if all.start > all.max then fail(o, ("`batch.start` is %d, above `max`, %d"):format(all.start, all.max)) end
  if all.lo > all.hi then fail(o, ("`batch.lo` is %d, above `hi`, %d"):format(all.lo, all.hi)) end
  if not adapt.rules[all.rule] then
    fail(o, ("`batch.rule` is `%s`; there are adascale, adamscale, linear, sqrt, legw, none"):format(
      tostring(all.rule)))
  end
  if all.rule == "legw" and not all.warmup then fail(o, "`batch.warmup`, steps, is missing: legw requires it") end
  if type(all.grow) ~= "number" or all.grow < 1 then fail(o, "`batch.grow` must be a number of 1 or more") end
  return all
end

-- When the job ends: after its epochs, by loss or time, or when a metric of the reports stops improving.
local function stop_rule(o)
  local s <const> = o.stop or {}
  package.check_fields("T0203", "`stop` of nn.job", s, STOP)
  local rule = {epochs = o.epochs, loss = s.loss, time = s.time}
  if not (s.metric or s.patience) then return rule end
  local metric <const> = s.metric or (o.validate and "valid_loss" or "loss")
  local own <const> = metric:match "^valid_(.+)$"
  local per = REPORTED[metric]
  if own and (o.metrics or {})[own] then per = metric .. "_n" end
  if not per then
    fail(o, ("`stop.metric` is `%s`; there are loss, correct, and with `validate` valid_loss, valid_correct and valid_"
      .. "NAME of each metric"):format(tostring(metric)))
  end
  if own and not o.validate then
    fail(o, ("`stop.metric` is `%s`, which `validate = PART` makes: name the part"):format(metric))
  end
  rule.metric, rule.per, rule.patience = metric, per, s.patience or 1
  rule.better, rule.by = s.better or (metric:find "correct$" and "more" or "less"), s.by
  return rule
end

local function is_rule(o) return type(o) == "table" and (o.rule or o.step or o.each) ~= nil end

-- The complete options of local steps, and the policy `comm`; nil: workers exchange gradients in each step.
local function check_exchange(o, changes)
  local e <const> = o.exchange
  if e == nil then return nil, o.comm or "comm/hybrid" end
  package.check_fields("T0203", "`exchange` of nn.job", e, EXCHANGE)
  if math.type(e.every) ~= "integer" or e.every < 1 then
    fail(o, ("`exchange.every` is %s, not a number of local steps, 1 or more"):format(tostring(e.every)))
  end
  if e.outer ~= nil and not is_rule(e.outer) then
    fail(o, "`exchange.outer` must be an update rule, like nn.nesterov {lr = 0.7, mu = 0.9}")
  end
  if e.weigh ~= nil and e.weigh ~= "count" and e.weigh ~= "equal" then
    fail(o, ('`exchange.weigh` is "count" or "equal", not %q'):format(tostring(e.weigh)))
  end
  if e.format ~= nil and (e.format ~= "f32" and e.format ~= "bf16" or o.comm) then
    fail(o, o.comm and "`exchange.format`: the policy `comm` has the format as its parameter"
      or ('`exchange.format` is "f32" or "bf16", not %q'):format(tostring(e.format)))
  end
  for what, given in pairs {["a program of vertices"] = o.program.vertex, ["a batch that changes"] = changes,
                            ["`average`"] = o.average} do
    if given then fail(o, ("`exchange`: local steps are not possible with %s"):format(what)) end
  end
  return {every = e.every, outer = e.outer or {rule = "sgd", lr = 1, decay = 0}, weigh = e.weigh or "count"},
    e.format and {policy = "comm/always-ps", params = {format = e.format}} or o.comm or "comm/hybrid"
end

local function check_metrics(o)
  for name, f in pairs(o.metrics or {}) do
    if type(name) ~= "string" or type(f) ~= "function" then fail(o, "`metrics` are functions by name") end
    if name == "test" then fail(o, "a metric cannot be called `test`, which is loss and correct answers") end
  end
  if o.program.vertex and (o.metrics or o.validate) then
    fail(o, "`metrics` and `validate` are for programs of tensors; forests are evaluated by parts")
  end
end

-- Checks the fields of nn.job.
local function check_job(o, changes)
  if not o.program.vertex and (o.tables or o.per or o.memory) then
    error(package.error("T0203", "tables, per and memory are of programs of vertices (nn.vertex)"), 0)
  end
  if o.memory ~= nil and not units.parse_size(o.memory) then
    fail(o, ("`memory` is %s: %s"):format(tostring(o.memory), select(2, units.parse_size(o.memory))))
  end
  if not is_rule(o.optimizer) then
    fail(o, "`optimizer` is missing: an update rule like nn.adamw {lr = 1e-3}")
  end
  if o.epochs == nil and o.stop == nil then
    fail(o, "`epochs`, passes over the data, is missing, and no `stop` rule ends the run")
  end
  if o.nan ~= nil and o.nan ~= "stop" and o.nan ~= "skip" then
    fail(o, ('`nan` is "stop" or "skip", not %q'):format(tostring(o.nan)))
  end
  if o.watch and o.program.vertex then fail(o, "`watch` is for programs of tensors") end
  local unaveraged <const> = o.average and shared_rows.average_problem(o.program)
  if unaveraged then fail(o, unaveraged .. "; leave `average` out") end
  check_metrics(o)
  if o.checkpoint and (changes or type(o.checkpoint) ~= "table") then
    fail(o, "`checkpoint = {dir =}` is for a batch that is a number")
  end
  if o.checkpoint and o.program.vertex and #o.program:tables() > 0 and shared_rows.clocked(o.tables) then
    fail(o, '`checkpoint`: an epoch is a clock then, and a table with clocks of its own has one a step; say '
      .. 'tables = {NAME = {.., consistency = "sequential"}}')
  end
end

-- Tables of a job of nn: those of the program, of the update rule, of the average, and those that it declares.
local function tables_of(o, keys, states, memories, declared)
  local copies <const> = package.copies()
  local function of(count, slots)
    return tide.table {keys = tide.dense(count), width = KEY, slots = slots, update = {"assign"}, replicas = copies}
  end
  local made = {params = of(keys, "range"), states = of(states)}
  if memories > 0 then -- its rows take memory once they are written: for checkpoints, and when all workers leave
    made.memory = of(keys * memories, "range")
  end
  if o.average then made.average = of(keys, "range") end
  for name, declare in pairs(declared) do made[name] = declare() end
  return made
end

---A job that trains a program on parts of data by the names of its inputs ("train.x", "train.y", "test.x", "test.y"
---of inputs x and y), or a program of vertices on a tide.data.forest.
---@param o tide.nn.job_fields
---@return tide.job
function train.job(o)
  package.check_fields("T0203", "nn.job", o, KNOWN)
  local changes <const> = check_batch(o)
  check_job(o, changes)
  local rounds <const>, comm <const> = check_exchange(o, changes)
  if rounds then
    local given <const> = o
    o = setmetatable({exchange = rounds}, {__index = given})
  end
  local declared <const> = shared_rows.declare(o.program, o.tables, o.clip)
  local layout <const> = o.program:layout()
  local keys <const>, states <const> = layout.keys, state_keys(layout)
  local memories = optimizer.plan(o.optimizer, layout).arrays
  if rounds then memories = optimizer.plan(rounds.outer, layout).arrays + SLOTS * memories end
  local job <const> = tide.job {
    name = o.name, data = o.data, seed = o.seed or 1, stop = stop_rule(o), params = o.params,
    checkpoint = o.checkpoint,
    policies = {comm = comm, batching = changes and (o.batching or "batching/goodput") or nil},
    tables = function() return tables_of(o, keys, states, memories, declared) end,
    on_worker_loss = "replay",
    prepare = function(w) w.trainer = new_trainer(w, o, changes) end,
    worker = function(w)
      for epoch in w.trainer.group:epochs(o.epochs or math.huge) do
        if epoch.resumes then
          w.trainer.replica:fetch()
          if w.state.steps then w.trainer:recall() end
        end
        if epoch.joins then
          w.tables.states:pull(replica.range(0, w.trainer.state_rows), {into = w.trainer.model.states})
          w.trainer.model:give()
        end
        if epoch.first then w.trainer:begin() end
        run_epoch(w.trainer, epoch)
      end
      if w.trainer.group.left_off then w.trainer:hand_in(w.trainer.group.left_off) end
    end,
    evaluate = evaluations(o.program, o.metrics or {}),
  }
  nets[job] = {inputs = o.program.inputs, metrics = o.metrics or {}, validate = o.validate, watch = o.watch}
  return package.extend(job, {
    communication = {tensors = function() return (rounds and local_steps or exchange).describe(o.program) end,
                     batch = changes and changes.start or o.batch},
    adaptation = changes and {start = changes.start, max = changes.max, lo = changes.lo, hi = changes.hi,
                              hold = changes.hold, grow = changes.grow, rule = changes.rule},
    meeting = {midway = not o.program.vertex, misfit = function(records) return misfit(o, records) end},
  })
end

return train
