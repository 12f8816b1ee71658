-- Update rules. Those of kernels/operation.h are one pass of a kernel. A rule of one's own (nn.optimizer) is a function
-- of symbolic values that is traced once a shape and run as a program: a rule that treats every element alike in pieces
-- that fit the cache, another a parameter at a time. The states of a rule lie in arrays of the parameters' layout, so
-- checkpoints and joining workers treat all rules alike.
local compute = require "tide.compute"
local package = require "tide.package"
local tensor = require "tide.tensor"

local optimizer = {}

local KEY <const> = 1024
local PIECE <const> = 32768 -- elements of a pass: w, g, two states and what they become fit the second cache
local STATES <const> = {sgd = 0, momentum = 1, nesterov = 1, adagrad = 1, rmsprop = 1, adam = 2, adamw = 2}
local DEFAULTS <const> = {
  sgd = {}, momentum = {mu = 0.9}, nesterov = {mu = 0.9}, adagrad = {eps = 1e-10}, rmsprop = {mu = 0.99, eps = 1e-8},
  adam = {mu = 0.9, beta2 = 0.999, eps = 1e-8}, adamw = {mu = 0.9, beta2 = 0.999, eps = 1e-8},
}
local FIELDS <const> = {name = true, version = true, lr = true, decay = true, state = true, per = true, numbers = true,
                        step = true, normalised = true}
local SCALE <const> = "scale of g" -- the number that the sum of gradients is multiplied with
local PER <const> = {element = true, parameter = true, row = true, column = true}

---- declarations ----------------------------------------------------------------------------------------------------

local function is_rate(lr) return type(lr) == "number" or type(lr) == "function" end

local RANGES <const> = {lr = "rate", decay = "rate", eps = "rate", rest_lr = "rate", mu = "share", beta1 = "share",
                        beta2 = "share", clip = "size", power = "number"}

---Returns a function that makes the rule `name` of given options: those that have defaults, lr and decay.
---@param tools table of tide.nn
function optimizer.options(tools, name, defaults, make)
  local known = {lr = true, decay = true}
  for key in pairs(defaults) do known[key] = true end
  return function(o)
    local made = {decay = 0}
    for key, value in pairs(defaults) do made[key] = value end
    for key, given in pairs(tools.known_options("nn." .. name, o, known)) do made[key] = given end
    if not is_rate(made.lr) then tools.refuse("nn.%s requires lr, a number or a function of the step", name) end
    for key, range in pairs(RANGES) do
      if made[key] ~= nil and type(made[key]) ~= "function" then
        tools.bounded(("nn.%s: %s"):format(name, key), made[key], range)
      end
    end
    return make(made)
  end
end

---A rule that is one pass of a kernel.
function optimizer.kernel(tools, rule)
  return optimizer.options(tools, rule, DEFAULTS[rule], function(made)
    made.rule = rule
    return made
  end)
end

-- States by name: one number of each per element, row or column.
local function states_of(tools, o)
  local states = {}
  for i, each in ipairs(o.state or {}) do
    local name <const>, per <const> = type(each) == "table" and each[1] or each,
      type(each) == "table" and each.per or "element"
    if type(name) ~= "string" or not name:match "^[%a_][%w_]*$" or ({w = 1, g = 1, t = 1, rate = 1})[name] then
      tools.refuse("nn.optimizer %q: state %d needs a name, which is not w, g, t or rate", o.name, i)
    end
    if not PER[per] or per == "parameter" or o.per ~= "parameter" and per ~= "element" then
      tools.refuse('nn.optimizer %q: state `%s` is per "element"%s, not %q', o.name, name,
        o.per == "parameter" and ', "row" or "column"' or '; others need per = "parameter"', tostring(per))
    end
    states[i] = {name = name, per = per}
  end
  return states
end

