-- tide.nn: programs of tensor operations that read like their formulas. A function runs once with symbolic values and
-- leaves a list of operations behind (print(program)), which is differentiated and planned once and run by native
-- kernels. docs/guides/programs.md is the guide.
local compute = require "tide.compute"
local package = require "tide.package"
local ranges = require "tide.nn.ranges"
local tensor = require "tide.tensor"

local nn = {}

---@class tide.nn.value symbolic: has operators and methods, no numbers
---@field program tide.nn.program
---@field id integer
local value = {}
value.__index = value

---@class tide.nn.program
local program = {}
program.__index = program

---The line of the script that called tide.nn: the first one outside of it.
local function caller()
  for level = 2, 40 do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    if info.currentline > 0 and not info.short_src:find("tide/nn", 1, true) then
      return ("%s:%d"):format(info.short_src, info.currentline)
    end
  end
  return ""
end

local function refuse(message, ...)
  error(package.error("T0903", message:format(...), {where = caller()}), 0)
end

---The error of a C function: its place becomes the error's.
local function checked(result, err, ...)
  if result ~= nil then return result, err, ... end
  local where, rest = err.message:match("^(.-:%d+): (.*)$")
  error(package.error("T0903", rest or err.message, {where = where or caller()}), 0)
end

local function is_value(v) return getmetatable(v) == value end

---The options `o` of `what`; raises if one of them is unknown.
local function known_options(what, o, known)
  for key in pairs(o or {}) do
    if not known[key] then
      refuse("%s has no option `%s`: %s", what, tostring(key), table.concat(package.sorted_keys(known), ", "))
    end
  end
  return o or {}
end

local function whole(what, n)
  if math.type(n) ~= "integer" or n < 1 then refuse("%s is %s, not a positive integer", what, tostring(n)) end
  return n
end

---x, which has to be a number of that range.
local function bounded(what, x, range)
  local problem <const> = ranges.problem(x, range)
  if problem then refuse("%s is %s", what, problem) end
  return x
end

local function wrap(p, id) return setmetatable({program = p, id = id}, value) end

---Attributes the operations that follow in the list to the layer being made, if any, and to this line.
local function place(p)
  local layer = p.layer
  p.core:place(layer and layer.kind or "", layer and layer.name or "", layer and layer.at or caller())
end

---- values ----------------------------------------------------------------------------------------------------------

local function operand(p, v)
  if is_value(v) then
    if v.program ~= p then refuse("a value of program %s is used in program %s", v.program.name, p.name) end
    local inside <const> = p.tracing -- of an operation of one's own
    if inside and v.id < inside.first and not inside.known[v.id] then
      refuse("operation %s reads a value from outside: make it an operand", inside.name)
    end
    return v.id
  end
  if type(v) ~= "number" then refuse("a symbolic value cannot be combined with a %s", type(v)) end
  return v + 0.0
end

local function apply(p, operation, inputs, attributes)
  local ids, last = {}, 0
  for i in pairs(inputs) do last = math.max(last, i) end
  for i = 1, last do
    local v <const> = inputs[i]
    if not is_value(v) then refuse("operand %d of %s is a %s, not a value of the program", i, operation, type(v)) end
    ids[i] = operand(p, v)
  end
  place(p)
  return wrap(p, checked(p.core:apply(operation, ids, attributes or {})))
end

local function reshaped(v, dims)
  place(v.program)
  return wrap(v.program, checked(v.program.core:reshape(v.id, dims)))
end

