-- Operations of one's own, written with those of tide.nn: forward and backward are traced where the operation is
-- applied, join the program's list and are fused like all others. docs/guides/programs.md is the guide.
local package = require "tide.package"
local tensor = require "tide.tensor"
local tide = require "tide"

local nn = {}
local tools -- of init.lua

local function refuse(...) return tools.refuse(...) end

---@class tide.nn.operation
---@field name string
local operation = {}
operation.__index = operation

---Values of a table by their numbers; raises the operation's error if it contains anything else.
local function ids_of(own, what, p, list, count)
  local ids = {}
  for i = 1, count do
    local v <const> = list[i]
    if not tools.is_value(v) or v.program ~= p then
      refuse("operation %s: %s %d is a %s, not a value of the program", own.name, what, i, type(v))
    end
    ids[i] = v.id
  end
  return ids
end

---While `f` runs, values of others than these, and parameters, are refused: they would get no gradient.
local function within(p, own, first, known, f, ...)
  local outer <const> = p.tracing
  p.tracing = {name = own.name, first = first, known = known}
  local results <const> = table.pack(pcall(f, ...))
  p.tracing = outer
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

---Applies the operation to values of one program, in the order of forward's arguments.
function operation:__call(...)
  local inputs <const>, p = {...}, nil
  for i = 1, select("#", ...) do p = p or tools.is_value(inputs[i]) and inputs[i].program end
  if not p then refuse("operation %s is applied to no value of a program", self.name) end
  local ids <const> = ids_of(self, "operand", p, inputs, select("#", ...))
  tools.place(p)
  tools.checked(p.core:open(self.name, ids))
  local known = {}
  for _, id in ipairs(ids) do known[id] = true end
  local first <const> = p.core:count()
  local made <const>, saved <const> = within(p, self, first, known, self.forward, ...)
  local several <const> = type(made) == "table" and not tools.is_value(made)
  local outputs <const> = several and made or {made}
  local out <const> = ids_of(self, "result", p, outputs, math.max(1, #outputs))
  tools.place(p)
  tools.checked(p.core:close(out))
  p.groups[#p.groups + 1] = {own = self, inputs = inputs, count = #ids, made = made, saved = saved, several = several,
                             known = known, first = first}
  if several then return table.unpack(outputs) end
  return made
end

---The gradients of a group's operands, by number; false: none.
local function derive(p, number, gradients)
  local g <const> = p.groups[number]
  local own <const> = g.own
  if not own.backward then refuse("operation %s has no backward, and a gradient is wanted of it", own.name) end
  local given = {}
  for i = 1, g.several and #g.made or 1 do
    given[i] = tools.wrap(p, gradients[i])
    g.known[gradients[i]] = true
  end
  local list <const> = table.move(g.inputs, 1, g.count, 3, {g.several and given or given[1], g.saved or false})
  list[#list + 1] = g.made
  local made <const> = table.pack(within(p, own, g.first, g.known, own.backward, table.unpack(list, 1, g.count + 3)))
  if made.n > g.count then
    refuse("backward of %s returns %d gradients, and it has %d operands", own.name, made.n, g.count)
  end
  local ids = {}
  for i = 1, g.count do ids[i] = made[i] ~= nil and ids_of(own, "gradient", p, made, i)[i] or false end
  return ids
end

---An operation of one's own, of values: `forward(x, ...)` returns y (or a list of values) and optionally the values
---that backward reads; `backward(g, saved, x, ..., y)` returns a gradient for each operand, of its shape, or nil for
---none. Both are built of the operations of tide.nn, from their arguments alone.
---@param o {name: string, forward: function, backward?: function}
---@return tide.nn.operation|fun(...: tide.nn.value): tide.nn.value
function nn.operation(o)
  package.check_fields("T0903", "nn.operation", o, {name = true, forward = true, backward = true})
  if type(o.forward) ~= "function" or (o.backward ~= nil and type(o.backward) ~= "function") then
    refuse("nn.operation requires forward, and perhaps backward, as functions")
  end
  return setmetatable({name = tostring(o.name or "of its own"), forward = o.forward, backward = o.backward}, operation)
end

---Applies an operation of a shared object to values, and perhaps a table of its numbers behind them.
---@param name string
---@param own userdata
---@param numbers {name: string, doc: string, default?: number}[]
---@return tide.nn.value ...
---@package
local function of_module(name, own, numbers, ...)
  local inputs <const>, list = {...}, {}
  local options = inputs[#inputs]
  if type(options) == "table" and not tools.is_value(options) then inputs[#inputs] = nil else options = {} end
  local known = {}
  for i, number in ipairs(numbers) do
    known[number.name] = true
    list[i] = options[number.name] or number.default
    if type(list[i]) ~= "number" then
      refuse("operation %s requires a number `%s`: %s", name, number.name, number.doc)
    end
  end
  for key in pairs(options) do
    if not known[key] then refuse("operation %s has no number `%s`", name, tostring(key)) end
  end
  local p <const> = tools.is_value(inputs[1]) and inputs[1].program
    or refuse("operation %s is applied to a %s, not to a value", name, type(inputs[1]))
  local ids <const> = ids_of({name = name}, "operand", p, inputs, #inputs)
  tools.place(p)
  local first <const>, count <const> = tools.checked(p.core:own(own, ids, list))
  local results = {}
  for i = 1, count do results[i] = tools.wrap(p, first + i - 1) end -- they follow each other
  return table.unpack(results)
end

---- gradients by differences -----------------------------------------------------------------------------------------

---Inputs as given, {tensor, dims...} or a tensor: names, dims behind the rows, and tensors of the reference device.
local function operands_of(inputs)
  local all = {}
  for i, given in ipairs(inputs) do
    local x <const> = type(given) == "table" and given[1] or given
    local dims = type(given) == "table" and {table.unpack(given, 2)} or {}
    local index <const> = x:type() == "i32"
    if #dims == 0 and not (index and x:columns() == 1) then dims = {x:columns()} end
    all[i] = {name = "x" .. i, dims = dims, index = index, tensor = index and x or x:convert "f64"}
  end
  return all
end

---A program whose loss is the sum of f's elements, each times a number of its own.
local function checked_program(f, operands)
  local dims, batched
  local net <const> = tools.trace("check_gradient", function(p)
    local values = {}
    for i, x in ipairs(operands) do
      values[i] = x.index and p:index(x.name, table.unpack(x.dims)) or p:input(x.name, table.unpack(x.dims))
    end
    local y <const> = f(table.unpack(values))
    if not tools.is_value(y) then refuse("check_gradient: the function returns a %s, not a value", type(y)) end
    dims, batched = y:dims()
    if not batched then refuse("check_gradient: the function returns %s, not rows of the batch", tostring(y)) end
    p:loss(y * p:input("weights", table.unpack(dims)))
  end, {inputs = true})
  local width = 1
  for _, n in ipairs(dims) do width = width * n end
  return net, width
end

---Compares the gradients of a function of values with central differences in float64, at some elements of each input.
---Raises where one differs by more than 1e-6 of the input's largest gradient, where the same call gives other bits, or
---where all elements lie at kinks. `f` is an nn.operation or any function of values.
---@param f function
---@param inputs table[] tensors of equally many rows, or {tensor, dims...} for dims behind the rows; i32: an index
---@param o? {samples?: integer, tolerance?: number} samples: elements of each input (20); tolerance: 1e-6
---@return {checked: integer, skipped: integer, worst: number} worst: difference over the input's largest gradient
function nn.check_gradient(f, inputs, o)
  o = o or {}
  package.check_fields("T0903", "nn.check_gradient", o, {samples = true, tolerance = true})
  local operands <const> = operands_of(inputs)
  local net <const>, width <const> = checked_program(f, operands)
  local m <const>, batch = net:compile {device = "reference"}, {}
  local rows <const> = operands[1] and operands[1].tensor:rows() or 0
  for _, x in ipairs(operands) do batch[x.name] = x.tensor end
  local rng <const> = tide.random(7)
  batch.weights = tensor.zeros("f64", rows, width)
  for i = 1, rows * width do batch.weights[i] = rng:uniform() + 0.5 end
  local function loss() return m:backward(batch).loss end

  local first <const>, gradients, most = loss(), {}, {}
  for i, x in ipairs(operands) do
    gradients[i] = not x.index and m.train:output("d:" .. x.name) or nil
    most[i] = 0
    for e = 1, gradients[i] and #gradients[i] or 0 do most[i] = math.max(most[i], math.abs(gradients[i][e])) end
  end
  local result = {checked = 0, skipped = 0, worst = 0}
  for i, x in ipairs(operands) do
    local g <const>, n <const> = gradients[i], #x.tensor
    for e = 1, g and n or 0, math.max(1, n // (o.samples or 20)) do
      local old <const> = x.tensor[e]
      local h <const> = 1e-5 * math.max(1, math.abs(old))
      x.tensor[e] = old + h
      local up <const> = loss()
      x.tensor[e] = old - h
      local down <const> = loss()
      x.tensor[e] = old
      local slope <const>, left <const>, right <const> = (up - down) / (2 * h), (first - down) / h, (up - first) / h
      if math.abs(left - right) > 1e-2 * (math.abs(slope) + most[i]) + 1e-7 then -- a kink
        result.skipped = result.skipped + 1
      else
        local off <const> = math.abs(g[e] - slope)
        if off ~= off or off > (o.tolerance or 1e-6) * most[i] + 1e-8 then
          local why <const> = "operand %d, element %d: backward gives %.9g, differences %.9g"
          error(package.error("T0903", why:format(i, e, g[e], slope), {
            where = tools.caller(), help = ("the largest gradient of the operand is %.3g"):format(most[i])}), 0)
        end
        result.checked, result.worst = result.checked + 1, math.max(result.worst, most[i] > 0 and off / most[i] or 0)
      end
    end
  end
  if loss() ~= first then refuse("the same call gives two results") end
  batch.rows = 0
  m:backward(batch)
  if result.checked == 0 then
    refuse("no element was compared, %d lie at kinks", result.skipped)
  end
  return result
end

return {nn = nn, derive = derive, of_module = of_module, use = function(given) tools = given end}
