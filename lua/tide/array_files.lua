-- Files of arrays and tables: NumPy's .npy and .npz, .safetensors and .csv, read and written. tide.tensor.load and
-- save, t:load, run:dump and the data sets of tide.data are made of it.
local checks = require "tide.checks"
local core = require "tide.core"
local csv = require "tide.csv"
local errors = require "tide.errors"
local script = require "tide.script"
local text = require "tide.text"

local array_files = {}

local READING <const> = {EPROTO = true, EUNSUPPORTED = true, ELIMIT = true} -- names of the core's errors of readers

---An error of the core's readers, "FILE: line N: what" or "FILE: byte N: what": its place becomes the error's.
function array_files.reader_error(err)
  local converted = errors.from(err)
  local file, line, rest = converted.message:match("^(.-): line (%d+): (.*)$")
  if file then
    local column, behind = rest:match("^column (%d+): (.*)$")
    return errors.new("T0402", {message = behind or rest,
      where = file .. ":" .. line .. (column and ":" .. column or "")})
  end
  local place, what
  if converted.node and READING[converted.name] then -- of the core, which says no place in another way
    place, what = converted.message:match "^(.-: byte %d+): (.*)$"
    if not place then place, what = converted.message:match "^(%S+): (.*)$" end
  end
  if place then return errors.new("T0402", {message = what, where = place}) end
  if (converted.where or ""):find("^tide/") then converted.where, converted.node = nil, nil end
  return converted
end

local READERS <const> = {
  npy = function(path)
    local tensor, dims = core.npy(path)
    if not tensor then return nil, dims end
    return {x = tensor}, {x = dims}
  end,
  npz = core.npz,
  safetensors = function(path)
    local tensors, about, dims, left_out = core.safetensors_read(path)
    if not tensors then return nil, about end
    return tensors, dims, left_out, about
  end,
}

---@param path string
---@return "npy"|"npz"|"safetensors"|"csv"|nil
function array_files.format_of(path)
  local ending <const> = path:gsub("%.gz$", ""):match "%.(%w+)$"
  return (READERS[ending] or ending == "csv") and ending or nil
end

---The arrays of a file, whoever wrote it. Arrays of objects and texts are left out; to ask for one of them is an error.
---@param path string
---@param format? "npy"|"npz"|"safetensors"
---@return table<string, table>|nil tensors, table dims by name, or an error
---@return table<string, string>? left_out why, by name
---@return table<string, string>? about metadata of safetensors
function array_files.read(path, format)
  format = format or array_files.format_of(path)
  local reader <const> = READERS[format]
  if not reader then
    return nil, script.error("T0402", "this ending is none of .npy, .npz, .safetensors", {where = path})
  end
  local tensors, dims, left_out, about = reader(path)
  if not tensors then return nil, array_files.reader_error(dims) end
  local first <const> = left_out and text.sorted_keys(left_out)[1]
  local function unread(name)
    return script.error("T0402", ("array `%s` is not read: %s"):format(name, left_out[name]), {where = path})
  end
  if first and not next(tensors) then return nil, unread(first) end
  if first then
    setmetatable(tensors, {__index = function(_, name) if left_out[name] then error(unread(name), 0) end end})
  end
  return tensors, dims, left_out, about
end

---- saving ----------------------------------------------------------------------------------------------------------

local NPY <const> = {f32 = "<f4", f64 = "<f8", i32 = "<i4", i64 = "<i8", u64 = "<u8", u8 = "|u1", u32 = "<u4",
                     u16 = "<u2"}

