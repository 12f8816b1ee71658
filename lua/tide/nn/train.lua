-- tide.nn.train: data-parallel training of a program as a job on tables.
--
-- Each worker computes the gradient of its part of a batch, gives its layers to the exchange (tide.nn.exchange) and
-- updates its replica of the parameters with the sums. Batches are cut from an order of the examples that depends on
-- seed and epoch alone, and divided among the workers that are there: what the dead one had of the step under way is
-- given out again at the epoch's end, all else of its share goes to the others by itself. Running statistics are each
-- worker's own during an epoch; at its end all take their mean. At an epoch's end the tables `params` and `states` get
-- what was learnt, and workers that have joined take part from then on.
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

local function new_trainer(w, o)
  local self = setmetatable({w = w, batch = o.batch, per = o.per}, trainer)
  self.label = o.program.vertex and o.program:label() or nil
  local rules <const> = o.program.vertex and shared_rows.rules(o.tables) or nil
  self.model = o.program:compile {device = o.device, seed = w.seed, mask_seed = w.seed * 1000003 + w.rank,
                                  optimizer = o.optimizer, clip = o.clip, per = o.per, tables = rules,
                                  rows = o.program.vertex and shared_rows.of(w) or nil}
  self.replica = replica.new(w, self.model)
  self.state_rows = state_keys(self.model.layout)
  self.examples = (o.program.vertex and forest_of or tensors_of)(w, "train")
  self.most = math.min(o.batch, self.examples.count)
  self.clocked = shared_rows.clocked(o.tables)
  self.crew = crew.new(w, self.model)
  return self
end

---Writes what was learnt to the tables. Running statistics become their mean over the workers.
function trainer:store()
  local states <const>, write_states = self.model.states, nil
  self.model:fetch()
  if self.model.layout.states > 0 then
    self.crew:average(states)
    self.model:give()
    write_states = function() self.w.tables.states:push(replica.range(0, self.state_rows), states) end
  end
  self.replica:store(write_states)
end

---One synchronous step of all workers, on this one's part of a batch, which may be empty.
---@param order table u32 tensor numbers of examples
---@param whole table {first=, count=} of the batch of all workers
function trainer:train(order, first, count, whole)
  local model <const> = self.model
  local r <const> = self.crew:step(self.examples.pick(order, first, count, self.most))
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

---Waits for what is under way, and writes what was learnt to the tables.
---@return table figures of the exchange since the last time
function trainer:settle()
  local figures <const> = self.crew:settle()
  self:store()
  self.replica:compare()
  figures.resyncs, self.replica.resyncs = self.replica.resyncs, 0
  return figures
end

local function run_epoch(self, epoch)
  local w <const> = self.w
  local order <const> = data.order(self.examples.count, w.seed * 7919 + epoch)
  local steps, own = 0, {loss = 0, count = 0, correct = 0}
  local weight <const> = self.examples.weight
  local weigh <const> = weight and function(place) return weight(order[place]) end or nil
  for first, count, whole in self.crew:batches({{first = 1, count = #order}}, self.batch, false, weigh) do
    local r <const> = self:train(order, first, count, whole)
    steps = steps + 1
    for k, v in pairs(own) do own[k] = v + r[k] end
    w:report {loss = r.loss, examples = r.count, wait = false}
  end
  local total <const> = self.crew:totals()
  local report <const> = self:settle()
  report.loss, report.examples, report.correct, report.steps = own.loss, own.count, own.correct, steps
  report.alike = {loss = total.loss, examples = total.count, correct = total.correct} -- of who died, too
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
                       clip = true, seed = true, comm = true, device = true, tables = true, per = true}

---A job that trains `program` (inputs "x" and "y") on `data` (parts "train.x", "train.y", "test.x", "test.y"), or a
---program of vertices on a tide.data.forest.
---@param o table {name, program, data, batch (of all workers together), epochs, optimizer, clip?, seed?, comm?: name of
---a policy, or {policy =, params =}: how gradients travel, default "comm/hybrid", device?: of every worker's model; of
---programs of vertices tables: name -> {"adagrad"|"sgd", lr =, consistency =, replicas =}, per: "row" or "sample"}
---@return tide.job
function train.job(o)
  script.check_fields("T0203", "nn.job", o, KNOWN)
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
    comm = {tensors = function() return exchange.describe(o.program) end, batch = o.batch},
    policies = {comm = o.comm or "comm/hybrid"},
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
    worker = function(w)
      w.trainer = new_trainer(w, o)
      for epoch in w.trainer.crew:epochs(o.epochs) do
        if epoch.joins then
          w.tables.states:pull(replica.range(0, w.trainer.state_rows), {into = w.trainer.model.states})
          w.trainer.model:give()
        end
        if epoch.first then w.trainer.replica:store() end
        run_epoch(w.trainer, epoch.number)
      end
    end,
    evaluate = evaluations(o.program),
  }
end

return train
