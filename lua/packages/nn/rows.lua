-- Rows of a program's tables: the rows that a batch reads are gathered before it runs and changed after it. Here a
-- table is one array of this process; in a job it is a table of the cluster (tide.nn.shared_rows).
local compute = require "tide.compute"
local optimizer = require "tide.nn.optimizer"
local package = require "tide.package"
local tensor = require "tide.tensor"

---@class tide.nn.rows one table
---@field name string
---@field index integer its number in the program
---@field ids table u64 tensor: the rows of the last batch
---@field gradients table tensor: their gradients, after a step
local rows = {}
rows.__index = rows

local ADDS <const> = {rule = "sgd", rate = -1} -- as an update rule: w + g

-- Gradients of the pieces of a batch, in the device's memory.
local adder = {}
adder.__index = adder

---@package
function rows.adder(device, float, count, columns)
  local host <const> = tensor.zeros(float, count, columns)
  return setmetatable({device = device, host = host, on = compute.place(device, host)}, adder)
end

function adder:clear()
  if self.on == self.host then self.host:fill(0) else compute.give(self.on, self.host) end
end

---to += from, elements first .. (from 0)
function adder:add(first, count, to, from)
  if count > 0 then compute.update(self.device, ADDS, first, count, to, from) end
end

-- Rules of tables: their options and defaults, as in table_spec, and the state of a row of width w in floats.
local RULES <const> = {
  sgd = {state = function() return 0 end},
  momentum = {momentum = 0.9, state = function(w) return w end},
  nesterov = {momentum = 0.9, state = function(w) return w end},
  adagrad = {eps = 1e-10, state = function(w) return w end},
  adam = {beta1 = 0.9, beta2 = 0.999, eps = 1e-8, state = function(w) return 2 * w + 1 end},
}

---The checked rule of a table: {"adagrad", lr = 0.1}.
---@param name string of the table
function rows.rule(name, given)
  if type(given) ~= "table" or not RULES[given[1] or given.rule] then
    error(package.error("T0903", ("table %q needs an update rule"):format(name),
      {help = ('tables = {%s = {"adagrad", lr = 0.1}}; there are %s'):format(name,
        table.concat(package.sorted_keys(RULES), ", "))}), 0)
  end
  local rule <const> = given[1] or given.rule
  for key in pairs(given) do
    if key ~= 1 and key ~= "rule" and key ~= "lr" and type(RULES[rule][key]) ~= "number" then
      error(package.error("T0903", ("table %q: rule %s has no option `%s`"):format(name, rule, tostring(key))), 0)
    end
  end
  local lr <const> = given.lr
  if type(lr) ~= "number" and not (type(lr) == "function" and rule == "sgd") then
    error(package.error("T0903", ("table %q: lr is a number%s"):format(name,
      rule == "sgd" and " or a function of the step" or "; a schedule needs sgd")), 0)
  end
  local made = {rule = rule, lr = lr}
  for key, default in pairs(RULES[rule]) do
    if key ~= "state" then made[key] = given[key] or default end
  end
  return made
end

---The rules of all tables of a program; each has one, and no other is named.
---@param tables table[] of program:tables()
---@param given? table<string, table>
---@return table<string, table>
function rows.rules(tables, given)
  local made, known = {}, {}
  for _, t in ipairs(tables) do
    known[t.name] = true
    made[t.name] = given and rows.rule(t.name, given[t.name]) or nil
  end
  for name in pairs(given or {}) do
    if not known[name] then
      error(package.error("T0903", ("the program has no table %q"):format(tostring(name))), 0)
    end
  end
  return made
end

---Why a program cannot have a moving average: it covers parameters, and evaluations would read rows that are not
---averaged beside parameters that are. nil: it can.
---@param program tide.nn.program
---@return string|nil
function rows.average_problem(program)
  local first <const> = program.vertex and program:tables()[1]
  return first and ("`average` covers parameters, not the rows of a table, and program %s has table %q"):format(
    program.name, first.name) or nil
end

---@param model table tide.nn.model
---@param spec table of program:tables()
---@param index integer
---@param rule? table of rows.rule
---@return tide.nn.rows
function rows.new(model, spec, index, rule)
  local float <const> = model.device == "reference" and "f64" or "f32"
  local self = setmetatable({name = spec.name, index = index, rule = rule, width = spec.columns, float = float,
                             device = model.device, array = tensor.zeros(float, spec.rows, spec.columns)}, rows)
  model.program.core:table_rows(index, model.seed, 0, self.array)
  local from <const> = spec.vectors
  if from and #from.ids > 0 then compute.rows_put(self.array, from.ids, from.values:convert(float)) end
  local remembered <const> = rule and RULES[rule.rule].state(spec.columns) or 0
  self.state = remembered > 0 and tensor.zeros(float, spec.rows, remembered) or nil
  return self
end

---Reserves room for so many rows and their gradients, on the host and in the device's memory.
function rows:reserve(count)
  if self.room and count <= self.room then return end
  self.room = math.max(64, 2 * count)
  self.here = tensor.zeros(self.float, self.room, self.width)
  self.gradients = tensor.zeros(self.float, self.room, self.width)
  self.on = {rows = compute.place(self.device, self.here), gradients = compute.place(self.device, self.gradients)}
end

---Gathers rows in `here`.
function rows:bring(ids) compute.rows_get(self.here, self.array, ids) end

---Gathers and binds the rows that the run's batch reads.
function rows:gather(run, training)
  self.ids = run:table_ids(self.index)
  self:reserve(#self.ids)
  self:bring(self.ids)
  compute.give(self.on.rows, self.here)
  run:bind_table(self.index, self.on.rows, training and self.on.gradients or nil, #self.ids)
end

---Adds the gradients of a piece of the batch; after the last piece they are those of the whole batch.
---@param first boolean
---@param last boolean
function rows:collect(first, last)
  local count <const> = #self.ids * self.width
  if count == 0 then return end
  if not self.added or self.added.host:rows() < self.room then
    self.added = rows.adder(self.device, self.float, self.room, self.width)
  end
  local added <const>, made <const> = self.added, self.on.gradients
  if first then added:clear() end
  if last then added:add(0, count, made, added.on) else added:add(0, count, added.on, made) end
end

---The sum of squares of the gradients.
function rows:squares()
  compute.fetch(self.on.gradients, self.gradients)
  return compute.norm2(self.float == "f64" and "reference" or "cpu", 0, #self.ids * self.width, self.gradients)
end

function rows:rate(step) return optimizer.rate(self.rule, step) end

---Changes the rows of the last batch by their gradients, each multiplied by `scale`.
function rows:update(scale, step)
  compute.fetch(self.on.gradients, self.gradients)
  local rule <const> = self.rule
  compute.rows_update({rule = rule.rule, rate = self:rate(step), scale = scale, eps = rule.eps, beta2 = rule.beta2,
                    mu = rule.beta1 or rule.momentum}, self.array, self.state, self.ids, self.gradients)
end

return rows
