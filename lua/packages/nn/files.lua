-- Parameters (and rows of tables) of a program as safetensors or .npz, by their names: the files of model:save,
-- model:load and program:save.
local formats = require "tide.formats"
local package = require "tide.package"

local files = {}

local RUNNING <const> = "running statistics" -- of batch normalisation, and buffers; no parameter is called so

---@param program tide.nn.program
---@param parameters table tensor keys x 1024
---@param states table tensor of running statistics
---@param rows table<string, table> tensors of tables outside of the parameters, by their names
---@param path string
function files.save(program, parameters, states, rows, path)
  local layout <const> = program:layout()
  local tensors = {}
  for _, p in ipairs(layout.parameters) do tensors[p.name] = parameters:view(p.first + 1, p.rows, p.columns) end
  for _, b in ipairs(program.buffers) do tensors[b.name] = states:view(b.first + 1, b.rows, b.columns) end
  for name, t in pairs(rows) do tensors[name] = t end
  if layout.states > 0 then tensors[RUNNING] = states:view(1, layout.states, 1) end
  local ok, err
  if path:find "%.npz$" then
    ok, err = formats.write_arrays(path, tensors)
  else
    ok, err = formats.write_safetensors(path, tensors, {["tide.program"] = program.name, ["tide.id"] = program:id()})
  end
  if not ok then error(package.error_from(err), 3) end
end

---Sets the parameters of a model to the tensors of a file with the same names; raises if one is missing or of another
---shape.
---@param model tide.nn.model
---@param path string of any writer
function files.load(model, path)
  local tensors, err = formats.arrays(path)
  if not tensors then error(err, 3) end
  local layout <const> = model.layout
  local function fetch(name, rows, columns)
    local t <const> = tensors[name]
    if not t then
      error(package.error("T0401", ("there is no tensor `%s` for the parameter of this name"):format(name), {
        where = path, help = "there are: " .. table.concat(package.sorted_keys(tensors), ", ")}), 4)
    end
    if #t ~= rows * columns or (columns > 1 and t:columns() ~= columns) then
      error(package.error("T0402", ("`%s` is %d x %d, the parameter %d x %d"):format(name, t:rows(), t:columns(), rows,
        columns), {where = path}), 4)
    end
    return t:convert(model.parameters:type()):view(1, rows, columns)
  end
  local found = {}
  for i, p in ipairs(layout.parameters) do found[i] = fetch(p.name, p.rows, p.columns) end
  local rows = {}
  for i, t in ipairs(model.tables) do rows[i] = fetch(t.name, t.array:rows(), t.width) end
  for i, t in ipairs(model.tables) do t.array:put(1, rows[i]) end
  for i, p in ipairs(layout.parameters) do model.parameters:view(p.first + 1, p.rows, p.columns):put(1, found[i]) end
  if layout.states > 0 and tensors[RUNNING] then
    model.states:view(1, layout.states, 1):put(1, fetch(RUNNING, layout.states, 1))
  end
  for _, b in ipairs(model.program.buffers) do
    if tensors[b.name] then
      model.states:view(b.first + 1, b.rows, b.columns):put(1, fetch(b.name, b.rows, b.columns))
    end
  end
  model:give()
  if model.average then model:follow(0, 0) end
end

return files