-- NumPy's format 1.0: the elements begin at a multiple of 64.
local function npy_text(t)
  local shape <const> = t:columns() == 1 and ("(%d,)"):format(t:rows()) or ("(%d, %d)"):format(t:rows(), t:columns())
  local head = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }"):format(NPY[t:type()], shape)
  head = head .. (" "):rep(-(10 + #head + 1) % 64) .. "\n"
  return "\x93NUMPY\1\0" .. string.pack("<I2", #head) .. head .. t:bytes()
end

local ZIP_MOST <const> = 0xffffffff -- bytes, without the extension for longer archives
local ZIP_DAY <const> = 0x21 -- 1980-01-01: the same tensors are the same file

-- NumPy's .npz: an archive of .npy files, stored as they are.
local function npz_text(tensors, order)
  if #order > 0xffff then return nil, "an .npz holds at most 65535 tensors" end
  local bodies, directory, at = {}, {}, 0
  for _, name in ipairs(order) do
    local body <const>, file <const> = npy_text(tensors[name]), name .. ".npy"
    if at + #body > ZIP_MOST - #order * 1024 then return nil, "an .npz holds 4 GiB at most; .safetensors holds more" end
    if #file > 0xffff then return nil, "a name is too long" end
    local about <const> = string.pack("<I2I2I2I2I2I4I4I4I2I2", 20, 0x800, 0, 0, ZIP_DAY, core.zip_sum(body), #body,
      #body, #file, 0)
    bodies[#bodies + 1] = "PK\3\4" .. about .. file
    bodies[#bodies + 1] = body
    directory[#directory + 1] = "PK\1\2" .. string.pack("<I2", 20) .. about
      .. string.pack("<I2I2I2I4I4", 0, 0, 0, 0, at) .. file
    at = at + 4 + #about + #file + #body
  end
  local list <const> = table.concat(directory)
  return table.concat(bodies) .. list .. "PK\5\6"
    .. string.pack("<I2I2I2I2I4I4I2", 0, 0, #order, #order, #list, at, 0)
end

-- One column of text for each column of the tensors, rows below each other.
local function csv_text(tensors, order)
  local head, columns, rows = {}, {}, nil
  for _, name in ipairs(order) do
    local t <const> = tensors[name]
    if rows and t:rows() ~= rows then
      return nil, ("`%s` has %d rows, `%s` %d"):format(order[1], rows, name, t:rows())
    end
    rows = rows or t:rows()
    for c = 1, t:columns() do
      head[#head + 1] = t:columns() == 1 and name or ("%s%d"):format(name, c)
      columns[#columns + 1] = {t = t, at = c}
    end
  end
  local lines = {csv.line(#head, function(i) return head[i] end)}
  for row = 0, (rows or 0) - 1 do
    lines[#lines + 1] = csv.line(#columns, function(i)
      local c <const> = columns[i]
      return c.t:text(row * c.t:columns() + c.at)
    end)
  end
  return table.concat(lines)
end

---Records as CSV: a column for each field that any of them has.
---@param records table[]
---@param fields? string[]
---@return string
function array_files.records_csv(records, fields)
  if not fields then
    local seen = {}
    for _, r in ipairs(records) do
      for key, v in pairs(r) do
        if type(key) == "string" and (type(v) == "number" or type(v) == "string") then seen[key] = true end
      end
    end
    fields = text.sorted_keys(seen)
  end
  return csv.records(fields, records)
end

---Records as tensors: an f64 column for each field that is a number in any of them, NaN where it is not.
---@param records table[]
---@param fields? string[]
---@return table<string, tide.tensor>
function array_files.records_tensors(records, fields)
  local columns = {}
  local function column(key)
    columns[key] = columns[key] or core.tensor("f64", #records, 1):fill(0 / 0)
    return columns[key]
  end
  for _, key in ipairs(fields or {}) do column(key) end
  for i, r in ipairs(records) do
    for key, v in pairs(r) do
      if type(key) == "string" and type(v) == "number" and (not fields or columns[key]) then column(key)[i] = v end
    end
  end
  return columns
end

---Writes tensors, in the format of the path's ending.
---@param path string .npy, .npz, .csv or .safetensors
---@param value table a tensor, or tensors by name
---@param about? table<string, string> metadata of safetensors
---@return true|nil, table? err
function array_files.write(path, value, about)
  local format <const> = path:match "%.(%w+)$"
  local single <const> = type(value) == "userdata"
  local tensors <const> = single and {x = value} or value
  if format == "npy" then
    if not single then
      return nil, script.error("T0113", ".npy holds one tensor; .npz and .safetensors hold several by name",
        {where = path})
    end
    return core.file_write(path, npy_text(value))
  elseif format == "csv" or format == "npz" then
    local content, why = (format == "csv" and csv_text or npz_text)(tensors, text.sorted_keys(tensors))
    if not content then return nil, script.error("T0113", why, {where = path}) end
    return core.file_write(path, content)
  elseif format == "safetensors" then
    return core.safetensors_write(path, tensors, about)
  end
  return nil, script.error("T0113", "a tensor is written as .npy, .npz, .csv or .safetensors", {where = path})
end

---- into tables -----------------------------------------------------------------------------------------------------

local CHUNK <const> = 16384 -- rows at a time
local LOAD <const> = {tensor = true, keys = true, add = true}

local function misfit(path, format, ...)
  return nil, script.error("T0602", format:format(...), {where = path, state = "the table is as it was"})
end

-- A key of 2^63 or more is a float to Lua.
local function shown(key) return (math.type(key) == "integer" and "%d" or "%.4g"):format(key) end

local function checked(keys, handle, path)
  local kind <const> = keys:type()
  if not kind:find "^[iu]" then
    return nil, script.error("T0402", ("keys are integers, not %s"):format(kind), {where = path})
  end
  if #keys == 0 then return keys end
  local least <const>, most <const> = keys:min(), keys:max()
  if least < 0 then return misfit(path, "key %s is negative", shown(least)) end
  local spec <const> = handle.spec.keys
  if spec[1] == "dense" and most >= spec[2] then
    return misfit(path, "keys %s to %s do not fit table `%s` of keys 0 to %d", shown(least), shown(most), handle.name,
      spec[2] - 1)
  end
  return kind == "u64" and keys or keys:convert "u64"
end

local function keys_of(o, tensors, rows, path)
  local keys <const> = o.keys
  if type(keys) == "userdata" then return keys end
  if type(keys) == "string" and keys ~= "rows" then
    local found <const> = tensors[keys]
    if not found then
      return nil, script.error("T0401", ("there is no tensor `%s` with keys"):format(keys), {where = path,
        help = "there are: " .. table.concat(text.sorted_keys(tensors), ", ")})
    end
    return found
  end
  if keys ~= nil and keys ~= "rows" and math.type(keys) ~= "integer" then
    return nil, script.error("T0113", "`keys` is \"rows\", the name of a tensor, the first key, or a tensor of keys")
  end
  local first <const> = math.type(keys) == "integer" and keys or 0
  if first < 0 or first > math.maxinteger - rows then
    return nil, script.error("T0113", ("`keys` is %d, not a first key from 0 to 2^63 - 1 - rows"):format(first))
  end
  return core.tensor("u64", rows, 1):fill(first, 1)
end

---Rows of a file of any writer into a table: `t:load(path, {tensor =, keys =, add =})`.
---@param handle table
---@param path string .npy, .npz or .safetensors
---@param o table
---@return true|nil, table? err
function array_files.into(handle, path, o)
  checks.known("T0115", "t:load", o, LOAD)
  if o.add ~= nil and type(o.add) ~= "boolean" then
    return nil, script.error("T0113", "`add` of t:load is true or false")
  end
  local tensors, err = array_files.read(path)
  if not tensors then return nil, err end
  local name = o.tensor or array_files.format_of(path) == "npy" and "x" or nil
  if not name then
    return nil, script.error("T0113", "t:load requires `tensor`: which one has the rows", {where = path,
      help = "there are: " .. table.concat(text.sorted_keys(tensors), ", ")})
  end
  local rows = tensors[name]
  if not rows then
    return nil, script.error("T0401", ("there is no tensor `%s`"):format(tostring(name)), {where = path,
      help = "there are: " .. table.concat(text.sorted_keys(tensors), ", ")})
  end
  if rows:columns() ~= handle.width then
    return nil, script.error("T0402", ("`%s` has rows of %d numbers, table `%s` of %d"):format(name, rows:columns(),
      handle.name, handle.width), {where = path})
  end
  local keys
  keys, err = keys_of(o, tensors, rows:rows(), path)
  if not keys then return nil, err end
  if #keys ~= rows:rows() then
    return nil, script.error("T0402", ("%d keys for %d rows"):format(#keys, rows:rows()), {where = path})
  end
  keys, err = checked(keys, handle, path)
  if not keys then return nil, err end
  rows = rows:type() == "f32" and rows or rows:convert "f32" -- all of them, before the first one changes a row
  local apply <const> = o.add and handle.push or handle.assign
  for first = 1, rows:rows(), CHUNK do
    local count <const> = math.min(CHUNK, rows:rows() - first + 1)
    apply(handle, keys:view(first, count, 1), rows:slice(first, count))
  end
  return true
end

return array_files
