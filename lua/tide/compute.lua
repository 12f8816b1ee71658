-- tide.compute: what a package that trains models computes with: devices and arrays on them, update rules, programs of
-- operations, and the exchange of gradients among workers. tide.nn is made of it; most scripts use tide.nn itself.
-- Elements count from 0, rows of tensors, ranks, layers and steps from 1.
local core = require "tide.core"

local compute = {}

---- devices ---------------------------------------------------------------------------------------------------------

---Whether there is a device of this name: "cpu", "cuda", "reference" (float64, for tests), "reference32".
---@param name string
---@return true|nil found, table? err
function compute.device(name) return core.device(name) end

---What operations on a device take in place of a tensor: the tensor itself, or a copy in the device's own memory.
---@param device string
---@param tensor tide.tensor
---@return table place
function compute.place(device, tensor) return core.place(device, tensor) end

---Copies a tensor to its place; nothing where the place is the tensor.
---@param place table
---@param tensor tide.tensor
function compute.give(place, tensor) core.give(place, tensor) end

---Copies a place to its tensor; nothing where the place is the tensor.
---@param place table
---@param tensor tide.tensor
function compute.fetch(place, tensor) core.fetch(place, tensor) end

---The sum of the squares of elements of a place.
---@param device string
---@param first integer
---@param count integer
---@param x table place
---@return number
function compute.norm2(device, first, count, x) return core.norm2(device, first, count, x) end

---Statistics of elements of an f32 or f64 tensor: count, bad (not finite), zeros, and of the finite ones mean, std,
---least, greatest.
---@param x tide.tensor
---@param first integer
---@param count integer
---@return table<string, number>
function compute.statistics(x, first, count) return core.statistics(x, first, count) end

---- update rules ----------------------------------------------------------------------------------------------------

---Applies an update rule to the elements first .. first + count - 1 of places on a device.
---@param device string
---@param rule {rule: string, rate: number, scale?: number, decay?: number, mu?: number, beta2?: number, eps?: number,
---  step?: integer} rule: "sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam" and kin
---@param first integer
---@param count integer
---@param w table place of the parameters
---@param g table place of the gradients
---@param a? table place of what the rule remembers
---@param b? table the second one
function compute.update(device, rule, first, count, w, g, a, b) core.update(device, rule, first, count, w, g, a, b) end

---Applies an update rule of tables to some rows of a tensor.
---@param rule {rule: string, rate: number, scale?: number, eps?: number, beta2?: number}
---@param array tide.tensor
---@param state tide.tensor|nil what the rule remembers, a row for each of the array
---@param ids tide.tensor u64
---@param gradients tide.tensor a row for each id
function compute.rows_update(rule, array, state, ids, gradients)
  return core.rows_update(rule, array, state, ids, gradients)
end

---Copies rows of a tensor: row i of `into` becomes row ids[i] of the array.
---@param into tide.tensor
---@param array tide.tensor
---@param ids tide.tensor u64
function compute.rows_get(into, array, ids) core.rows_get(into, array, ids) end

---Puts rows into a tensor: row ids[i] of the array becomes row i of `from`.
---@param array tide.tensor
---@param ids tide.tensor u64
---@param from tide.tensor
function compute.rows_put(array, ids, from) core.rows_put(array, ids, from) end

---Multiplies a tensor by a number.
---@param array tide.tensor
---@param factor number
function compute.rows_scale(array, factor) core.rows_scale(array, factor) end

---- programs and the exchange ----------------------------------------------------------------------------------------

---A program of operations: `p:input`, `p:parameter`, `p:apply`, `p:map`, `p:output` build it and return a value's
---number, `p:differentiate` adds the gradients, `p:plan(device, "train")` makes a run of it.
---@param name string
---@return table program
function compute.program(name) return core.program(name) end

---The exchange of gradients among the workers of a job: `x:connect(addresses)`, `x:ready(layer, step)`,
---`x:share(step, numbers)`, `x:sums(step)`, `x:need(layer, step, ...)`, `x:stats()`, `x:close()`.
---@param o {rank: integer, workers: integer, elements: integer, layers: table[], under_way?: integer} layers:
---  {first=, count=, matrices={{parameter=, first=, rows=, columns=}}}
---@return table|nil exchange, table? err
function compute.exchange(o) return core.exchange(o) end

---Calls a function as a span of this fiber, which `tide stacks` and traces name.
---@param name string
---@param f function
---@param ... any its arguments
---@return any ... what it returns
function compute.span(name, f, ...) return core.span(name, f, ...) end

---A short digest of a tensor, equal for equal bytes: to compare replicas.
---@param tensor tide.tensor
---@return string hexadecimal
function compute.digest(tensor) return core.digest(tensor) end

---SHA-256 of a text, or of a value of numbers, texts, tensors and tables of them.
---@param value any
---@return string hexadecimal
function compute.sha256(value) return core.sha256(type(value) == "string" and value or core.encode(value)) end

return compute
