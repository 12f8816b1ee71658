-- tide.nn.train: data-parallel training of a program as a job on tables.
--
-- Each worker computes the gradient of its part of a batch, gives its layers to the exchange (tide.nn.exchange) and
-- updates its replica of the parameters with the sums. Batches are cut from an order of the examples that depends on
-- seed and epoch alone, and divided among the workers that are there: what the dead one had of the step under way is
-- given out again at the epoch's end, all else of its share goes to the others by itself. Running statistics are each
-- worker's own during an epoch; at its end all take their mean. At an epoch's end the tables `params` and `states` get
-- what was learnt. Workers come and go between two steps, at an epoch's end or in the middle of it.
--
-- With `batch = {start =, max =}` batch and learning rate follow the noise of the gradients (tide.nn.adapt).
local adapt = require "tide.nn.adapt"
local core = require "tide.core"
local crew = require "tide.nn.worker_group"
local data = require "tide.data"
local exchange = require "tide.nn.exchange"
local replica = require "tide.nn.replica"
local script = require "tide.script"
local shared_rows = require "tide.nn.shared_rows"
local table_spec = require "tide.run.table_spec"

local train = {}

local KEY <const> = 1024

local function state_keys(layout) return math.max(1, (layout.states + KEY - 1) // KEY) end

---Examples as rows of tensors "PART.x" and "PART.y".
local function tensors_of(w, part)
  local x <const>, y <const> = w.data:whole(part .. ".x"), w.data:whole(part .. ".y")
  local buffers
  return {
    count = x:rows(),
    ---Examples first .. of an order, copied.
    pick = function(order, first, count, most)
      buffers = buffers or {x = core.tensor(x:type(), most, x:columns()), y = core.tensor(y:type(), most, y:columns())}
      buffers.x:pick(x, order:slice(first, count))
      buffers.y:pick(y, order:slice(first, count))
      return {x = buffers.x, y = buffers.y, first = 1, rows = count}
    end,
    slice = function(first, count) return {x = x, y = y, first = first, rows = count} end,
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
    ---Labels that count among samples first .. of an order: of all workers, before anything is computed.
    counted = function(label, order, first, count)
      return samples:numbered(order):slice(first, count):counted(label)
    end,
  }
end

---@class tide.nn.trainer
local trainer = {}
trainer.__index = trainer

local function new_trainer(w, o, changes)
  local self = setmetatable({w = w, batch = o.batch, per = o.per, figures = {}}, trainer)
  self.label = o.program.vertex and o.program:label() or nil
  local rules <const> = o.program.vertex and shared_rows.rules(o.tables) or nil
  self.model = o.program:compile {device = o.device, seed = w.seed, mask_seed = w.seed * 1000003 + w.rank,
                                  optimizer = o.optimizer, clip = o.clip, per = o.per, tables = rules,
                                  rows = o.program.vertex and shared_rows.of(w) or nil}
  self.replica = replica.new(w, self.model)
  self.state_rows = state_keys(self.model.layout)
  self.examples = (o.program.vertex and forest_of or tensors_of)(w, "train")
  self.most = math.min(changes and changes.hi or o.batch, self.examples.count)
  self.clocked = shared_rows.clocked(o.tables)
  self.crew = crew.new(w, self.model, {meets = not o.program.vertex,
                                       adapts = changes and adapt.new(w, self.model, changes)})
  return self
end

---Running statistics become their mean over the workers.
---@return fun()|nil write writes them to their table
function trainer:average_states()
  local states <const> = self.model.states
  self.model:fetch()
  if self.model.layout.states == 0 then return nil end
  self.crew:average(states)
  self.model:give()
  return function() self.w.tables.states:push(replica.range(0, self.state_rows), states) end
end

---Writes what was learnt to the tables.
function trainer:store()
  self.replica:store(self:average_states())
end

---One synchronous step of all workers, on this one's part of a batch, which may be empty.
---@param order table u32 tensor numbers of examples
---@param whole table {first=, count=} of the batch of all workers
function trainer:train(order, first, count, whole)
  local model <const>, adapts <const> = self.model, self.crew.adapts
  local function load(from, rows) return self.examples.pick(order, first + from - 1, rows, self.most) end
  local r <const> = self.crew:step(adapts and adapts:batch(count, load) or load(1, count))
  if #model.tables > 0 then
    if self.crew.exchange then -- alone, the model has changed them itself
      local all <const> = self.per == "sample" and whole.count
        or self.examples.counted(self.label, order, whole.first, whole.count)
      for _, t in ipairs(model.tables) do t:update(all > 0 and 1 / all or 0, self.crew.steps) end
    end
    for _, t in ipairs(model.tables) do t:settle() end
    if self.clocked then self.w:clock() end
  end
  return r
end

local function add(to, from)
  for k, v in pairs(from) do to[k] = (to[k] or 0) + v end
end

---Waits for what is under way, and writes what was learnt to the tables.
---@return table figures of the exchange since the last time
function trainer:settle()
  local figures <const> = self.crew:settle()
  self:store()
  self.replica:compare()
  figures.resyncs, self.replica.resyncs = self.replica.resyncs, 0
  return figures
end

---Leaves an epoch in its middle: who joins finds running statistics, and is told what is left.
---@param left table[] spans
---@param total table of all workers so far
function trainer:pause(left, total)
  add(self.figures, self.crew:settle())
  local write <const> = self:average_states()
  if write and self.crew:present()[1] == self.w.rank then write() end
  self.crew.unfinished = {left = left, total = total}
end

local function run_epoch(self, epoch)
  local w <const> = self.w
  local order <const> = data.order(self.examples.count, w.seed * 7919 + epoch.number)
  local weight <const> = self.examples.weight
  local weigh <const> = weight and function(place) return weight(order[place]) end or nil
  local goes_on <const> = epoch.unfinished
  local left <const> = goes_on and goes_on.left or {{first = 1, count = #order}}
  local own = not epoch.joins and goes_on and self.own or {loss = 0, count = 0, correct = 0, steps = 0}
  for first, count, whole in self.crew:batches(left, self.batch, false, weigh) do
    local r <const> = self:train(order, first, count, whole)
    own.steps = own.steps + 1
    for _, k in ipairs {"loss", "count", "correct"} do own[k] = own[k] + r[k] end
    w:report {loss = r.loss, examples = r.count, wait = false}
  end
  local total <const> = self.crew:totals()
  if goes_on then add(total, goes_on.total) end
  self.own = own
  if #left > 0 then return self:pause(left, total) end
  local report <const> = self:settle()
  add(report, self.figures)
  self.figures = {}
  report.loss, report.examples, report.correct, report.steps = own.loss, own.count, own.correct, own.steps
  report.alike = {loss = total.loss, examples = total.count, correct = total.correct} -- of who died, too
  local adapts <const> = self.crew.adapts
  if adapts then report.alike.batch, report.alike.progress = adapts.total, adapts.progress end
  w:report(report)
end

local EVALUATED <const> = 256 -- examples at a time

---@param examples table of tensors_of or forest_of
local function evaluate_on(w, examples)
  local model <const> = w.trainer.model
  local sums, tested = {loss = 0, correct = 0}, 0
  local from, rows <const> = w.trainer.crew:piece(examples.count)
  for first = from, from + rows - 1, EVALUATED do
    local r = model:evaluate(examples.slice(first, math.min(EVALUATED, from + rows - first)))
    sums.loss, sums.correct, tested = sums.loss + r.loss, sums.correct + r.correct, tested + r.count
  end
  return sums, tested
end

---Evaluations of a job: of forests all vertices, and roots alone, of each part that is held out.
local function evaluations(program)
  if not program.vertex then
    return {test = function(w) return evaluate_on(w, tensors_of(w, "test")) end}
  end
  local made = {}
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
                       clip = true, seed = true, comm = true, device = true, tables = true, per = true,
                       batching = true}
local BATCH <const> = {start = true, max = true, lo = true, hi = true, rule = true, warmup = true, hold = true,
                       grow = true}
local ADAM <const> = {adam = true, adamw = true, rmsprop = true}

local function fail(o, why) error(script.error("T0203", ("nn.job `%s`: %s"):format(tostring(o.name), why)), 4) end

-- The batch of a job whose batch changes, complete; nil: it is a number.
local function check_batch(o)
  local b <const> = o.batch
  if type(b) ~= "table" then
    if o.batching then fail(o, "`batching` names a policy for a batch that changes: batch = {start =, max =}") end
    if math.type(b) ~= "integer" or b < 1 then fail(o, "`batch` must be a whole number of examples, 1 or more") end
    return nil
  end
  if o.program.vertex then fail(o, "a batch that changes is for programs of tensors") end
  script.check_fields("T0203", "`batch` of nn.job", b, BATCH)
  for _, name in ipairs {"start", "max", "lo", "hi", "warmup", "hold"} do
    if b[name] ~= nil and (math.type(b[name]) ~= "integer" or b[name] < (name == "hold" and 0 or 1)) then
      fail(o, ("`batch.%s` must be a whole number of 1 or more"):format(name))
    end
  end
  if not b.start then fail(o, "`batch.start`, the examples of a step to which the rate belongs, is missing") end
  local all <const> = {start = b.start, max = b.max or b.start, lo = b.lo or 1, hi = b.hi or b.max or b.start,
                       rule = b.rule or (ADAM[o.optimizer.rule] and "adamscale" or "adascale"), warmup = b.warmup,
                       hold = b.hold or 0, grow = b.grow or 2}
  if all.start > all.max then fail(o, ("`batch.start` is %d, above `max`, %d"):format(all.start, all.max)) end
  if all.lo > all.hi then fail(o, ("`batch.lo` is %d, above `hi`, %d"):format(all.lo, all.hi)) end
  if not adapt.rules[all.rule] then
    fail(o, ("`batch.rule` is `%s`; there are adascale, adamscale, linear, sqrt, legw, none"):format(
      tostring(all.rule)))
  end
  if all.rule == "legw" and not all.warmup then fail(o, "`batch.warmup`, steps, is missing: legw wants it") end
  if type(all.grow) ~= "number" or all.grow < 1 then fail(o, "`batch.grow` must be a number of 1 or more") end
  return all
end

---A job that trains `program` (inputs "x" and "y") on `data` (parts "train.x", "train.y", "test.x", "test.y"), or a
---program of vertices on a tide.data.forest.
---@param o table {name, program, data, batch (of all workers together; or tide.nn.batch), epochs, optimizer, clip?,
---seed?, comm?: name of a policy, or {policy =, params =}: how gradients travel, default "comm/hybrid", batching?: who
---changes the batch, default "batching/goodput", device?: of every worker's model; of programs of vertices tables:
---name -> {"adagrad"|"sgd", lr =, consistency =, replicas =}, per: "row" or "sample"}
---@return tide.job
function train.job(o)
  script.check_fields("T0203", "nn.job", o, KNOWN)
  local changes <const> = check_batch(o)
  if not o.program.vertex and (o.tables or o.per) then
    error(script.error("T0203", "tables and per are of programs of vertices (nn.vertex)"), 0)
  end
  if o.tables and o.clip then
    error(script.error("T0203", "clip would bound the norm of all gradients; it is not possible with tables"), 0)
  end
  local declared <const> = shared_rows.declare(o.program, o.tables)
  local layout <const> = o.program:layout()
  local keys <const>, states <const> = layout.keys, state_keys(layout)
  return require("tide.run.job").new {
    name = o.name, data = o.data, seed = o.seed or 1, stop = {epochs = o.epochs},
    comm = {tensors = function() return exchange.describe(o.program) end, batch = changes and changes.start or o.batch},
    adapts = changes,
    policies = {comm = o.comm or "comm/hybrid", batching = changes and (o.batching or "batching/goodput") or nil},
    tables = function()
      local copies <const> = replica.copies()
      local made = {
        params = table_spec.new {keys = table_spec.dense(keys), width = KEY, slots = "range", update = {"assign"},
                                 replicas = copies},
        states = table_spec.new {keys = table_spec.dense(states), width = KEY, update = {"assign"}, replicas = copies},
      }
      for name, declare in pairs(declared) do made[name] = declare() end
      return made
    end,
    on_worker_loss = "replay",
    meets = not o.program.vertex, prepare = function(w) w.trainer = new_trainer(w, o, changes) end,
    worker = function(w)
      for epoch in w.trainer.crew:epochs(o.epochs) do
        if epoch.resumes then w.trainer.replica:fetch() end
        if epoch.joins then
          w.tables.states:pull(replica.range(0, w.trainer.state_rows), {into = w.trainer.model.states})
          w.trainer.model:give()
        end
        if epoch.first then w.trainer.replica:store() end
        run_epoch(w.trainer, epoch)
      end
    end,
    evaluate = evaluations(o.program),
  }
end

return train
