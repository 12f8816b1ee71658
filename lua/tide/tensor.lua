-- tide.tensor: typed arrays outside of tables. The arrays themselves are the core's; this adds the constructors.
local array_files = require "tide.array_files"
local core = require "tide.core"
local errors = require "tide.errors"

local tensor = {}

---A tensor of zeros.
---@param type string f32, f64, i32, i64, u64, u8, u32, u16
---@param rows integer
---@param columns? integer
function tensor.zeros(type, rows, columns) return core.tensor(type, rows, columns or 1) end

---A tensor with these values.
---@param type string
---@param values number[] row after row
---@param columns? integer 1
function tensor.from(type, values, columns) return core.tensor(type, values, columns) end

---Rows of all given tensors of one type and width, in order.
---@param parts table[] tensors
---@return table tensor
function tensor.join(parts)
  local first, rows = parts[1], 0
  for _, t in ipairs(parts) do rows = rows + t:rows() end
  local whole = core.tensor(first:type(), rows, first:columns())
  local at = 1
  for _, t in ipairs(parts) do
    whole:put(at, t)
    at = at + t:rows()
  end
  return whole
end

---The f64 tensor that t:split() took apart: split and joined are exact, so f64 numbers can live in tables' f32 rows.
---@param parts table f32 tensor of three numbers an element
---@return table tensor f64
function tensor.joined(parts) return core.joined(parts) end

---Reads what NumPy, safetensors or this module wrote: of .npy a tensor, of .npz and .safetensors tensors by name.
---@param path string
---@return table value raises what cannot be read, with the file and the byte
---@return table<string, string>? about metadata of safetensors
function tensor.load(path)
  local tensors, err, _, about = array_files.read(path)
  if not tensors then error(err, 2) end
  return array_files.format_of(path) == "npy" and tensors.x or tensors, about
end

---Writes a tensor as .npy, .npz, .csv or .safetensors, by the path's ending; several by name as .npz, .safetensors or
---.csv.
---@param path string
---@param value tide.tensor|table<string, tide.tensor>
---@param about? table<string, string> metadata of safetensors
function tensor.save(path, value, about)
  local written, err = array_files.write(path, value, about)
  if not written then error(errors.from(err), 2) end
end

return tensor
