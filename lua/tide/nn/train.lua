-- tide.nn.train: data-parallel training of a program as a job on tables.
--
-- A layer's parameters are a range of keys of the table `params` (1024 numbers a key), so slots, messages and layers
-- speak of the same ranges. A step: every worker computes the gradient of its batch and adds it to the table `grads`,
-- layer by layer as soon as backward has made it. When all have, each worker applies the update rule to its own range
-- of keys and stores the new values; the state of the rule (momentum, ...) exists once, cut over the workers. When all
-- have, everybody pulls the layers, in the order in which the next forward asks for them. Sums are divided by the
-- number of examples of all workers, so batches may be of unequal size. Running statistics are each worker's own during
-- an epoch; at its end all take their mean, which the table `states` then holds.
local core = require "tide.core"
local data = require "tide.data"
local script = require "tide.script"
local table_spec = require "tide.table_spec"

local train = {}

local KEY <const> = 1024

local function state_keys(layout) return math.max(1, (layout.states + KEY - 1) // KEY) end

local function range(first, count)
  local keys = core.tensor("u64", count, 1)
  for i = 1, count do keys[i] = first + i - 1 end
  return keys
end

---@class tide.nn.trainer
local trainer = {}
trainer.__index = trainer

local function new_trainer(w, o)
  local self = setmetatable({w = w, params = w.tables.params, grads = w.tables.grads, step = 0, pulls = {}}, trainer)
  self.model = o.program:compile {seed = w.seed, mask_seed = w.seed * 1000003 + w.rank, optimizer = o.optimizer,
                                  clip = o.clip}
  local keys <const> = self.model.layout.keys
  local first, count = data.piece(keys, w.rank, w.workers)
  self.first, self.count, self.keys = first - 1, count, range(first - 1, count)
  self.layers = {}
  for i, l in ipairs(self.model.layout.layers) do
    self.layers[i] = {keys = range(l.first_key, l.key_count),
                      parameters = self.model.parameters:slice(l.first_key + 1, l.key_count),
                      gradients = self.model.gradients:slice(l.first_key + 1, l.key_count)}
  end
  self.sums = core.tensor("f32", 1, KEY)
  self.state_rows = state_keys(self.model.layout)
  self.none = core.tensor("f32", math.max(count, self.state_rows), KEY)
  self:store()
  return self
end

---Writes this worker's range of the parameters.
function trainer:store()
  if self.count > 0 then
    self.params:push(self.keys, self.model.parameters:slice(self.first + 1, self.count))
  end
end

local function wait_all(tickets)
  for _, ticket in ipairs(tickets) do
    local ok, err = ticket:wait()
    if not ok then error(err, 0) end
  end
end

---Takes from the table what is in it: exactly zero is left.
local function take_back(self, keys, rows)
  local n <const> = rows:rows()
  local negative = self.none:slice(1, n)
  negative:fill(0)
  core.update("cpu", {rule = "sgd", rate = 1}, 0, n * KEY, negative, rows)
  self.grads:push(keys, negative)
end

---Key of the numbers that all workers add up beside the gradients; two in turn, so that one can be emptied.
function trainer:sums_key(step) return self.model.layout.keys + step % 2 end

---Pushes counts and returns the sums over all workers once all have pushed their gradients.
function trainer:share(r)
  self.sums:fill(0)
  self.sums[1], self.sums[2], self.sums[3] = r.count, r.loss, r.correct
  self.grads:push({self:sums_key(self.step)}, self.sums)
  self.w:barrier "gradients"
  if self.w.rank == 1 and self.last then take_back(self, {self:sums_key(self.step - 1)}, self.last) end
  self.last = self.grads:pull({self:sums_key(self.step)})
  return {count = self.last[1], loss = self.last[2], correct = self.last[3]}
end

---The global norm, if it is wanted: each worker adds that of its range.
function trainer:squares(gradients)
  local own = self.count > 0 and core.norm2("cpu", 0, self.count * KEY, gradients) or 0
  if not self.model.clip then return own end
  self.sums:fill(0)
  self.sums[4] = own
  self.grads:push({self:sums_key(self.step)}, self.sums)
  self.w:barrier "norm"
  self.last = self.grads:pull({self:sums_key(self.step)})
  return self.last[4]
end

---Running statistics become their mean over the workers.
function trainer:average_states()
  local states <const>, n <const> = self.model.states, self.state_rows
  if self.model.layout.states == 0 then return end
  if self.w.workers > 1 then
    local keys <const>, share = range(self.model.layout.keys + 2, n), self.none:slice(1, n)
    share:fill(0)
    core.update("cpu", {rule = "sgd", rate = -1 / self.w.workers}, 0, n * KEY, share, states)
    self.grads:push(keys, share)
    self.w:barrier "states"
    self.grads:pull(keys, {into = states})
    self.w:barrier "mean states"
    if self.w.rank == 1 then take_back(self, keys, states) end
  end
  if self.w.rank == 1 then self.w.tables.states:push(range(0, n), states) end
end

---One synchronous step of all workers on a batch each (which may be empty).
---@return table {loss=, count=, correct=} of this worker's batch
function trainer:train(batch)
  self.step = self.step + 1
  if self.w.workers == 1 then return self.model:step(batch) end
  self.model.steps = self.step
  local pushes = {}
  local r = self.model:backward(batch, {
    need = function(l)
      if self.pulls[l] then
        wait_all {self.pulls[l]}
        self.pulls[l] = nil
      end
    end,
    ready = function(l)
      local layer <const> = self.layers[l]
      pushes[#pushes + 1] = self.grads:push(layer.keys, layer.gradients, {async = true})
    end,
  })
  wait_all(pushes)
  local all <const> = self:share(r)
  if self.count > 0 then
    local g = self.grads:pull(self.keys, {into = self.model.gradients:slice(self.first + 1, self.count)})
    local scale <const> = self.model:scale(self:squares(g), all.count)
    take_back(self, self.keys, g)
    self.model:update(self.first * KEY, self.count * KEY, scale, self.step)
    self:store()
  else
    self:squares(nil)
  end
  self.w:barrier "parameters"
  for l, layer in ipairs(self.layers) do
    self.pulls[l] = self.params:pull(layer.keys, {async = true, into = layer.parameters})
  end
  return r
end

---Waits for parameters on their way.
function trainer:settle()
  wait_all(self.pulls)
  self.pulls = {}
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
  self:settle()
  self:average_states()
  if w.workers == 1 then self:store() end
  w:report {loss = total.loss, examples = total.count, correct = total.correct}
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
                       clip = true, seed = true}

---A job that trains `program` (inputs "x" and "y") on `data` (parts "train.x", "train.y", "test.x", "test.y").
---@param o table {name, program, data, batch (of all workers together), epochs, optimizer, clip?, seed?}
---@return tide.job
function train.job(o)
  for key in pairs(o) do
    if not KNOWN[key] then error(script.error("T0203", ("nn.job has no field `%s`"):format(tostring(key))), 3) end
  end
  local layout <const> = o.program:layout()
  local keys <const>, states <const> = layout.keys, state_keys(layout)
  return require("tide.job").new {
    name = o.name, data = o.data, seed = o.seed or 1, stop = {epochs = o.epochs},
    tables = {
      params = table_spec.new {keys = table_spec.dense(keys), width = KEY, slots = "range", update = {"assign"}},
      grads = table_spec.new {keys = table_spec.dense(keys + 2 + states), width = KEY, slots = "range"},
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