---The checked declaration of a rule of one's own; see nn.optimizer.
function optimizer.own(tools, o)
  package.check_fields("T0903", "nn.optimizer", o, FIELDS)
  if type(o.name) ~= "string" or o.name == "" then tools.refuse "nn.optimizer requires name, which checkpoints keep" end
  if type(o.step) ~= "function" then tools.refuse("nn.optimizer %q requires step, a function", o.name) end
  if o.per and o.per ~= "element" and o.per ~= "parameter" then
    tools.refuse('nn.optimizer %q: per is "element" or "parameter", not %q', o.name, tostring(o.per))
  end
  if not is_rate(o.lr) then tools.refuse("nn.optimizer %q requires lr, a number or a function of the step", o.name) end
  if type(o.lr) == "number" then tools.bounded(("nn.optimizer %q: lr"):format(o.name), o.lr, "rate") end
  if o.decay ~= nil then tools.bounded(("nn.optimizer %q: decay"):format(o.name), o.decay, "number") end
  if o.numbers and type(o.numbers) ~= "function" then
    tools.refuse("nn.optimizer %q: numbers is a function of the step", o.name)
  end
  local made = {name = o.name, version = o.version or 1, lr = o.lr, decay = o.decay or 0, per = o.per or "element",
                numbers = o.numbers, step = o.step, normalised = o.normalised, tools = tools}
  made.states = states_of(tools, {name = o.name, state = o.state, per = made.per})
  return made
end

---Raises a fault in the results of a rule's functions, at the line of `step`.
local function wrong(own, message, ...)
  local info <const> = debug.getinfo(own.step, "S")
  error(package.error("T0903", ("nn.optimizer %q: " .. message):format(own.name, ...),
    {where = ("%s:%d"):format(info.short_src, info.linedefined)}), 0)
end

---- tracing ---------------------------------------------------------------------------------------------------------

-- The numbers of a step by name, as a script wrote them.
local function numbers_of(own, t, rate)
  local numbers = {}
  for name, number in pairs(own.numbers and own.numbers(t, rate) or {}) do
    if type(number) ~= "number" then
      wrong(own, "numbers returns `%s` as a %s", tostring(name), type(number))
    end
    numbers[name] = number
  end
  numbers.t, numbers.rate = t, rate
  return numbers
end

local function size_of(per, p)
  return per == "row" and p.rows or per == "column" and p.columns or p.count
end

-- One program of a rule: of elements, or of parameters of one shape.
local stepper = {}
stepper.__index = stepper

-- The argument of `step`: w, g (the mean gradient), states and numbers as values of program p.
local function symbols(self, p)
  local own <const>, shape <const> = self.own, self.shape
  local whole <const> = own.per == "parameter"
  local s = {matrix = shape.rows > 1, decay = shape.rows > 1 and own.decay or 0}
  if whole then s.rows, s.columns = shape.rows, shape.columns end
  local function add(name, value)
    if s[name] ~= nil then wrong(own, "a state or number cannot be called `%s`: s has another one", name) end
    s[name] = value
  end
  local function value(name, size) add(name, p:input(name, whole and size or 1)) end
  value("w", shape.count)
  value("g", shape.count)
  for _, state in ipairs(own.states) do value(state.name, size_of(state.per, shape)) end
  local names = {SCALE}
  for name in pairs(numbers_of(own, 1, 1)) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    add(name, whole and p:input("number " .. name, 1) or p:param("number " .. name, {1}))
  end
  self.names = names
  s.g, s[SCALE] = s.g * s[SCALE], nil
  return s
end