---Dims of all together, aligned at the last as NumPy does; nil: they do not fit.
local function together(shapes)
  local dims, rank = {}, 0
  for _, s in pairs(shapes) do rank = math.max(rank, #s.dims) end
  for axis = 1, rank do
    dims[axis] = 1
    for _, s in pairs(shapes) do
      local own <const> = s.dims[#s.dims - rank + axis] or 1
      if own ~= 1 and dims[axis] ~= 1 and own ~= dims[axis] then return nil end
      dims[axis] = math.max(dims[axis], own)
    end
  end
  return dims
end

---Whether an operand fits as it is: equal dims, a vector of the last dim, or a last dim of 1 and the others equal.
local function is_plain(s, dims, batched)
  local leading = #s.dims == #dims
  for i = 1, #dims - 1 do leading = leading and s.dims[i] == dims[i] end
  local vector <const> = not s.batched and #s.dims == 1 and s.dims[1] == dims[#dims]
  return vector or (s.batched == batched and leading and (s.dims[#dims] == dims[#dims] or s.dims[#dims] == 1))
end

---Repeats axes of 1 of the operands to the dims of the others. Values of constant size lie along the last axes of those
---of the batch, as rows: these axes become one, and the second result has the dims of the result.
local function broadcast(operands)
  local shapes, batched, plain = {}, false, true
  for i, v in pairs(operands) do
    if is_value(v) then
      local dims <const>, own <const> = v:dims()
      shapes[i] = {dims = dims, batched = own}
      batched = batched or own
    end
  end
  local dims <const> = together(shapes)
  for _, s in pairs(shapes) do plain = plain and dims and is_plain(s, dims, batched) end
  if plain or not dims then return operands end
  local rows = 0 -- axes that constants have, of which there is more than one
  for _, s in pairs(shapes) do
    if batched and not s.batched then rows = math.max(rows, #s.dims) end
  end
  local made, flat = {}, {}
  for i = 1, rows > 1 and #dims - rows or 0 do flat[i] = dims[i] end
  local width = 1
  for i = #dims - rows + 1, rows > 1 and #dims or 0 do width = width * dims[i] end
  if rows > 1 then flat[#flat + 1] = width end
  for i, v in pairs(operands) do
    made[i] = v
    local s <const> = shapes[i]
    if s then
      local first <const> = batched and not s.batched and #dims - rows or 0
      local own = {}
      for axis = first + 1, #dims do own[axis - first] = s.dims[#s.dims - #dims + axis] or 1 end
      if #own ~= #s.dims then v = reshaped(v, own) end
      for axis = 1, #own do
        if own[axis] ~= dims[axis + first] and not (rows < 2 and axis + first == #dims and s.batched == batched) then
          v = apply(v.program, "expand", {v}, {first = axis - 1, count = dims[axis + first]})
        end
      end
      made[i] = rows > 1 and reshaped(v, s.batched and flat or {width}) or v
    end
  end
  return made, rows > 1 and dims or nil
end

local function map(micro, ...)
  local given <const> = {...}
  local p
  for i = 1, 3 do p = p or is_value(given[i]) and given[i].program end
  for _, v in pairs(given) do operand(p, v) end
  local made <const>, dims <const> = broadcast(given)
  place(p)
  local a <const>, b <const>, c <const> = made[1], made[2], made[3]
  local v <const> = wrap(p, checked(p.core:map(micro, operand(p, a), b and operand(p, b), c and operand(p, c))))
  return dims and reshaped(v, dims) or v
end

function value.__add(a, b) return map("add", a, b) end
function value.__sub(a, b) return map("sub", a, b) end
function value.__mul(a, b) return map("mul", a, b) end
function value.__div(a, b) return map("div", a, b) end
function value.__unm(a) return map("neg", a) end

local function compared(a, b)
  refuse("symbolic values %s have no order while the program is built; use :max, :gt or nn.select",
    tostring(is_value(a) and a or b))
end
value.__lt, value.__le = compared, compared

function value:__tostring()
  return ("value %s of program %s"):format((self.program.core:shape(self.id)), self.program.name)
end

for _, micro in ipairs {"abs", "sqr", "sqrt", "rsqrt", "recip", "exp", "log", "log1p", "sigmoid", "tanh", "relu",
                        "softplus", "sign", "erf"} do
  value[micro] = function(self) return map(micro, self) end
  nn[micro] = function(x) -- a function of a value, or a layer of nn.sequential
    if x == nil then return function(v) return map(micro, v) end end
    return map(micro, x)
  end
end
for _, micro in ipairs {"min", "max", "eq", "gt", "ge"} do
  value[micro] = function(self, other) return map(micro, self, other) end
end

---Where condition is not 0 the first, else the second.
function nn.select(condition, a, b) return map("select", condition, a, b) end

---Its dimensions behind the batch.
---@return integer[] dims without the batch
---@return boolean batched
function value:dims()
  local _, dims, batched = self.program.core:shape(self.id)
  return dims, batched
end

---The number of channels: the last dim.
function value:columns()
  local dims = self:dims()
  return dims[#dims] or 1
end

---Matrix product over the last dim; o.tb: by the transposed.
function value:mm(other, o) return apply(self.program, "mm", {self, other}, o) end
---Products of matrices in pairs.
function value:bmm(other, o) return apply(self.program, "bmm", {self, other}, o) end
---Rows by index, of each example its own: of [B x n x c] by [B x m] to [B x m x c], of [B x n] to [B x m]. Index 0 is
---the first row, -1 gives zeros. A value of constant size is a table that all examples read.
---@param index tide.nn.value
function value:gather(index) return apply(self.program, "embed", {self, index}) end
---Rows added up where an index says, in their order: of [B x m x c] by [B x m] to [B x n x c]. -1: nowhere.
---@param index tide.nn.value
---@param n integer rows of the result
function value:scatter_add(index, n)
  whole("the rows of scatter_add", n)
  return apply(self.program, "embed_dw", {self, index}, {n = n})
end
---Columns first .. first + count - 1, from 1.
function value:slice(first, count)
  return apply(self.program, "slice", {self}, {first = first - 1, count = count})
end
---Columns of another value behind its own.
function value:concat(other) return apply(self.program, "concat", {self, other}) end
---Softmax of each row.
function value:softmax() return apply(self.program, "softmax", {self}) end
---Sums over the columns ("rows"), over the rows ("columns"), or over an axis behind the batch, from 1, which goes.
---@param over "rows"|"columns"|integer
function value:sum(over)
  local dims <const> = self:dims()
  if math.type(over) == "integer" and dims[over] then
    local sums <const> = apply(self.program, "reduce", {self}, {first = over - 1})
    table.remove(dims, over)
    return #dims > 0 and sums:reshape(table.unpack(dims)) or sums
  end
  if over ~= "rows" and over ~= "columns" then
    refuse("sum requires \"rows\" (one number a row), \"columns\", or an axis of %s behind the batch", tostring(self))
  end
  return apply(self.program, over == "rows" and "row_sums" or "column_sums", {self})
end
---The same elements under other dims (without the batch).
function value:reshape(...) return reshaped(self, {...}) end

---- programs --------------------------------------------------------------------------------------------------------

-- Fields of a batch that say which rows of its tensors count.
local function check_input(name)
  if name == "rows" or name == "first" or name == "count" then
    refuse("an input cannot be called %q: a batch has a field of that name", name)
  end
end

---An input of numbers: `p:input("x", 28, 28, 1)`, behind B, the examples of a batch.
---@param name string
function program:input(name, ...)
  check_input(name)
  place(self)
  self.inputs[#self.inputs + 1] = name
  return wrap(self, checked(self.core:input(name, "f32", {...})))
end

---Integers: labels, ids of an embedding.
function program:index(name, ...)
  check_input(name)
  place(self)
  self.inputs[#self.inputs + 1] = name
  return wrap(self, checked(self.core:input(name, "index", {...})))
end

local INITIAL <const> = {zero = true, uniform = true, normal = true, constant = true}

---The kind and the number of initial values.
local function initial(name, init)
  local kind <const> = type(init) == "table" and init[1]
  if not INITIAL[kind] then refuse("%s: initial values are zero, constant, uniform or normal", name) end
  if kind == "uniform" and init[2] ~= -init[3] then refuse("%s: low and high must be symmetric", name) end
  local number <const> = kind == "uniform" and init[3] or kind == "zero" and 0 or init[2]
  return kind == "zero" and "constant" or kind, number
end

---A parameter: `p:param("W", {784, 10})`.
---@param dims integer[]
---@param init? table tide.zero(), tide.uniform{low=, high=} (symmetric), tide.normal{std=}; {"constant", x}
function program:param(name, dims, init)
  if self.tracing then refuse("operation %s: make parameter %s an operand", self.tracing.name, tostring(name)) end
  local kind, number = initial("parameter " .. name, init or {"zero"})
  place(self)
  return wrap(self, checked(self.core:parameter(name, dims, kind, number)))
end

local function buffer(self, name, dims, kind, number, constant)
  local first <const> = self.core:layout().states
  local columns <const>, count = dims[#dims] or 1, 1
  for _, n in ipairs(dims) do count = count * n end
  place(self)
  local v <const> = wrap(self, checked(self.core:state(name, dims, kind, number)))
  self.buffers[#self.buffers + 1] = {name = name, first = first, rows = count // columns, columns = columns,
    tensor = constant}
  return v
end

---Numbers that are not trained: `p:buffer("mean", {4})`. Checkpoints and files of the model have them under their name;
---`model:buffer(name)` reads and sets them.
---@param name string
---@param dims integer[]
---@param init? table as of a parameter
function program:buffer(name, dims, init)
  local kind, number = initial("buffer " .. name, init or {"zero"})
  return buffer(self, name, dims, kind, number)
end

---The numbers of a tensor, as they are now: `p:constant(features)` is [rows x columns], of one row [columns].
---@param numbers table tensor
---@param name? string
function program:constant(numbers, name)
  if type(numbers) ~= "userdata" then refuse("p:constant requires a tensor, not a %s", type(numbers)) end
  local rows <const>, columns <const> = numbers:rows(), numbers:columns()
  self.counts.constant = (self.counts.constant or 0) + 1
  return buffer(self, name or "constant" .. self.counts.constant, rows == 1 and {columns} or {rows, columns},
    "constant", 0, numbers:copy())
end

---Names a value that `model:forward` returns.
function program:output(name, v)
  operand(self, v)
  checked(self.core:output(name, v.id))
  self.outputs[#self.outputs + 1] = name
end

---Sets the value to minimise: a loss of nn.xent and the like, or any value, whose elements are summed.
function program:loss(v)
  if not v.is_loss then apply(self, "sum_loss", {v}) end
end

function program:__tostring() return self.core:print() end
---Its layers as a table: the shape of each result, and the number of parameters.
---@return string text
function program:summary() return require("tide.nn.inspection").summary(self) end
---Its operations as a graph for Graphviz.
function program:dot() return self.core:dot() end
---A hash of what is computed.
---@return string hash; equal for programs that compute the same
function program:id()
  local id <const>, all = self.core:id(), {}
  for _, b in ipairs(self.buffers) do
    if b.tensor then all[#all + 1] = compute.sha256(b.tensor) end
  end
  return #all == 0 and id or compute.sha256(id .. table.concat(all)):sub(1, #id)
end
---The places of parameters and states: {keys, states, parameters, layers}.
---@return table layout of parameters: {keys=, parameters=, layers=}
function program:layout() return self.core:layout() end

---Writes the parameters of a run of nn.job by their names, as safetensors or `.npz`; with `average` their moving
---averages.
---`net:save(run, "net.safetensors")`; `model:load` of a compiled program reads it.
---@param run tide.run
---@param path string
function program:save(run, path)
  local params <const>, states <const> = run.tables.params, run.tables.states
  if not (params and states) then refuse("program:save requires a run of nn.job") end
  local function all(handle) return handle:pull(tensor.zeros("u64", handle.spec.keys[2], 1):fill(0, 1)) end
  local rows = {}
  for _, t in ipairs(self.vertex and self:tables() or {}) do
    local handle <const> = run.tables[require("tide.nn.shared_rows").cluster_name(t.name)]
    if not handle then refuse("the run has no table for %q: is it of this program?", t.name) end
    rows[t.name] = all(handle)
  end
  require("tide.nn.files").save(self, all(run.tables.average or params), all(states), rows, path)
end

local COMPILE <const> = {device = true, optimizer = true, clip = true, average = true, nan = true,
                         seed = true, mask_seed = true,
                         per = true, tables = true, rows = true, memory = true}

---@class tide.nn.compile
---@field optimizer? table an update rule, like nn.adamw {lr = 1e-3}
---@field clip? number bound on the norm of the mean gradient
---@field average? number evaluations use the moving average of the parameters, e = average e + (1 - average) w
---@field nan? string "stop" (default): a loss or gradient that is not finite ends training with an error that names the
---operation; "skip": such a step changes nothing, and its result has `skipped`
---@field device? string "cpu" (default), "reference" (float64) or "cuda"
---@field seed? integer of initial values and dropout
---@field tables? table<string, table> of programs of vertices: {"adagrad", lr =} and the like by name
---@field per? string of programs of vertices: "row" (counted vertices, default) or "sample": the divisor
---@field memory? integer|string of programs of vertices: bytes, or "64MiB", for values of a batch; a larger batch is
---cut into pieces, whose gradients add up

---A model: the program with parameters, an update rule and a device.
---@param o? tide.nn.compile
function program:compile(o)
  if o ~= nil then package.check_fields("T0903", "program:compile", o, COMPILE) end
  return require("tide.nn.model").new(self, o or {})
end

-- Runs `build` on a new program, without differentiating it.
local function trace(name, build)
  local p = setmetatable({name = name, core = compute.program(name), counts = {}, inputs = {}, outputs = {},
    buffers = {},                          vectors = {}, groups = {}, shown = {}}, program)
  build(p)
  p.layer = nil
  return p
end

local own_operations <const> = require "tide.nn.operation"

---A program of tensor operations: `build(p)` runs once, with symbolic values.
---@param name string
---@param build fun(p: tide.nn.program) declares inputs, values, outputs and loss; runs once
---@param o? {inputs?: boolean} inputs: gradients(batch) has those of the float inputs, too: g:input "x"
---@return tide.nn.program
function nn.program(name, build, o)
  if o ~= nil then package.check_fields("T0903", "nn.program", o, {inputs = true}) end
  local p = trace(name, build)
  p.of_inputs = o and o.inputs or false
  checked(p.core:differentiate(p.of_inputs, function(...) return own_operations.derive(p, ...) end))
  return p
end

---- layers ----------------------------------------------------------------------------------------------------------

local layer = {}
layer.__index = layer

---Applies the layer: declares its parameters in the program of x. A layer that is used again shares them.
function layer:__call(x)
  local p = is_value(x) and x.program or refuse("%s is applied to a %s, not to a value", self.kind, type(x))
  local own = self.made[p]
  if not own then
    own = {kind = self.kind, at = self.at, name = self.name}
    if not own.name then
      p.counts[self.prefix] = (p.counts[self.prefix] or 0) + 1
      own.name = self.prefix .. p.counts[self.prefix]
    end
    own.param = function(what, dims, init)
      local key <const> = own.name .. "." .. what
      own[key] = own[key] or p:param(key, dims, init)
      return own[key]
    end
    own.state = function(what, dims, number)
      local key <const> = own.name .. "." .. what
      own[key] = own[key] or wrap(p, checked(p.core:state(key, dims, "constant", number)))
      return own[key]
    end
    self.made[p] = own
  end
  local outer = p.layer
  p.layer = own
  place(p)
  local result = self.build(p, x, own)
  p.layer = outer
  if is_value(result) then
    p.shown[#p.shown + 1] = {name = own.name, kind = own.kind, shape = (p.core:shape(result.id))}
  end
  return result
end

---A layer of one's own: build(program, x, layer) declares parameters by layer.param(what, dims, init).
---@param kind string named in errors
---@param prefix string of its name, which is numbered
---@param build function
---@param name? string in place of prefix and number
function nn.layer(kind, prefix, build, name)
  return setmetatable({kind = kind, prefix = prefix, build = build, name = name, at = caller(),
                       made = setmetatable({}, {__mode = "k"})}, layer)
end

local function uniform(bound) return {"uniform", -bound, bound} end

local LAYER_OPTIONS <const> = {name = true, bias = true, stride = true, pad = true, eps = true, rate = true}
local function options(o)
  for key in pairs(o or {}) do
    if not LAYER_OPTIONS[key] then
      refuse("layer option `%s` is not known; %s", tostring(key),
        package.did_you_mean(tostring(key), LAYER_OPTIONS) or "see docs/guides/programs.md")
    end
  end
  return o or {}
end

local function places(what, o)
  if o.stride ~= nil then whole("the stride of " .. what, o.stride) end
  if o.pad ~= nil and o.pad ~= 0 then whole("the pad of " .. what, o.pad) end
end

---y = x W + b
---@param n integer outputs
---@param o? {bias?: boolean, name?: string}
function nn.linear(n, o)
  o = options(o)
  whole("the size of a linear layer", n)
  return nn.layer("linear", "fc", function(_, x, own)
    local k = x:columns()
    local y = x:mm(own.param("w", {k, n}, uniform(math.sqrt(6 / (k + n)))))
    return o.bias == false and y or y + own.param("b", {n})
  end, o.name)
end

---Convolution of NHWC images.
---@param n integer output channels
---@param k integer height and width of the window
---@param o? {stride?: integer, pad?: integer, bias?: boolean, name?: string} pad: k // 2 unless given
function nn.conv(n, k, o)
  o = options(o)
  whole("the channels of a convolution", n)
  whole("the window of a convolution", k)
  places("a convolution", o)
  return nn.layer("conv", "conv", function(p, x, own)
    local fan_in = k * k * x:columns()
    local y = apply(p, "conv", {x, own.param("w", {fan_in, n}, uniform(math.sqrt(6 / fan_in)))},
      {kh = k, kw = k, stride = o.stride or 1, pad = o.pad or k // 2})
    return o.bias == false and y or y + own.param("b", {n})
  end, o.name)
end

---Layer: each column with mean 0 and variance 1 over the batch, then scaled and shifted by parameters.
---@param o? {eps?: number, rate?: number, name?: string} rate: of the running statistics
function nn.batchnorm(o)
  o = options(o)
  local eps <const> = bounded("eps of batchnorm", o.eps or 1e-5, "rate")
  local rate <const> = bounded("rate of batchnorm", o.rate or 0.1, "part")
  return nn.layer("batchnorm", "bn", function(p, x, own)
    local c = x:columns()
    return apply(p, "batchnorm", {x, own.param("gamma", {c}, {"constant", 1}), own.param("beta", {c}),
      own.state("mean", {c}, 0), own.state("var", {c}, 1)}, {eps = eps, rate = rate})
  end, o.name)
end

---Layer: each row with mean 0 and variance 1, then scaled and shifted by parameters.
---@param o? {eps?: number, name?: string}
function nn.layernorm(o)
  o = options(o)
  local eps <const> = bounded("eps of layernorm", o.eps or 1e-5, "rate")
  return nn.layer("layernorm", "ln", function(p, x, own)
    local c = x:columns()
    return apply(p, "layernorm", {x, own.param("gamma", {c}, {"constant", 1}), own.param("beta", {c})},
      {eps = eps})
  end, o.name)
end

---Rows of a table by ids: [B] or [B x k] of an index to [.. x width].
---@param n integer rows of the table
---@param width integer
function nn.embedding(n, width, o)
  o = options(o)
  whole("the rows of an embedding", n)
  whole("the width of an embedding", width)
  return nn.layer("embedding", "embed", function(p, x, own)
    return apply(p, "embed", {own.param("w", {n, width}, uniform(0.1)), x})
  end, o.name)
end

local function pool(operation, k, o)
  o = options(o)
  whole("the window of a pool", k)
  places("a pool", o)
  return nn.layer(operation, operation, function(p, x)
    return apply(p, operation, {x}, {kh = k, kw = k, stride = o.stride or k, pad = o.pad or 0})
  end, o.name)
end

---Layer: the greatest of each k x k window.
---@param k integer window and, unless given, stride
function nn.maxpool(k, o) return pool("maxpool", k, o) end
---Layer: the mean of each k x k window.
function nn.avgpool(k, o) return pool("avgpool", k, o) end

---The mean over all pixels of an image.
function nn.mean_pixels(x)
  if x == nil then return nn.mean_pixels end
  return apply(x.program, "mean_pixels", {x})
end

---Images as rows.
function nn.flatten(x)
  if x == nil then return nn.flatten end
  local n = 1
  for _, dim in ipairs((x:dims())) do n = n * dim end
  return x:reshape(n)
end

---Layer: sets a share of the elements to 0 in training and scales the rest up.
---@param share number of elements that become 0 in training
function nn.dropout(share)
  bounded("the share of dropout", share, "share")
  return nn.layer("dropout", "dropout", function(p, x) return apply(p, "dropout", {x}, {keep = 1 - share}) end)
end

---- losses ----------------------------------------------------------------------------------------------------------

local REAL <const> = setmetatable({}, {__mode = "k"}) -- losses of nn.sequential whose targets are numbers

local function loss(operation)
  return function(z, target)
    if z == nil then
      local function made(a, b) return nn[operation](a, b) end
      REAL[made] = true
      return made
    end
    local made = apply(z.program, operation, {z, target})
    made.is_loss = true
    return made
  end
end

local XENT <const> = {weights = true, smoothing = true}

---Softmax and cross-entropy with labels 0 .. K-1, one a row: of [B x T x K] they are [B x T]. Rows of label -1 do not
---count. `weights`, one a row, multiply losses, and the count by which sums are divided; a row of weight 0 does not
---count, whatever is in it. `smoothing` = e: the label's share is 1 - e, all classes share e.
---@param z? tide.nn.value one column a class; without z and labels a loss for nn.sequential
---@param labels? tide.nn.value
---@param o? {weights?: tide.nn.value, smoothing?: number}
function nn.xent(z, labels, o)
  if not is_value(z) then
    local given <const> = z
    return function(a, b) return nn.xent(a, b, given) end
  end
  o = known_options("nn.xent", o, XENT)
  local made <const> = apply(z.program, "xent", {z, labels, o.weights}, {smoothing = o.smoothing})
  made.is_loss = true
  return made
end
---Logistic loss, each column with its target in 0..1.
---@param z? tide.nn.value without it a loss for nn.sequential
---@param target? tide.nn.value
nn.sigmoid_xent = loss "sigmoid_xent"
---Half the squared distance.
---@param z? tide.nn.value without it a loss for nn.sequential
---@param target? tide.nn.value
nn.mse = loss "mse"
---max(0, 1 - z t), t = -1 or 1.
---@param z? tide.nn.value without it a loss for nn.sequential
---@param target? tide.nn.value
nn.hinge = loss "hinge"

local SEQUENTIAL <const> = {input = true, label = true, loss = true, name = true}

---A net of layers in a row: inputs "x" and "y", output "logits". `y` is a label a row of nn.xent(), and of the other
---losses as many numbers a row as the last layer gives.
---@param o table {input = dims, label? = "index"|dims, loss = nn.xent(), name?, layer, layer, ...}
---@return tide.nn.program
function nn.sequential(o)
  for key in pairs(type(o) == "table" and o or {}) do
    if math.type(key) ~= "integer" and not SEQUENTIAL[key] then
      refuse("nn.sequential has no field `%s`: input, label, loss, name, and the layers", tostring(key))
    end
  end
  if type(o) ~= "table" or type(o.input) ~= "table" or type(o.loss) ~= "function" then
    refuse("nn.sequential requires input = {dims} and loss = nn.xent() or another")
  end
  return nn.program(o.name or "net", function(p)
    local x = p:input("x", table.unpack(o.input))
    local y
    if o.label and o.label ~= "index" then
      y = p:input("y", table.unpack(o.label))
    elseif o.label or not REAL[o.loss] then
      y = p:index "y"
    end
    for i, f in ipairs(o) do
      if type(f) ~= "function" and getmetatable(f) ~= layer then refuse("layer %d is a %s", i, type(f)) end
      x = f(x)
    end
    p:output("logits", x)
    p:loss(o.loss(x, y or p:input("y", table.unpack((x:dims())))))
  end)
end

---- update rules ----------------------------------------------------------------------------------------------------

local tools <const> = {wrap = wrap, checked = checked, place = place, refuse = refuse, operand = operand, whole = whole,
                       bounded = bounded, apply = apply, initial = initial, trace = nn.program, formula = trace,
                       is_value = is_value,
                       caller = caller, known_options = known_options, layer = nn.layer, map = map}
local rules <const> = require "tide.nn.rules"
rules.install(nn, tools)

---@alias tide.nn.rate number|fun(step: integer, params: table): number

---Plain gradient descent: w -= lr g. In all rules g is the mean gradient plus `decay` times the weights of matrices.
---`lr` may be a function of the step's number and the job's params: `run:set` then changes it during the run.
---@param o {lr: tide.nn.rate, decay?: number}
nn.sgd = rules.sgd
---v = mu v + g, w -= lr v.
---@param o {lr: tide.nn.rate, decay?: number, mu?: number} mu: 0.9
nn.momentum = rules.momentum
---v = mu v + g, w -= lr (g + mu v).
---@param o {lr: tide.nn.rate, decay?: number, mu?: number} mu: 0.9
nn.nesterov = rules.nesterov
---a += g g, w -= lr g / (sqrt(a) + eps).
---@param o {lr: tide.nn.rate, decay?: number, eps?: number} eps: 1e-10
nn.adagrad = rules.adagrad
---a = mu a + (1 - mu) g g, w -= lr g / (sqrt(a) + eps).
---@param o {lr: tide.nn.rate, decay?: number, mu?: number, eps?: number} mu: 0.99, eps: 1e-8
nn.rmsprop = rules.rmsprop
---Adam with corrected bias; `mu` is beta1.
---@param o {lr: tide.nn.rate, decay?: number, mu?: number, beta2?: number, eps?: number} mu: 0.9,
---  beta2: 0.999, eps: 1e-8
nn.adam = rules.adam
---Adam whose decay acts apart from the gradient: w -= lr decay w.
---@param o {lr: tide.nn.rate, decay?: number, mu?: number, beta2?: number, eps?: number} as adam
nn.adamw = rules.adamw
---Lion (arXiv 2302.06675): w -= lr (sign(beta1 m + (1 - beta1) g) + decay w), m = beta2 m + (1 - beta2) g. Its rate is
---3 to 10 times smaller than AdamW's, its decay as many times larger.
---@param o {lr: tide.nn.rate, decay?: number, beta1?: number, beta2?: number} beta1: 0.9, beta2: 0.99
nn.lion = rules.lion
---LAMB (arXiv 1904.00962): Adam's step of each parameter, made as long as the parameter.
---@param o {lr: tide.nn.rate, decay?: number, beta1?: number, beta2?: number, eps?: number} beta1: 0.9, beta2: 0.999,
---  eps: 1e-6
nn.lamb = rules.lamb
---Adafactor (arXiv 1804.04235) without momentum: a matrix has one number a row and one a column as its state. `lr` is
---relative to a parameter's size, by default min(0.01, 1 / sqrt(step)).
---@param o? {lr?: tide.nn.rate, decay?: number, eps?: number, clip?: number, power?: number} eps: 1e-3, the least size;
---  clip: 1; power: -0.8
nn.adafactor = rules.adafactor
---Muon (github.com/KellerJordan/Muon) for hidden matrices: the momentum, made nearly orthogonal. The last matrix,
---embeddings and vectors have the rule `rest`.
---@param o {lr: tide.nn.rate, decay?: number, mu?: number, rest?: table, rest_lr?: number,
---  only?: fun(name: string, rows: integer, columns: integer): boolean} mu: 0.95; rest: nn.adamw {lr = rest_lr,
---  beta2 = 0.95}, rest_lr 3e-4; only: which matrices are Muon's
nn.muon = rules.muon

---@class tide.nn.own_rule
---@field name string checkpoints keep it
---@field version? integer checkpoints keep it: another version's states are refused
---@field lr tide.nn.rate
---@field decay? number s.decay of matrices
---@field state? table names of what the rule remembers; with per = "parameter" also {NAME, per = "row"|"column"}
---@field per? string "element" (default): values are of one element; "parameter": of all s.rows x s.columns, as a row
---@field numbers? fun(t: integer, rate: number): table further numbers of step t by name, computed in float64
---@field step fun(s: table): table of s.w, s.g (the mean gradient), states, s.rate, s.t and numbers: {w =, STATE =}
---@field normalised? boolean the step does not grow with the gradient, as Adam's

---An update rule of one's own: a formula of symbolic values, traced once a shape.
---@param o tide.nn.own_rule
---@return table optimizer
function nn.optimizer(o) return rules.own(o) end

---Another update rule for each parameter: `nn.each(function(p) return p.rows > 1 and nn.muon {...} or nn.adamw {...}
---end)`; p is {name, rows, columns, count, number}. Make the rules outside of the function: a rule has one program.
---@param rule fun(p: table): table
---@return table optimizer
function nn.each(rule)
  if type(rule) ~= "function" then refuse("nn.each requires a function of a parameter, not a %s", type(rule)) end
  return {each = rule}
end

local COUNTS <const> = {every = true, steps = true}

-- A schedule whose first `required` arguments are needed, and all are numbers.
local function schedule(form, required, make)
  local names <const> = {}
  for name in form:match("%((.*)%)"):gmatch "%a+" do names[#names + 1] = name end
  return function(...)
    for i = 1, math.max(#names, select("#", ...)) do
      local given <const> = select(i, ...)
      if i > #names or type(given) ~= "number" and (i <= required or given ~= nil) then
        refuse("nn.schedule.%s of numbers; argument %d is a %s", form, i, type(given))
      end
      if given then
        bounded(("nn.schedule.%s: %s"):format(form, names[i]), given, COUNTS[names[i]] and "size" or "rate")
      end
    end
    return make(...)
  end
end

---Rates as functions of the step's number, from 1: `constant(rate)`, `step(rate, every, factor)`, `cosine(rate, steps,
---low)`, `linear(rate, steps, low)`, `inverse(rate, decay)`, `warmup(steps, schedule)`.
nn.schedule = {
  constant = schedule("constant(rate)", 1, function(rate) return function() return rate end end),
  step = schedule("step(rate, every, factor)", 3, function(rate, every, factor)
    return function(t) return rate * factor ^ ((t - 1) // every) end
  end),
  cosine = schedule("cosine(rate, steps, low)", 2, function(rate, steps, low)
    return function(t)
      local part = math.min(t - 1, steps) / steps
      return (low or 0) + (rate - (low or 0)) * (1 + math.cos(math.pi * part)) / 2
    end
  end),
  linear = schedule("linear(rate, steps, low)", 2, function(rate, steps, low)
    return function(t) return rate + ((low or 0) - rate) * math.min(t - 1, steps) / steps end
  end),
  inverse = schedule("inverse(rate, decay)", 2, function(rate, decay)
    return function(t) return rate / (1 + decay * (t - 1)) end
  end),
  warmup = function(steps, after)
    if type(steps) ~= "number" or type(after) ~= "function" then
      refuse("nn.schedule.warmup(steps, schedule) of a number and a function of the step; it got a %s and a %s",
        type(steps), type(after))
    end
    bounded("nn.schedule.warmup: steps", steps, "rate")
    return function(t) return after(t) * math.min(1, t / steps) end
  end,
}

---Columns of a value in n equal parts.
---@param x tide.nn.value
---@param n integer
---@return tide.nn.value ...
function nn.split(x, n)
  local columns <const> = x:columns()
  whole("the number of parts", n)
  if columns % n ~= 0 then refuse("%d columns cannot be split in %d equal parts", columns, n) end
  local parts = {}
  for i = 1, n do parts[i] = x:slice((i - 1) * (columns // n) + 1, columns // n) end
  return table.unpack(parts)
end

local sequences <const> = require "tide.nn.sequences"
sequences.use(tools)
own_operations.use(tools)
value.__operation = own_operations.of_module -- tide.kernel.load applies operations of shared objects by it
for name, f in pairs(sequences.nn) do nn[name] = f end
for name, f in pairs(own_operations.nn) do nn[name] = f end
for name, f in pairs(sequences.value) do value[name] = f end

local vertex <const> = require "tide.nn.vertex"
vertex.install(tools, program)

---A program of vertices: one function of a vertex, batches of graphs. See docs/guides/dynamic-networks.md.
---@param name string
---@param build fun(p: tide.nn.program, v: tide.nn.vertex)
---@param o? {children?: integer|string[]} named children
---@return tide.nn.program
function nn.vertex(name, build, o) return vertex.new(name, build, o) end

---A program of vertices of several kinds: a function for each, with the same states. The data have the kind of each
---vertex; without kinds in them, `leaf` is a vertex without children and `inner` one with.
---@param name string
---@param kinds table<string, fun(p: tide.nn.program, v: tide.nn.vertex)>
---@param o? {children?: integer|string[]} named children
---@return tide.nn.program
function nn.vertices(name, kinds, o) return vertex.kinds(name, kinds, o) end

---@class tide.nn.job_fields
---@field name string
---@field program tide.nn.program
---@field data table parts "train.INPUT" and perhaps "test.INPUT", for each input of the program; or a tide.data.forest
---@field batch integer|tide.nn.batch examples of a step, of all workers together
---@field epochs integer
---@field optimizer table an update rule
---@field clip? number bound on the norm of the mean gradient
---@field average? number evaluations use the moving average of the parameters, e = average e + (1 - average) w
---@field nan? string "stop" (default): a loss that is not finite ends the run; "skip": the step changes nothing
---@field watch? boolean reports have statistics of each layer's values, gradients and weights: `fc1.values_std`
---@field seed? integer
---@field exchange? {every: integer, outer?: table, weigh?: string, format?: string} local steps
---@field comm? string|table a policy's name, or {policy =, params =}: how gradients travel, default "comm/hybrid"
---@field batching? string the policy that changes the batch, default "batching/goodput"
---@field device? string of every worker's model
---@field metrics? table<string, fun(outputs: table, batch: table): number, number?> sums over a batch's examples and
---perhaps a count: run:evaluate(name) on the part `test`
---@field validate? string a part, whose loss and metrics are in each epoch's report
---@field stop? table {loss =, time =, metric =, patience =, better =, by =}
---@field checkpoint? table as of tide.job: an epoch is a clock, and a resumed run continues with the next one
---@field params? table the second argument of an `lr` of your own
---@field tables? table of programs of vertices: {"adagrad", lr =, consistency =, replicas =} by name
---@field per? string of programs of vertices: "row" or "sample"
---@field memory? integer|string of programs of vertices: bytes that values of a worker's batch may take

---A job that trains a program on all workers.
---@param o tide.nn.job_fields
---@return tide.job
function nn.job(o) return require("tide.nn.train").job(o) end

return nn
