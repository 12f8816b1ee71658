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
local table_spec = require "tide.run.table_spec"

local train = {}

local KEY <const> = 1024

local function state_keys(layout) return math.max(1, (layout.states + KEY - 1) // KEY) end

---@class tide.nn.trainer
local trainer = {}
trainer.__index = trainer

local function new_trainer(w, o)
  local self = setmetatable({w = w, batch = o.batch}, trainer)
  self.model = o.program:compile {device = o.device, seed = w.seed, mask_seed = w.seed * 1000003 + w.rank,
                                  optimizer = o.optimizer, clip = o.clip}
  self.replica = replica.new(w, self.model)
  self.state_rows = state_keys(self.model.layout)
  local x <const> = w.data:whole "train.x"
  self.x, self.y = x, w.data:whole "train.y"
  local most <const> = math.min(o.batch, x:rows())
  self.rows = {x = core.tensor(x:type(), most, x:columns()), y = core.tensor(self.y:type(), most, self.y:columns())}
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
function trainer:train(order, first, count)
  for name, part in pairs(self.rows) do part:pick(self[name], order:slice(first, count)) end
  return self.crew:step {x = self.rows.x, y = self.rows.y, first = 1, rows = count}
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
  local order <const> = data.order(self.x:rows(), w.seed * 7919 + epoch)
  local steps, own = 0, {loss = 0, count = 0, correct = 0}
  for first, count in self.crew:batches({{first = 1, count = #order}}, self.batch) do
    local r <const> = self:train(order, first, count)
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

local function evaluate(w)
  local x, y <const> = w.data:whole "test.x", w.data:whole "test.y"
  local model <const> = w.trainer.model
  local sums, tested = {loss = 0, correct = 0}, 0
  local from, rows <const> = w.trainer.crew:piece(x:rows())
  for first = from, from + rows - 1, 256 do
    local r = model:evaluate {x = x, y = y, first = first, rows = math.min(256, from + rows - first)}
    sums.loss, sums.correct, tested = sums.loss + r.loss, sums.correct + r.correct, tested + r.count
  end
  return sums, tested
end

local KNOWN <const> = {name = true, program = true, data = true, batch = true, epochs = true, optimizer = true,
                       clip = true, seed = true, comm = true, device = true}

---A job that trains `program` (inputs "x" and "y") on `data` (parts "train.x", "train.y", "test.x", "test.y").
---@param o table {name, program, data, batch (of all workers together), epochs, optimizer, clip?, seed?, comm?: name of
---a policy, or {policy =, params =}: how gradients travel, default "comm/hybrid", device?: of every worker's model}
---@return tide.job
function train.job(o)
  script.check_fields("T0203", "nn.job", o, KNOWN)
  local layout <const> = o.program:layout()
  local keys <const>, states <const> = layout.keys, state_keys(layout)
  return require("tide.run.job").new {
    name = o.name, data = o.data, seed = o.seed or 1, stop = {epochs = o.epochs},
    comm = {tensors = function() return exchange.describe(o.program) end, batch = o.batch},
    policies = {comm = o.comm or "comm/hybrid"},
    tables = function()
      local copies <const> = replica.copies()
      return {
        params = table_spec.new {keys = table_spec.dense(keys), width = KEY, slots = "range", update = {"assign"},
                                 replicas = copies},
        states = table_spec.new {keys = table_spec.dense(states), width = KEY, update = {"assign"}, replicas = copies},
      }
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
    evaluate = {test = evaluate},
  }
end

return train