-- Checks the result of `step`: exactly w and all states, each of its shape.
local function declare(self, p, given, made)
  local own <const>, tools <const> = self.own, self.own.tools
  if type(made) ~= "table" or tools.is_value(made) then
    wrong(own, "step returns a table {w = ..., STATE = ...}, not a %s", type(made) == "table" and "value" or type(made))
  end
  local wanted = {w = true}
  for _, state in ipairs(own.states) do wanted[state.name] = true end
  for name in pairs(made) do
    if not wanted[name] then
      wrong(own, "step returns `%s`, which is no state of it", tostring(name))
    end
  end
  self.changes = {}
  for _, name in ipairs(package.sorted_keys(wanted)) do
    local value <const> = made[name]
    if not tools.is_value(value) then
      wrong(own, "step must return `%s`, a value; it is a %s", name, type(value))
    end
    local has <const>, wants <const> = p.core:shape(value.id), p.core:shape(given[name].id)
    if has ~= wants then
      wrong(own, "step returns `%s` of shape %s, which is %s", name, has, wants)
    end
    if value.id ~= given[name].id then
      p:output("new." .. name, value)
      self.changes[#self.changes + 1] = name
    end
  end
end

---@param own table of optimizer.own
---@param shape {rows: integer, columns: integer, count: integer}
function stepper.new(own, shape, device)
  local self = setmetatable({own = own, shape = shape}, stepper)
  local p <const> = own.tools.formula("step of " .. own.name, function(p)
    local s <const> = symbols(self, p)
    local given = {}
    for name, value in pairs(s) do given[name] = value end
    declare(self, p, given, own.step(s))
  end)
  local run <const> = own.tools.checked(p.core:plan(device, "evaluate", 0))
  local float <const> = device == "reference" and "f64" or "f32"
  local layout <const> = p.core:layout()
  self.numbers = tensor.zeros(float, math.max(1, layout.keys), KEY)
  self.run = run
  run:bind(self.numbers, nil, tensor.zeros(float, 1, KEY))
  self.places = {}
  for i, name in ipairs(self.names) do self.places[name] = i - 1 end
  for _, each in ipairs(layout.parameters) do self.places[each.name:sub(#"number " + 1)] = each.first end
  if own.per == "parameter" then
    for name, at in pairs(self.places) do run:feed("number " .. name, self.numbers:view(at + 1, 1, 1), 1) end
  end
  return self
end

-- Sets the numbers of step t.
local function prepare(self, scale, rate, t)
  local numbers <const> = numbers_of(self.own, t, rate)
  numbers[SCALE] = scale
  for name, at in pairs(self.places) do
    if not numbers[name] then
      wrong(self.own, "numbers returned `%s` before, and not in step %d", name, t)
    end
    self.numbers:view(at + 1, 1, 1)[1] = numbers[name]
  end
end

---Changes the parameter p and its states.
---@param arrays table<string, {tensor: table, first: integer}> w, g and states: where the first element lies, from 0
function stepper:apply(p, arrays, scale, rate, t)
  prepare(self, scale, rate, t)
  local run <const>, whole <const> = self.run, self.own.per == "parameter"
  local piece <const> = whole and p.count or PIECE
  for from = 0, p.count - 1, piece do
    local count <const> = math.min(piece, p.count - from)
    for name, a in pairs(arrays) do
      local size <const> = whole and a.size or count
      run:feed(name, a.tensor:view(a.first + from + 1, whole and 1 or size, whole and size or 1), 1)
    end
    self.own.tools.checked(run:step(whole and 1 or count, 0))
    for _, name in ipairs(self.changes) do
      run:output("new." .. name, arrays[name].tensor, arrays[name].first + from)
    end
  end
end

---- the rules of a model --------------------------------------------------------------------------------------------

-- Places of a parameter's states in the arrays: one that is as large as it has an array of its own, smaller ones share.
local function place_states(own, p)
  local places, room, arrays = {}, {}, 0
  for _, state in ipairs(own.states) do
    local size <const> = size_of(state.per, p)
    local i = 1
    while (room[i] or 0) + size > p.count do i = i + 1 end
    places[state.name] = {array = i, first = p.first + (room[i] or 0), size = size}
    room[i] = (room[i] or 0) + size
    arrays = math.max(arrays, i)
  end
  return places, arrays
end

---The rule of each parameter, and the places of its states.
---@param o table an optimizer
---@param layout table of a program
---@return table {arrays = how many, [i] = {rule = of parameter i, places}}
function optimizer.plan(o, layout)
  local plan = {arrays = 0}
  for i, p in ipairs(layout.parameters) do
    local rule = o.each and o.each({name = p.name, rows = p.rows, columns = p.columns, count = p.count, number = i,
                                    parameters = layout.parameters}) or o
    if type(rule) ~= "table" or not (rule.rule or rule.step) then
      error(package.error("T0903", ("nn.each returns a %s for parameter `%s`, not an update rule"):format(type(rule),
        p.name)), 0)
    end
    local places, arrays = nil, STATES[rule.rule]
    if rule.step then places, arrays = place_states(rule, p) end
    plan[i] = {rule = rule, places = places}
    plan.arrays = math.max(plan.arrays, arrays)
  end
  return plan
end

local function name_of(rule)
  if rule.rule then return rule.rule end
  local states = {}
  for i, state in ipairs(rule.states) do states[i] = state.name end
  return ("%s %s (%s)"):format(rule.name, tostring(rule.version), table.concat(states, ", "))
end

---The name under which checkpoints store a rule's memory.
---@param o table an optimizer
---@param layout table of a program
---@return string
function optimizer.identity(o, layout)
  local names, last = {}, nil
  for i, each in ipairs(optimizer.plan(o, layout)) do
    local name <const> = name_of(each.rule)
    if name ~= last then names[#names + 1] = o.each and ("%s: %s"):format(layout.parameters[i].name, name) or name end
    last = name
  end
  return table.concat(names, "; ")
end

---@class tide.nn.updates the update rules of a model
local updates = {}
updates.__index = updates

---@param o table an optimizer
---@param layout table
function optimizer.new(o, layout)
  return setmetatable({optimizer = o, layout = layout, plan = optimizer.plan(o, layout), steppers = {}}, updates)
end

---Whether gradients are subtracted unchanged, so that the products that make them can do it.
function updates:folds() return self.optimizer.rule == "sgd" end

---Whether one of them is traced, and so runs on the host.
function updates:is_traced()
  for _, each in ipairs(self.plan) do
    if each.rule.step then return true end
  end
  return false
end

---The rate of a step.
---@param rule {lr: tide.nn.rate}
---@param params? table of the job
---@return number
function optimizer.rate(rule, step, params)
  if type(rule.lr) ~= "function" then return rule.lr end
  local rate <const> = rule.lr(step, params)
  if type(rate) ~= "number" or not (rate >= 0 and rate < math.huge) then
    local info <const> = debug.getinfo(rule.lr, "S")
    local got <const> = type(rate) == "number" and tostring(rate) or "a " .. type(rate)
    error(package.error("T0903", ("`lr` returned %s for step %d, not a finite number of 0 or more"):format(got, step),
      {where = ("%s:%d"):format(info.short_src, info.linedefined)}), 0)
  end
  return rate
end

-- A program serves all parameters that it fits.
local function stepper_of(self, rule, p, device)
  local whole <const> = rule.per == "parameter"
  local key <const> = whole and ("%d x %d"):format(p.rows, p.columns) or p.rows > 1 and "matrix" or "vector"
  local made = self.steppers[rule] or {}
  self.steppers[rule] = made
  made[key] = made[key] or stepper.new(rule, p, device)
  return made[key]
end

---Changes the i-th parameter.
---@param i integer
---@param at {device: string, parameters: table, gradients: table, memory: table[], params?: table} where arrays lie
---@param scale number of the gradient
---@param step integer from 1
---@param rates? table {step =, of matrices, of vectors}: the step that schedules see, and factors on the rate
function updates:apply(i, at, scale, step, rates)
  local p <const>, rule <const> = self.layout.parameters[i], self.plan[i].rule
  local rate = optimizer.rate(rule, rates and rates.step or step, at.params)
  if rates then rate = rate * rates[p.rows > 1 and 1 or 2] end
  if not rule.step then
    local u <const> = {rule = rule.rule, rate = rate, scale = scale, mu = rule.mu, step = step, beta2 = rule.beta2,
                       eps = rule.eps, decay = p.rows > 1 and rule.decay or 0} -- of matrices alone
    compute.span("update", compute.update, at.device, u, p.first, p.count, at.parameters, at.gradients, at.memory[1],
      at.memory[2])
    return
  end
  local arrays = {w = {tensor = at.parameters, first = p.first, size = p.count},
                  g = {tensor = at.gradients, first = p.first, size = p.count}}
  for name, place in pairs(self.plan[i].places) do
    arrays[name] = {tensor = at.memory[place.array], first = place.first, size = place.size}
  end
  local own <const> = stepper_of(self, rule, p, at.device)
  compute.span("update", own.apply, own, p, arrays, scale, rate, step)
end

return optimizer
