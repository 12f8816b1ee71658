-- tide.data.dense: examples whose every number counts, from a safetensors file: a matrix, one example a row, and
-- labels.
local core = require "tide.core"
local script = require "tide.script"

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
  local order <const> = core.tensor("u32", self:rows(), 1)
  for i = 1, #order do order[i] = i - 1 end
  order:shuffle(seed)
  self.x = core.tensor("f32", #order, self.columns):pick(self.x, order)
  self.labels = core.tensor("f32", #order, 1):pick(self.labels, order)
end

---@return table f32 tensor columns x rows
---@package
function dense_rows:by_column()
  local out <const> = core.tensor("f32", self.columns, self:rows())
  core.kernel "dense_columns" {from = self.x, to = out}
  return out
end

local ELEMENT <const> = {F32 = "f", F64 = "d"}
local BYTES <const> = {F32 = 4, F64 = 8}

---A tensor of a safetensors file whose bytes are `text`, as f32.
local function tensor_of(path, text, header, behind, name)
  local entry <const> = header[name]
  if type(entry) ~= "table" or name == "__metadata__" then
    local names = {}
    for key in pairs(header) do names[#names + 1] = key end
    table.sort(names)
    return nil, ("%s has no tensor `%s`; there are: %s"):format(path, name, table.concat(names, ", "))
  end
  local size <const>, shape <const>, at <const> = BYTES[entry.dtype], entry.shape, entry.data_offsets
  if not size then return nil, ("tensor `%s` is %s; F32 or F64 is read"):format(name, tostring(entry.dtype)) end
  if type(shape) ~= "table" or #shape < 1 or #shape > 2 or type(at) ~= "table" then
    return nil, ("tensor `%s` is no vector or matrix"):format(name)
  end
  local rows <const>, columns <const> = shape[1], shape[2] or 1
  if at[2] - at[1] ~= rows * columns * size or behind + at[2] > #text then
    return nil, ("tensor `%s` is cut off"):format(name)
  end
  local bytes <const> = text:sub(behind + at[1] + 1, behind + at[2])
  if entry.dtype == "F32" then -- as it travels in a message: an extension of this type
    local head = string.pack(">BI4B", 0xC9, #bytes, 1)
    local whole = core.decode(head .. bytes)
    return whole:view(1, rows, columns)
  end
  local out <const> = core.tensor("f32", rows, columns)
  for i = 1, rows * columns do out[i] = string.unpack("<" .. ELEMENT.F64, bytes, (i - 1) * size + 1) end
  return out
end

local function read(path, names)
  local text, err = core.file_read(path)
  if not text then return nil, err end
  if #text < 8 then return nil, script.error("T0402", path .. " is no safetensors file") end
  local length <const> = string.unpack("<I8", text)
  local header = length > 0 and length <= #text - 8 and core.json_decode(text:sub(9, 8 + length))
  if type(header) ~= "table" then return nil, script.error("T0402", path .. " is no safetensors file") end
  local x, why = tensor_of(path, text, header, 8 + length, names.x)
  if not x then return nil, script.error("T0402", why, {where = path}) end
  local y
  y, why = tensor_of(path, text, header, 8 + length, names.y)
  if not y then return nil, script.error("T0402", why, {where = path}) end
  if #y ~= x:rows() then
    return nil, script.error("T0402", ("%d labels of %d examples"):format(#y, x:rows()), {where = path})
  end
  local part <const> = setmetatable({x = x, labels = y:view(1, #y, 1), columns = x:columns()}, dense_rows)
  return {parts = {train = part}, columns = x:columns(), count = x:rows(),
          note = ("%s: %d examples, %d columns"):format(path, x:rows(), x:columns())}
end

return function(data)
  ---Dense examples of a safetensors file: a matrix, one example a row, and labels.
  ---@param path string a safetensors file
  ---@param names? {x?: string, y?: string} tensors of the examples, one a row, and of their labels; default "x", "y"
  ---@return tide.data.set columns, part train
  return function(path, names)
    script.check_fields("T0113", "tide.data.dense", names or {}, {x = true, y = true})
    if type(path) ~= "string" then error(script.error("T0113", "tide.data.dense needs a path"), 2) end
    names = {x = names and names.x or "x", y = names and names.y or "y"}
    return data.lazy(function() return read(path, names) end)
  end
end
