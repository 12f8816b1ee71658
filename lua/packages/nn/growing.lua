-- Graphs that grow while they are computed: computed values decide which vertices follow (shift-reduce parsers, beams).
-- All vertices that are ready are computed together, over all samples. Losses, gradients and the update follow at the
-- end, over all of them.
local package = require "tide.package"
local tensor = require "tide.tensor"

---@class tide.nn.growing
local growing = {}
growing.__index = growing

local function checked(result, err, ...)
  if result == nil then error(package.error("T0903", err.message), 3) end
  return result, err, ...
end

---A run whose values keep their places, so that rows can be added; its tables are bound whole.
local function new_run(model, train)
  local run = checked(model.program.core:plan(model.device, train and "train" or "evaluate", model.seed, true))
  local read <const> = not train and model.average or model.on.parameters
  run:bind(read, train and model.on.gradients or nil, model.on.states)
  local gradients = {}
  for i, t in ipairs(model.tables) do
    if not t.array then
      error(package.error("T0903", "graphs grow on a model with tables of its own, not in a job"), 0)
    end
    gradients[i] = train and tensor.zeros(t.float, t.array:rows(), t.width) or nil
    run:bind_table(i, t.array, gradients[i], t.array:rows())
  end
  return {run = run, gradients = gradients}
end

---@param model table tide.nn.model of a program of vertices, on the CPU
---@param o {vertices?: integer, train?: boolean} room to begin with; train = false: no gradients
---@return tide.nn.growing
function growing.new(model, o)
  for key in pairs(o) do
    if key ~= "vertices" and key ~= "train" then
      error(package.error("T0903", ("grow has no option `%s`"):format(tostring(key))), 0)
    end
  end
  if not model.program.vertex then
    error(package.error("T0903", "only programs of vertices grow (nn.vertex)"), 0)
  end
  local train <const> = o.train ~= false
  local kind <const> = train and "growing_train" or "growing_eval"
  model[kind] = model[kind] or new_run(model, train)
  local self = setmetatable({model = model, own = model[kind], train = train, samples = {}}, growing)
  self.index = {}
  for name, value in pairs(model.program.vertex.inputs) do self.index[name] = value.is_index or false end
  checked(self.own.run:grow(o.vertices))
  return self
end

---Adds a vertex; it is computed by the next step.
---@param children integer[] vertices that were added before
---@param inputs? table<string, integer|number|number[]> without one: -1, or zeros
---@return integer its number
function growing:add(children, inputs)
  return checked(self.own.run:grow_add(children, inputs or {}, self.index))
end

---Computes all vertices that were added since the last step.
---@param output? string
---@return table|nil tensor the output, a row a vertex
---@return integer[] the vertices
function growing:step(output)
  local ids, z = checked(self.own.run:grow_step(self.model.steps, output))
  return z, ids
end

---Sets a label.
---@param vertex integer
---@param label integer
---@param name? string the index; "label" without it
function growing:label(vertex, label, name)
  checked(self.own.run:grow_label(vertex, name or "label", label))
end

---Computes the losses over all vertices and, in training, makes the update. Then the graphs are dropped.
---@param samples? integer that per = "sample" divides by
---@return table {loss = sum, count =, correct =}
function growing:finish(samples)
  local model <const> = self.model
  model.steps = model.steps + (self.train and 1 or 0)
  local sum, count, correct = checked(self.own.run:grow_finish(model.steps))
  local r <const> = {loss = sum, count = count, correct = correct, samples = samples}
  if self.train then
    local changed = {}
    for i, t in ipairs(model.tables) do -- the same rows, with gradients of their own
      local gradients <const> = self.own.gradients[i]
      changed[i] = setmetatable({ids = self.own.run:table_ids(i), gradients = gradients, on = {gradients = gradients}},
        {__index = t})
    end
    model.folding = false
    model:apply(r, changed)
  end
  return r
end

return growing
