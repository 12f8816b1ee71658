-- Gradients of a batch, or of several added up, apart from the model that made them: sums over the examples.
local compute = require "tide.compute"
local package = require "tide.package"
local tensor = require "tide.tensor"

local KEY <const> = 1024
local COUNTED <const> = {"loss", "count", "correct", "samples", "vertices", "edges"}
local FIELDS <const> = {}
for _, name in ipairs(COUNTED) do FIELDS[name] = true end

---@class tide.nn.gradients
---@field loss number summed over the examples, as are all of them; `g["fc1.w"]` is a parameter's gradient, a tensor
---that shares storage
---@field count number of examples
---@field correct number
---@field flat table tensor of all parameters, in rows of 1024, as program:layout() says
local gradients = {}

local function get(self, name)
  if gradients[name] ~= nil then return gradients[name] end
  for _, p in ipairs(rawget(self, "layout").parameters) do
    if p.name == name then return self.flat:view(p.first + 1, p.rows, p.columns) end
  end
  if FIELDS[name] then return nil end
  local names = {}
  for _, p in ipairs(rawget(self, "layout").parameters) do names[p.name] = true end
  error(package.error("T0903", ("the program has no parameter `%s`"):format(tostring(name)),
    {help = package.did_you_mean(tostring(name), names)}), 2)
end

local metatable <const> = {__index = get}

---@package
function gradients.take(model, r)
  local self = {layout = model.layout, host = model.device == "reference" and "reference" or "cpu", rows = {}}
  for _, name in ipairs(COUNTED) do self[name] = r[name] end
  if not model.staged then compute.fetch(model.on.gradients, model.summed) end
  self.flat = model.summed:copy()
  if model.program.of_inputs then
    self.of_inputs = {}
    for _, name in ipairs(model.program.inputs) do
      local ok <const>, made <const> = pcall(model.train.output, model.train, "d:" .. name)
      self.of_inputs[name] = ok and made or nil
    end
  end
  for i, t in ipairs(model.tables) do
    compute.fetch(t.on.gradients, t.gradients)
    self.rows[i] = {ids = t.ids:copy(), values = t.gradients:slice(1, #t.ids):copy()}
  end
  return setmetatable(self, metatable)
end

-- Rows of a table of both, each once.
local function union(a, b)
  local place, ids = {}, {}
  for _, each in ipairs {a, b} do
    for i = 1, #each.ids do
      local id <const> = each.ids[i]
      if not place[id] then
        ids[#ids + 1] = id
        place[id] = #ids
      end
    end
  end
  local made <const> = {ids = tensor.zeros("u64", #ids, 1),
                        values = tensor.zeros(a.values:type(), #ids, a.values:columns())}
  for i, id in ipairs(ids) do made.ids[i] = id end
  for _, each in ipairs {a, b} do
    for i = 1, #each.ids do made.values:slice(place[each.ids[i]], 1):add(each.values:slice(i, 1)) end
  end
  return made
end

---Adds the gradients of another batch: sums and counts, so `update` divides by all examples. Gradients of inputs stay
---those of this batch.
---@param other tide.nn.gradients of the same model
---@return tide.nn.gradients itself
function gradients:add(other)
  if getmetatable(other) ~= metatable or other.layout.keys ~= self.layout.keys then
    error(package.error("T0903", "add requires the result of gradients(batch) of the same program"), 2)
  end
  self.flat:add(other.flat)
  for i, rows in ipairs(other.rows) do self.rows[i] = union(self.rows[i], rows) end
  for _, name in ipairs(COUNTED) do self[name] = self[name] and self[name] + (other[name] or 0) end
  return self
end

local function sum_of_squares(self)
  local squares = compute.norm2(self.host, 0, self.layout.keys * KEY, self.flat)
  for _, rows in ipairs(self.rows) do squares = squares + compute.norm2(self.host, 0, #rows.values, rows.values) end
  return squares
end

---The gradient of a float input of the batch, a row an example: of a program made with {inputs = true}.
---@param name string
---@return table tensor
function gradients:input(name)
  local made <const> = rawget(self, "of_inputs") and self.of_inputs[name]
  if made then return made end
  error(package.error("T0903", ("there is no gradient of an input %q"):format(tostring(name)),
    {help = "nn.program(name, build, {inputs = true}) makes those of float inputs that a loss depends on"}), 2)
end

---The norm of the mean gradient, rows of tables included.
---@return number
function gradients:norm() return math.sqrt(sum_of_squares(self)) / math.max(self.count, 1) end

---Multiplies all gradients.
---@param factor number
---@return tide.nn.gradients itself
function gradients:scale(factor)
  self.flat:mul(factor)
  for _, rows in ipairs(self.rows) do rows.values:mul(factor) end
  for _, values in pairs(rawget(self, "of_inputs") or {}) do values:mul(factor) end
  return self
end

---Copies the gradients to the arrays that a model's update rules read.
---@return table r as of a step
---@return table[] tables of these rows
---@package
function gradients:give(model)
  if model.staged or model.on.gradients == model.summed then
    model.summed:put(1, self.flat)
  else
    compute.give(model.on.gradients, self.flat)
  end
  local tables = {}
  for i, t in ipairs(model.tables) do
    local rows <const> = self.rows[i]
    tables[i] = setmetatable({ids = rows.ids, gradients = rows.values, on = {gradients = rows.values}}, {__index = t})
  end
  return self, tables
end

return gradients
