-- A compiled program: parameters, gradients and the state of an update rule as flat arrays of one layout, a run for
-- training and one for evaluation.
local compute = require "tide.compute"
local gradients = require "tide.nn.gradients"
local inspection = require "tide.nn.inspection"
local optimizer = require "tide.nn.optimizer"
local package = require "tide.package"
local rows = require "tide.nn.rows"
local tensor = require "tide.tensor"
local units = require "tide.units"

local KEY <const> = 1024 -- elements of a row of parameters: a key of a table

---@class tide.nn.model
---@field parameters table tensor keys x 1024: all parameters, in the program's layout. On a device with memory of its
---own they are what the last fetch or parameter(...) saw, unless the model is `staged`
---@field summed table tensor of the same layout: gradients of the last batch, summed over its examples
---@field average? table tensor of the same layout: the moving average of the parameters
---@field states table tensor of rows of 1024: running statistics
---@field layout table see program:layout()
local model = {}
model.__index = model

local function fail(err)
  local where, rest = err.message:match("^(.-:%d+): (.*)$")
  error(package.error("T0903", rest or err.message, {where = where}), 0)
end

local function checked(result, err, ...)
  if result == nil then fail(err) end
  return result, err, ...
end

---The memory of update rules beside the parameters, in arrays of the same layout.
---@return table[] tensors, or arrays in a device's memory
---@package
function model:remembered()
  local all <const> = {table.unpack(self.memory)}
  all[#all + 1] = self.average
  return all
end

-- Checks the options of model.new. Returns the bound on memory.
local function check_options(program, o)
  local found, err = compute.device(o.device or "cpu")
  if not found then
    local known <const> = o.device == "cuda"
    error(package.error(known and "T0904" or "T0903", err.message,
      {help = known and 'device = "cpu" computes the same' or nil}), 0)
  end
  if o.nan ~= nil and o.nan ~= "stop" and o.nan ~= "skip" then
    error(package.error("T0903", ('nan is "stop" or "skip", not %q'):format(tostring(o.nan))), 0)
  end
  if o.clip ~= nil and not (type(o.clip) == "number" and o.clip > 0) then
    error(package.error("T0903", ("clip is %s, not a number above 0"):format(tostring(o.clip)),
      {help = "it bounds the norm of the mean gradient; leave it out for none"}), 0)
  end
  if o.average ~= nil and (math.type(o.average) ~= "float" or o.average <= 0 or o.average >= 1) then
    error(package.error("T0903", ("average is %s, not a number between 0 and 1, like 0.999"):format(
      tostring(o.average))), 0)
  end
  local unaveraged <const> = o.average and rows.average_problem(program)
  if unaveraged then error(package.error("T0903", unaveraged, {help = "leave `average` out"}), 0) end
  if o.per and o.per ~= "row" and o.per ~= "sample" then
    error(package.error("T0903", ('per is "row" or "sample", not %q'):format(tostring(o.per))), 0)
  end
  if not program.vertex and (o.tables or o.per == "sample") then
    error(package.error("T0903", "tables and per = \"sample\" are of programs of vertices (nn.vertex)"), 0)
  end
  if o.memory ~= nil then
    local bytes <const>, why <const> = units.parse_size(o.memory)
    if not bytes or not program.vertex then
      error(package.error("T0903", "`memory`: " .. (why or "only batches of nn.vertex and nn.vertices are cut")), 0)
    end
    return bytes
  end
end

-- Plans for training and evaluation on the device, and the tables outside of the parameters.
local function make_plans(self, program, o)
  self.mask_seed = o.mask_seed or self.seed
  self.train = checked(program.core:plan(self.device, "train", self.mask_seed))
  self.train:bind(self.on.parameters, self.on.gradients, self.on.states)
  self.eval = checked(program.core:plan(self.device, "evaluate", self.seed))
  self.eval:bind(self.average or self.on.parameters, nil, self.on.states)
  -- A traced rule runs on the host.
  if self.on.parameters ~= self.parameters and self.updates and self.updates:is_traced() then
    self:stage(self.summed, self.summed)
  end
  self.nan = o.nan or "stop"
  self.train:finite(self.nan == "stop")
  self.tables = {}
  if program.vertex then
    self.train:limit(self.memory_limit or 0)
    self.eval:limit(self.memory_limit or 0)
    local specs <const> = program:tables()
    local rules <const> = rows.rules(specs, o.tables)
    for i, spec in ipairs(specs) do
      self.tables[i] = (o.rows or rows).new(self, spec, i, rules[spec.name])
    end
  end
end

---@param program tide.nn.program
---@param o {device?: string, seed?: integer, mask_seed?: integer, optimizer?: table, clip?: number, average?: number,
---tables?: table, per?: string, rows?: table, memory?: integer|string} mask_seed: of dropout, which differs between
---workers of one seed; rows: what makes tables, in place of tide.nn.rows
---@return tide.nn.model
---@package
function model.new(program, o)
  local self = setmetatable({program = program, device = o.device or "cpu", seed = o.seed or 1,
                             optimizer = o.optimizer, clip = o.clip, steps = 0}, model)
  self.memory_limit = check_options(program, o)
  self.per = o.per or "row"
  self.layout = program.core:layout()
  local float <const> = self.device == "reference" and "f64" or "f32"
  local keys <const> = self.layout.keys
  self.parameters, self.summed = tensor.zeros(float, keys, KEY), tensor.zeros(float, keys, KEY)
  self.states = tensor.zeros(float, math.max(1, (self.layout.states + KEY - 1) // KEY), KEY)
  program.core:initialise(self.device, self.seed, self.parameters, self.states)
  for _, b in ipairs(program.buffers) do
    if b.tensor then self.states:view(b.first + 1, b.rows, b.columns):put(1, b.tensor:convert(float)) end
  end
  -- `on`: the arrays in the device's memory. `memory`: the update rule's, there too.
  self.on = {parameters = compute.place(self.device, self.parameters), states = compute.place(self.device, self.states),
             gradients = compute.place(self.device, self.summed)}
  self.updates = self.optimizer and optimizer.new(self.optimizer, self.layout)
  self.memory = {}
  for i = 1, self.updates and self.updates.plan.arrays or 0 do
    self.memory[i] = compute.place(self.device, tensor.zeros(float, keys, KEY))
  end
  if o.average then
    self.keep, self.average = o.average, compute.place(self.device, tensor.zeros(float, keys, KEY))
    self:follow(0, 0)
  end
  make_plans(self, program, o)
  return self
end

---Moves parameters and gradients to the host: a step fills `made` (a tensor) layer by layer, updates run on the host
---with the sums (`sum`), and a device with memory of its own receives a layer's parameters when it reads them.
---@package
function model:stage(made, sum)
  self.summed, self.made = sum, made
  if self.on.parameters == self.parameters then
    self.on.gradients = sum
    self.train:bind(self.parameters, made, self.states)
    return
  end
  if self.staged then return self.train:stage(self.parameters, made) end
  self:fetch()
  self.staged = true
  self.train:stage(self.parameters, made)
  local function host(array)
    local copy <const> = tensor.zeros("f32", self.layout.keys, KEY)
    compute.fetch(array, copy)
    return copy
  end
  for i, memory in ipairs(self.memory) do self.memory[i] = host(memory) end
  self.average = self.average and host(self.average)
  self.eval:stage(self.average or self.parameters)
end

---Copies the device's memory to `parameters` and `states`.
function model:fetch()
  if not self.staged then compute.fetch(self.on.parameters, self.parameters) end
  compute.fetch(self.on.states, self.states)
end

---Copies `parameters` and `states`, with their changes, to the device's memory.
function model:give()
  if not self.staged then compute.give(self.on.parameters, self.parameters) end
  compute.give(self.on.states, self.states)
end

---A batch: one tensor an input, and perhaps first (row, from 1) and rows; without them the whole tensors. Of programs
---of vertices: a part of a tide.data.forest.
---@return integer rows of the step
---@return table|nil {samples=, vertices=, edges=, levels=}
---@return integer[]|nil pieces samples of each, if the batch does not fit at once
local function feed(self, run, batch, training)
  local program <const> = self.program
  if program.vertex then
    if type(batch) ~= "table" or not batch.forest then
      error(package.error("T0903", ("program %s is one of vertices: it requires parts of a tide.data.forest"):format(
        program.name)), 0)
    end
    local vertices, edges, levels = checked(run:feed_forest(batch.forest, batch.order, batch.first, batch.count,
      self.serial))
    for _, t in ipairs(self.tables) do t:gather(run, training) end
    local pieces <const> = self.memory_limit
      and checked(run:cut(batch.forest, batch.order, batch.first, batch.count, self.serial)) or {batch.count}
    local graphs <const> = {samples = batch.count, vertices = vertices, edges = edges, levels = levels}
    return 0, graphs, #pieces > 1 and pieces or nil
  end
  if type(batch) ~= "table" then
    error(package.error("T0903", ("a batch is a table of tensors by names of inputs, not a %s"):format(type(batch))), 0)
  end
  if batch.forest then
    error(package.error("T0903",
      ("program %s requires tensors, not a forest: nn.vertex makes programs of vertices"):format(program.name)), 0)
  end
  local first <const> = batch.first or 1
  local count, of
  for _, name in ipairs(program.inputs) do -- in their order, so that mistakes are named the same way each time
    local given <const> = batch[name]
    if type(given) ~= "userdata" then
      local why <const> = given == nil and 'the batch has no input "%s"' or 'input "%s" is a %s, not a tensor'
      error(package.error("T0903", why:format(name, type(given))), 0)
    end
    local fits <const>, problem <const> = pcall(run.feed, run, name, given, first)
    if not fits then error(package.error("T0903", package.error_from(problem).message), 0) end
    if count and given:rows() ~= count then
      local why <const> = "input \"%s\" has %d rows, input \"%s\" has %d: a row of each is an example"
      error(package.error("T0903", why:format(of, count, name, given:rows())), 0)
    end
    count, of = given:rows(), name
  end
  return batch.rows or count and count - first + 1 or 0
end

local function result(sum, count, correct, batch)
  local r = {loss = sum, count = count, correct = correct}
  for key, n in pairs(batch or {}) do r[key] = n end
  return r
end

---Feeds the pieces of a batch, one after the other; `each` runs them.
---@param each fun(piece: integer, last: boolean): number, number, number loss, count, correct
local function in_pieces(self, run, batch, pieces, each)
  local first, all = batch.first, {0, 0, 0}
  for i, count in ipairs(pieces) do
    checked(run:feed_forest(batch.forest, batch.order, first, count, self.serial, true))
    first = first + count
    for k, n in ipairs {each(i, i == #pieces)} do all[k] = all[k] + n end
  end
  return table.unpack(all)
end

-- Runs a batch operation by operation; parameters and states stay as they are.
---@return table[] list of run:inspect
---@return table gradients tensor
---@return integer rows
local function look_into(self, batch)
  local run <const> = checked(self.program.core:plan(self.device == "reference" and "reference" or "cpu", "train",
    self.mask_seed, true, true))
  self:fetch()
  local made <const> = self.parameters:copy()
  run:bind(self.parameters, made, self.states:copy())
  local count <const> = feed(self, run, batch, true)
  return checked(run:inspect(count, self.steps)), made, count
end

---Raises that the loss or the gradient of this step is not finite, and which operation made the first such number: the
---list is run once more, operation by operation.
---@param what string "loss" or "gradient"
---@param batch? table of tensors
local function raise_not_finite(self, what, batch)
  local found, where = "", nil
  if batch and not self.program.vertex then found, where = inspection.culprit((look_into(self, batch))) end
  error(package.error("T0903", ("the %s of step %d is not finite%s"):format(what, self.steps, found),
    {where = where, help = "a smaller rate, or clip = 1, keeps it bounded; nan = \"skip\" leaves such steps out"}), 0)
end

-- The result of a step of a run; raises if its loss is not finite.
local function finished(self, batch, sum, count, correct)
  if sum == nil and count == "not finite" then raise_not_finite(self, "loss", batch) end
  return checked(sum, count, correct)
end

-- Forward and backward of a batch that does not fit at once: gradients of the pieces add up. Those of the last piece
-- become the sum, layer by layer, before `ready` is called.
local function backward_in_pieces(self, batch, pieces, hooks)
  self.folding = false -- all pieces read the same parameters
  self.train:fold(0)
  local device <const> = self.staged and "cpu" or self.device
  local made <const> = self.made or self.on.gradients
  self.added = self.added or rows.adder(device, self.parameters:type(), self.layout.keys, KEY)
  local added <const> = self.added
  added:clear()
  local ready <const> = hooks and hooks.ready and function(l)
    local layer <const> = self.layout.layers[l]
    added:add(layer.first_key * KEY, layer.key_count * KEY, made, added.on)
    hooks.ready(l)
  end
  return in_pieces(self, self.train, batch, pieces, function(piece, last)
    local sum, count, correct = finished(self, nil, compute.span("forward, backward", self.train.step, self.train, 0,
      self.steps, hooks and hooks.need, last and ready or nil))
    for _, t in ipairs(self.tables) do t:collect(piece == 1, last) end
    if not last then
      added:add(0, self.layout.keys * KEY, added.on, made)
    elseif not ready then
      added:add(0, self.layout.keys * KEY, made, added.on)
    end
    return sum, count, correct
  end)
end

---Forward and backward; gradients are sums over the examples.
---@param hooks? {need?: fun(layer: integer), ready?: fun(layer: integer)} called between operations
---@param exchange? table compute.exchange, which takes the gradients that are offered as factors
---@return table {loss = sum, count = n, correct = n}
---@package
function model:backward(batch, hooks, exchange)
  local count <const>, graphs <const>, pieces <const> = feed(self, self.train, batch, true)
  if pieces then
    local sum, counted, correct = backward_in_pieces(self, batch, pieces, hooks)
    local r <const> = result(sum, counted, correct, graphs)
    r.pieces = #pieces
    return r
  end
  if self.folding then self.train:divide(self.per == "sample" and graphs.samples or 0) end
  self.last = batch
  local sum, counted, correct = finished(self, batch, compute.span("forward, backward", self.train.step, self.train,
    count, self.steps, hooks and hooks.need, hooks and hooks.ready, exchange))
  return result(sum, counted, correct, graphs)
end

---The divisor of a step's sum of gradients.
---@package
function model:divisor(r) return self.per == "sample" and r.samples or r.count end

---The rate of a step, of a rule without others beside it.
---@package
function model:rate(step) return optimizer.rate(self.optimizer, step, self.params) end

---Whether the products that make gradients can subtract them from the parameters: plain gradient descent, and no option
---that reads all gradients, or the parameters after an update.
---@package
function model:folds()
  return self.updates:folds() and not self.clip and not self.average and self.nan == "stop"
end

-- The arrays that updates change: the host's if staged, else the device's.
local function place_of(self)
  return {device = self.staged and "cpu" or self.device, memory = self.memory, params = self.params,
          parameters = self.staged and self.parameters or self.on.parameters,
          gradients = self.staged and self.summed or self.on.gradients}
end

---The moving average follows the elements first .. first + count - 1 (from 0); count 0: it becomes the parameters.
---@package
function model:follow(first, count)
  local at <const> = place_of(self)
  local all <const> = count == 0
  local e <const> = all and 0 or self.keep -- e = e keep + (1 - keep) w, as a step of gradient descent on e
  compute.update(at.device, {rule = "sgd", rate = 1, decay = 1 - e, scale = e - 1}, first,
    all and self.layout.keys * KEY or count, self.average, at.parameters)
end

---Applies the update rules to the parameters that lie at elements first .. first + count - 1 (from 0).
---@param scale number of the gradient: 1 / global count, less if it is clipped
---@param step integer from 1
---@param rates? table {step =, of matrices, of vectors}: what schedules see, and factors on the rates
---@package
function model:change(first, count, scale, step, rates)
  local at <const> = place_of(self)
  for i, p in ipairs(self.layout.parameters) do
    if p.first >= first and p.first < first + count and not (self.folding and self.train:folded(i)) then
      self.updates:apply(i, at, scale, step, rates)
      if self.average then self:follow(p.first, p.count) end
    end
  end
end

---The factor on the gradient that gives its mean a norm of at most `clip`.
---@param squares number sum of squares of the summed gradient
---@return number|nil nil: it is not finite, and the step changes nothing
---@package
function model:scale(squares, count)
  if count == 0 then return 0 end
  local norm <const> = math.sqrt(squares) / count
  if norm ~= norm or norm == math.huge then
    if self.nan == "skip" then return nil end
    raise_not_finite(self, "gradient", self.last)
  end
  return (self.clip and norm > self.clip and self.clip / norm or 1) / count
end

local function wants_optimizer(self, what)
  if self.optimizer then return end
  error(package.error("T0903", what .. " requires an optimizer: compile {optimizer = nn.sgd {lr = 0.1}}"), 3)
end

---One step of training on a batch.
---@return table {loss = sum, count = n, correct = n}
function model:step(batch)
  wants_optimizer(self, "step")
  self.steps = self.steps + 1
  -- The products that make the gradients also make plain gradient descent.
  self.folding = self:folds() and self.optimizer.decay == 0
  self.train:fold(self.folding and self:rate(self.steps) or 0)
  for _, t in ipairs(self.tables) do
    if not t.rule then rows.rule(t.name) end
  end
  local r = self:backward(batch)
  self:apply(r)
  return r
end

---Changes parameters and rows by the gradients of a step.
---@param r table its result
---@param tables? table[] in place of the model's
---@package
function model:apply(r, tables)
  local all <const> = self.layout.keys * KEY
  local count <const> = self:divisor(r)
  local at <const> = place_of(self)
  local scale
  -- On a device with memory of its own the norm costs another synchronization; a loss that is not finite is enough.
  local away <const> = at.parameters ~= self.parameters
  if self.folding or (away and not self.clip) then
    scale = self:scale(r.loss * r.loss, 1) and (count > 0 and 1 / count or 0) -- refuses what is not finite
  else
    local squares = compute.norm2(at.device, 0, all, at.gradients)
    for _, t in ipairs(tables or self.tables) do squares = squares + t:squares() end
    scale = self:scale(squares, count)
  end
  if not scale then
    r.skipped = 1
    return
  end
  self:change(0, all, scale, self.steps)
  for _, t in ipairs(tables or self.tables) do t:update(scale, self.steps) end
end

---Graphs that grow while they are computed: see tide.nn.growing.
---@param o? {vertices?: integer, train?: boolean}
---@return tide.nn.growing
function model:grow(o) return require("tide.nn.growing").new(self, o or {}) end

---Gradients of a batch, summed over its examples, for `update`; nothing changes but running statistics.
---`local g = m:gradients(batch)`: g.loss, g.count, g:norm(), g["fc1.w"]; g:add(another batch's), g:scale(factor).
---@return tide.nn.gradients
function model:gradients(batch)
  self.train:fold(0)
  self.folding = false
  return gradients.take(self, self:backward(batch))
end

---One step with gradients of one batch or several: divides them by their count, and applies clip, schedule and update
---rules, to rows of tables too.
---@param g tide.nn.gradients
function model:update(g)
  wants_optimizer(self, "update")
  self.folding = false
  self.steps = self.steps + 1
  self:apply(g:give(self))
end

---Gradients of a batch by parameter name, summed over its examples.
---@return table<string, table> tensors rows x columns
function model:gradients_of(batch)
  local g <const> = self:gradients(batch)
  local all = {}
  for _, p in ipairs(self.layout.parameters) do all[p.name] = g[p.name] end
  return all
end

---Current rows of a table, in its order; shares storage.
---@param name string
---@return table tensor
function model:table(name)
  for _, t in ipairs(self.tables) do
    if t.name == name and t.array then return t.array end
  end
  error(package.error("T0903", ("the model has no table `%s` of its own"):format(name)), 2)
end

---A parameter: shares storage with the model; on a device with memory of its own with `parameters`, so that changes
---count after give().
---@return table tensor rows x columns
function model:parameter(name)
  if not self.staged then compute.fetch(self.on.parameters, self.parameters) end
  for _, p in ipairs(self.layout.parameters) do
    if p.name == name then return self.parameters:view(p.first + 1, p.rows, p.columns) end
  end
  error(package.error("T0903", ("the program has no parameter `%s`"):format(name)), 2)
end

---The contents of a program's buffer. On a GPU `model:give()` copies changes to the device.
---@param name string
---@return table tensor rows x columns; shares storage
function model:buffer(name)
  compute.fetch(self.on.states, self.states)
  for _, b in ipairs(self.program.buffers) do
    if b.name == name then return self.states:view(b.first + 1, b.rows, b.columns) end
  end
  error(package.error("T0903", ("the program has no buffer `%s`"):format(name)), 2)
end

---The moving average of a parameter, a copy.
---@return table tensor rows x columns
function model:averaged(name)
  if not self.average then
    error(package.error("T0903", "the model keeps no averages: compile {average = 0.999}"), 2)
  end
  local away <const> = not self.staged and self.on.parameters ~= self.parameters
  local host <const> = away and tensor.zeros(self.parameters:type(), self.layout.keys, KEY) or self.average
  if away then compute.fetch(self.average, host) end
  for _, p in ipairs(self.layout.parameters) do
    if p.name == name then return host:view(p.first + 1, p.rows, p.columns):copy() end
  end
  error(package.error("T0903", ("the program has no parameter `%s`"):format(name)), 2)
end

---Writes the parameters by their names, `fc1.w`, running statistics and rows of tables as safetensors.
---@param path string .npz: as NumPy's archive
function model:save(path)
  self:fetch()
  local all = {}
  for _, t in ipairs(self.tables) do all[t.name] = t.array end
  require("tide.nn.files").save(self.program, self.parameters, self.states, all, path)
end

---Sets the parameters, and rows of tables, to those of the same names in a file of any writer.
---@param path string .safetensors or .npz
function model:load(path) require("tide.nn.files").load(self, path) end

---Loss without dropout and with running statistics. Every input must be fed, labels too.
---@param each? fun() called behind each piece of a batch that was cut
---@return table {loss = sum, count = n, correct = n}
function model:evaluate(batch, each)
  local count <const>, graphs <const>, pieces <const> = feed(self, self.eval, batch)
  if pieces then
    local sum, counted, correct = in_pieces(self, self.eval, batch, pieces, function()
      local one, n, right = checked(self.eval:step(0, 0))
      if each then each() end
      return one, n, right
    end)
    return result(sum, counted, correct, graphs)
  end
  local sum, counted, correct = checked(self.eval:step(count, 0))
  return result(sum, counted, correct, graphs)
end

---Outputs by name, computed as in an evaluation.
---@return table<string, table>
function model:forward(batch)
  local parts = {} -- of a batch that was cut
  self:evaluate(batch, function()
    local part = {}
    for _, name in ipairs(self.program.outputs) do part[name] = self.eval:output(name) end
    parts[#parts + 1] = part
  end)
  return setmetatable({}, {__index = function(_, name)
    if #parts == 0 or not parts[1][name] then return self.eval:output(name) end
    local count = 0
    for _, part in ipairs(parts) do count = count + part[name]:rows() end
    local whole, at = tensor.zeros(parts[1][name]:type(), count, parts[1][name]:columns()), 1
    for _, part in ipairs(parts) do
      local n <const> = part[name]:rows()
      if n > 0 then whole:slice(at, n):put(1, part[name]) end
      at = at + n
    end
    return whole
  end})
end

---Its layers as a table: the shape of each result and the number of parameters; and the bytes that training takes.
---@return string text
function model:summary()
  local f <const> = self.train:figures()
  local arrays <const> = 2 + #self:remembered()
  local text <const> = "%s\nparameters, gradients, %d states of the update rule: %.1f MB; values: %.1f KB an example"
    .. " and %.1f KB"
  return text:format(self.program:summary(), arrays - 2, arrays * self.layout.keys * KEY * 4 / 1e6, f.row_bytes / 1e3,
      f.fixed_bytes / 1e3)
end

---Statistics of a batch by layer: of its values, its mean gradient and its weights. The list is run
---once more, operation by operation; nothing changes. `print(m:watch(batch))`.
---@param batch table as of `step`
---@return tide.nn.watched {{name=, values=, gradient=, weights=}}: each {mean=, std=, max=, zeros=, bad=} or nil
function model:watch(batch)
  if self.program.vertex then
    error(package.error("T0903", "watch is for programs of tensors, not of vertices"), 2)
  end
  local list <const>, made <const>, count <const> = look_into(self, batch)
  return inspection.watch(self, list, made, count)
end

---The list as it is executed: operations, places in memory, and when layers are needed and ready.
function model:explain() return self.train:explain() end

return model
