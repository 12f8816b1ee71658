-- tide.data.dense: examples whose every number counts, from a safetensors file: a matrix, one example a row, and
-- labels.
local arrays = require "tide.data.arrays"
local formats = require "tide.formats"
local package = require "tide.package"
local tensor = require "tide.tensor"

---@class tide.data.dense_rows
---@field x table f32 tensor, one example a row
---@field labels table f32 tensor
---@field columns integer
local dense_rows = {}
dense_rows.__index = dense_rows

---How many examples it has.
---@return integer
function dense_rows:rows() return self.x:rows() end

---Rows first .. first + count - 1 (from 1); shares storage.
---@return tide.data.dense_rows
function dense_rows:slice(first, count)
  return setmetatable({x = self.x:slice(first, count), labels = self.labels:slice(first, count),
                       columns = self.columns}, dense_rows)
end

---The same rows, with numbers of their own in the order.
---@return tide.data.dense_rows
function dense_rows:copy() return dense_rows.slice(self, 1, self:rows()) end

---Puts the rows in an order that depends on the seed alone. Rows that share storage with these stay as they are.
---@param seed integer
function dense_rows:shuffle(seed)
  local order <const> = tensor.zeros("u32", self:rows(), 1)
  for i = 1, #order do order[i] = i - 1 end
  order:shuffle(seed)
  self.x = tensor.zeros("f32", #order, self.columns):pick(self.x, order)
  self.labels = tensor.zeros("f32", #order, 1):pick(self.labels, order)
end

---@return table f32 tensor columns x rows
---@package
function dense_rows:by_column()
  local out <const> = tensor.zeros("f32", self.columns, self:rows())
  package.kernels.dense_columns {from = self.x, to = out}
  return out
end

local function read(path, names)
  local tensors, err = formats.arrays(path, "safetensors")
  if not tensors then return nil, err end
  local part <const> = {}
  for _, key in ipairs {"x", "y"} do
    local t <const> = tensors[names[key]]
    if not t then
      return nil, package.error("T0402", ("there is no tensor `%s`"):format(names[key]), {where = path,
        help = "there are: " .. table.concat(package.sorted_keys(tensors), ", ")})
    end
    part[key], err = arrays.converted(t, "f32", path, names[key])
    if not part[key] then return nil, err end
  end
  local x <const>, y <const> = part.x, part.y
  if #y ~= x:rows() then
    return nil, package.error("T0402", ("%d labels of %d examples"):format(#y, x:rows()), {where = path})
  end
  return {parts = {train = setmetatable({x = x, labels = y:view(1, #y, 1), columns = x:columns()}, dense_rows)},
          columns = x:columns(), count = x:rows(),
          note = ("%s: %d examples, %d columns"):format(path, x:rows(), x:columns())}
end

return function(data)
  ---Dense examples of a safetensors file: a matrix, one example a row, and labels.
  ---@param path string a safetensors file
  ---@param names? {x?: string, y?: string} tensors of the examples, one a row, and of their labels; default "x", "y"
  ---@return tide.data.set columns, part train
  return function(path, names)
    package.check_fields("T0115", "tide.data.dense", names or {}, {x = true, y = true})
    if type(path) ~= "string" then error(package.error("T0113", "tide.data.dense needs a path"), 2) end
    names = {x = names and names.x or "x", y = names and names.y or "y"}
    return data.lazy(function()
      local piped <const> = data.check_pipes {path}
      if piped then return nil, piped end
      return read(path, names)
    end)
  end
end
