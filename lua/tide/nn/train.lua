-- tide.nn.train: data-parallel training of a program as a job on tables.
--
-- Each worker computes the gradient of its batch, gives its layers to the exchange (tide.nn.exchange) and updates its
-- replica of the parameters with the sums. Sums are divided by the number of examples of all workers, so batches may be
-- of unequal size. Running statistics are each worker's own during an epoch; at its end all take their mean. At an
-- epoch's end the tables `params` and `states` get what was learnt.
local core = require "tide.core"
local exchange = require "tide.nn.exchange"
local replica = require "tide.nn.replica"
local script = require "tide.script"
local table_spec = require "tide.table_spec"

local train = {}

local KEY <const> = 1024

local function state_keys(layout) return math.max(1, (layout.states + KEY - 1) // KEY) end

---@class tide.nn.trainer
local trainer = {}
trainer.__index = trainer

local function new_trainer(w, o)
  local self = setmetatable({w = w, sums = w.tables.sums, step = 0}, trainer)
  self.model = o.program:compile {device = o.device, seed = w.seed, mask_seed = w.seed * 1000003 + w.rank,
                                  optimizer = o.optimizer, clip = o.clip}
  self.replica = replica.new(w, self.model)
  self.state_rows = state_keys(self.model.layout)
  if w.workers > 1 then self.exchange = exchange.new(w, self.model) end
  self.replica:store()
  return self
end

---Adds `scale` times rows to the table `sums`.
local function add_rows(self, keys, rows, scale)
  local n <const> = rows:rows()
  local share = core.tensor("f32", n, KEY)
  core.update("cpu", {rule = "sgd", rate = -scale}, 0, n * KEY, share, rows)
  self.sums:push(keys, share)
end

---Running statistics become their mean over the workers.
function trainer:average_states()
  local states <const>, keys <const> = self.model.states, replica.range(0, self.state_rows)
  if self.model.layout.states == 0 then return end
  self.model:fetch()
  if self.w.workers > 1 then
    add_rows(self, keys, states, 1 / self.w.workers)
    self.w:barrier "states"
    self.sums:pull(keys, {into = states})
    self.w:barrier "mean states"
    if self.w.rank == 1 then add_rows(self, keys, states, -1) end -- exactly zero is left
    self.model:give()
  end
  if self.w.rank == 1 then self.w.tables.states:push(keys, states) end
end

---One synchronous step of all workers on a batch each (which may be empty).
---@return table {loss=, count=, correct=} of this worker's batch
function trainer:train(batch)
  self.step = self.step + 1
  if self.w.workers == 1 then return self.model:step(batch) end
  self.model.steps = self.step
  return self.exchange:step(batch, self.step)
end

---Waits for what is under way, and writes what was learnt to the tables.
---@return table figures of the exchange since the last time
function trainer:settle()
  if not self.exchange then
    self.model:fetch()
    self.replica:store()
    self:average_states()
    return {}
  end
  self.exchange:settle()
  self.replica:store()
  self:average_states()
  self.replica:compare()
  local figures = self.exchange:figures()
  figures.resyncs, self.replica.resyncs = self.replica.resyncs, 0
  return figures
end

local function run_epoch(self, epoch, steps, batch)
  local w <const> = self.w
  local x, y <const> = w.data:part "train.x", w.data:part "train.y"
  local seed <const> = w.seed * 7919 + epoch
  x:shuffle(seed)
  y:shuffle(seed)
  local total = {loss = 0, count = 0, correct = 0}
  for s = 1, steps do
    local first = (s - 1) * batch
    local rows = math.max(0, math.min(batch, x:rows() - first))
    local r = self:train {x = x, y = y, first = rows > 0 and first + 1 or 1, rows = rows}
    for key in pairs(total) do total[key] = total[key] + r[key] end
    w:report {loss = r.loss, examples = r.count, wait = false}
  end
  local report = self:settle()
  report.loss, report.examples, report.correct, report.steps = total.loss, total.count, total.correct, steps
  w:report(report)
end

local function evaluate(w)
  local x, y <const> = w.data:part "test.x", w.data:part "test.y"
  local model <const> = w.trainer.model
  local sums, count = {loss = 0, correct = 0}, 0
  for first = 1, x:rows(), 256 do
    local r = model:evaluate {x = x, y = y, first = first, rows = math.min(256, x:rows() - first + 1)}
    sums.loss, sums.correct, count = sums.loss + r.loss, sums.correct + r.correct, count + r.count
  end
  return sums, count
end

local KNOWN <const> = {name = true, program = true, data = true, batch = true, epochs = true, optimizer = true,
                       clip = true, seed = true, comm = true, device = true}

---A job that trains `program` (inputs "x" and "y") on `data` (parts "train.x", "train.y", "test.x", "test.y").
---@param o table {name, program, data, batch (of all workers together), epochs, optimizer, clip?, seed?, comm?: name of
---a policy, or {policy =, params =}: how gradients travel, default "comm/hybrid", device?: of every worker's model}
---@return tide.job
function train.job(o)
  for key in pairs(o) do
    if not KNOWN[key] then error(script.error("T0203", ("nn.job has no field `%s`"):format(tostring(key))), 3) end
  end
  local layout <const> = o.program:layout()
  local keys <const>, states <const> = layout.keys, state_keys(layout)
  return require("tide.job").new {
    name = o.name, data = o.data, seed = o.seed or 1, stop = {epochs = o.epochs},
    comm = {tensors = function() return exchange.describe(o.program) end, batch = o.batch},
    policies = {comm = o.comm or "comm/hybrid"},
    tables = {
      params = table_spec.new {keys = table_spec.dense(keys), width = KEY, slots = "range", update = {"assign"}},
      sums = table_spec.new {keys = table_spec.dense(states), width = KEY},
      states = table_spec.new {keys = table_spec.dense(states), width = KEY, update = {"assign"}},
    },
    worker = function(w)
      w.trainer = new_trainer(w, o)
      local batch <const> = math.max(1, o.batch // w.workers)
      local most <const> = (w.data:whole "train.x":rows() + w.workers - 1) // w.workers
      w:barrier "start"
      for epoch = 1, o.epochs do
        run_epoch(w.trainer, epoch, (most + batch - 1) // batch, batch)
        if w:stopping() then break end
      end
    end,
    evaluate = {test = evaluate},
  }
end

return train
