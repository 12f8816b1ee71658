-- tide.data.npy, npz, safetensors, csv: arrays and tables of other programs as data sets. Every array is an input by
-- its name, with one example a row: parts "train.NAME", and "test.NAME" with a split. nn.job and w.data:part take them.
local core = require "tide.core"
local csv = require "tide.csv"
local script = require "tide.script"
local text = require "tide.text"

local arrays = {}

local OPTIONS <const> = {names = true, split = true, wide = true}
local NARROW <const> = {f64 = "f32", i64 = "i32", u64 = "i32", u32 = "i32", u16 = "i32"}

local function refuse(what, message, help)
  error(script.error("T0113", ("%s: %s"):format(what, message), {help = help}), 3)
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
function arrays.format_of(path)
  local ending <const> = path:gsub("%.gz$", ""):match "%.(%w+)$"
  return (READERS[ending] or ending == "csv") and ending or nil
end

---The arrays of a file, whoever wrote it. Arrays of objects and texts are left out; to ask for one of them is an error.
---@param path string
---@param format? "npy"|"npz"|"safetensors"
---@return table<string, table>|nil tensors, table dims by name, or an error
---@return table<string, string>? left_out why, by name
---@return table<string, string>? about metadata of safetensors
function arrays.read(path, format)
  format = format or arrays.format_of(path)
  local reader <const> = READERS[format]
  if not reader then
    return nil, script.error("T0402", "this ending is none of .npy, .npz, .safetensors", {where = path})
  end
  local tensors, dims, left_out, about = reader(path)
  if not tensors then return nil, require("tide.data").reader_error(dims) end
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

local function check_split(what, split)
  if split == nil then return nil end
  script.check_fields("T0113", what .. "'s `split`", split, {test = true, seed = true})
  if type(split.test) ~= "number" or split.test <= 0 or split.test >= 1 then
    refuse(what, "`split.test` is a share of the examples, between 0 and 1")
  end
  return split
end

---Numbers as another type; an error names the array and the row of what does not fit.
---@param help? string
---@return table|nil tensor, table? err
function arrays.converted(tensor, to, path, name, help)
  if tensor:type() == to then return tensor end
  local ok, made = pcall(tensor.convert, tensor, to)
  if ok then return made end
  return nil, script.error("T0402", ("`%s`: %s"):format(name, (tostring(made):gsub("^.-:%d+: ", ""))),
    {where = path, help = help})
end

-- 64-bit numbers as nets and kernels take them.
local function narrowed(tensor, to, path, name)
  return arrays.converted(tensor, to, path, name,
    "`wide = true` keeps 64 bits, which a script can scale with t:mul and narrow with t:convert")
end

-- The data set of tensors with one example a row.
local function parts_of(tensors, o, from)
  local count, first
  local parts = {}
  for _, name in ipairs(text.sorted_keys(tensors)) do
    local t <const> = tensors[name]
    if count and t:rows() ~= count then
      return nil, script.error("T0402", ("`%s` has %d rows, `%s` %d: an example is a row of each"):format(first, count,
        name, t:rows()), {where = from, help = "`names = {x = \"...\", y = \"...\"}` says which ones are examples"})
    end
    count, first = count or t:rows(), first or name
  end
  if not count then return nil, script.error("T0402", "there is no array in it", {where = from}) end
  local held <const> = o.split and math.floor(count * o.split.test) or 0
  if o.split and (held == 0 or held == count) then
    return nil, script.error("T0402", ("a split of %g leaves a part of %d examples empty"):format(o.split.test, count),
      {where = from})
  end
  local order <const> = held > 0 and require("tide.data").order(count, o.split.seed or 1)
  for name, t in pairs(tensors) do
    if order then
      parts["test." .. name] = t:gather(order:slice(1, held))
      parts["train." .. name] = t:gather(order:slice(held + 1, count - held))
    else
      parts["train." .. name] = t
    end
  end
  return parts, count - held, held
end

local function described(tensors, from, train, held)
  local list = {}
  for i, name in ipairs(text.sorted_keys(tensors)) do
    list[i] = ("%s %s x %d"):format(name, tensors[name]:type(), tensors[name]:columns())
  end
  return ("%s: %d examples to train on, %d held out: %s"):format(from, train, held, table.concat(list, ", "))
end

-- Which arrays of which files: {name = {path, name in the file}}.
local function wanted(what, where, o)
  if type(where) == "string" then return {[""] = where} end
  if type(where) ~= "table" or next(where) == nil then refuse(what, "requires a path, or {x = path, y = path}") end
  if o.names then refuse(what, "`names` is for a file with several arrays") end
  for name, path in pairs(where) do
    if type(name) ~= "string" or type(path) ~= "string" then
      refuse(what, "requires a path, or {x = path, y = path}")
    end
  end
  return where
end

local function read_all(format, files, o)
  local tensors, dims, without = {}, {}, {}
  for _, name in ipairs(text.sorted_keys(files)) do
    local found, shapes, left_out = arrays.read(files[name], format)
    if not found then return nil, shapes end
    local names = o.names
    for key, why in pairs(not names and left_out or {}) do
      without[#without + 1] = ("; `%s` is left out: %s"):format(key, why)
    end
    if not names then
      names = {}
      for key in pairs(found) do names[name ~= "" and name or key] = key end
    end
    for own, key in pairs(names) do
      if not found[key] then
        return nil, script.error("T0401", ("there is no array `%s`"):format(tostring(key)), {where = files[name],
          help = "there are: " .. table.concat(text.sorted_keys(found), ", ")})
      end
      local t, err = found[key], nil
      if not o.wide then t, err = narrowed(t, NARROW[t:type()] or t:type(), files[name], key) end
      if not t then return nil, err end
      tensors[own] = t
      dims[own] = table.move(shapes[key], 2, #shapes[key], 1, {})
    end
  end
  table.sort(without)
  return tensors, dims, table.concat(without)
end

local function reader_of(data, format)
  local what <const> = "tide.data." .. format
  return function(where, o)
    o = o or {}
    script.check_fields("T0113", what, o, OPTIONS)
    check_split(what, o.split)
    local files <const> = wanted(what, where, o)
    return data.lazy(function()
      local paths = {}
      for _, path in pairs(files) do paths[#paths + 1] = path end
      local piped <const> = data.check_pipes(paths)
      if piped then return nil, piped end
      local tensors, dims, without = read_all(format, files, o)
      if not tensors then return nil, dims end
      local from <const> = files[""] or paths[1]
      local parts, count, held = parts_of(tensors, o, from)
      if not parts then return nil, count end
      return {parts = parts, count = count, dims = dims, note = described(tensors, from, count, held) .. without}
    end)
  end
end

---- csv -------------------------------------------------------------------------------------------------------------

local CSV <const> = {columns = "table", inputs = "table", separator = "string", decimal = "string", header = "boolean",
                     missing = "number", split = "table", wide = "boolean"}

local function check_csv(o)
  for key, value in pairs(o) do
    if not CSV[key] then
      refuse("tide.data.csv", ("option `%s` is not known"):format(tostring(key)),
        text.did_you_mean(tostring(key), text.sorted_keys(CSV)))
    elseif type(value) ~= CSV[key] then
      refuse("tide.data.csv", ("option `%s` is a %s, not a %s"):format(key, type(value), CSV[key]))
    end
  end
  for name, kind in pairs(o.columns or {}) do
    local known = false
    for _, each in ipairs {"number", "integer", "class", "text", "skip"} do known = known or kind == each end
    if type(name) ~= "string" or not known then
      refuse("tide.data.csv", ("column `%s` is `%s`; there are number, integer, class, text, skip"):format(
        tostring(name), tostring(kind)))
    end
  end
  for _, key in ipairs {"separator", "decimal"} do
    if o[key] and #o[key] ~= 1 then refuse("tide.data.csv", ("`%s` is one character"):format(key)) end
  end
  if o.decimal and o.decimal ~= "," and o.decimal ~= "." then
    refuse("tide.data.csv", "`decimal` is \".\" or \",\": what stands before the fraction of a number")
  end
  if o.separator and o.separator == (o.decimal or ".") then
    refuse("tide.data.csv", "`separator` and `decimal` are the same character")
  end
  check_split("tide.data.csv", o.split)
end

-- Columns that a group names: "label", {"a", "b"}, or "*": all numbers that no other group has.
local function members_of(group, columns, taken, path)
  local list = {}
  if group == "*" then
    for _, c in ipairs(columns) do
      if c.type == "number" and not taken[c.name] then list[#list + 1] = c end
    end
    if #list == 0 then return nil, script.error("T0401", "no column of numbers is left for `*`", {where = path}) end
    return list
  end
  for _, name in ipairs(type(group) == "table" and group or {group}) do
    local found
    for _, c in ipairs(columns) do found = c.name == name and c or found end
    if not found or found.type == "text" then
      return nil, script.error("T0401", ("there is no column `%s` of numbers or classes"):format(tostring(name)),
        {where = path, help = "`columns = {NAME = \"class\"}` makes classes of a text"})
    end
    list[#list + 1] = found
  end
  return list
end

-- Columns side by side as one tensor: classes alone are i32 as labels are, all else f32; or wider ones.
local function joined(list, wide, path)
  local only <const> = #list == 1 and list[1]
  if only and (wide or only.type ~= "number") then
    if wide and only.type ~= "class" then return only.values end
    return narrowed(only.values, "i32", path, only.name)
  end
  local type <const> = wide and "f64" or "f32"
  local across = core.tensor(type, #list, list[1].values:rows())
  for i, c in ipairs(list) do
    local values <const>, err = narrowed(c.values, type, path, c.name)
    if not values then return nil, err end
    across:put(i, values:view(1, 1, #values))
  end
  return only and across:view(1, #across, 1) or across:transpose()
end

local SEPARATORS <const> = {["\t"] = "TAB", [" "] = "blanks"}

-- What a reader should know of how a table was read.
local function remarks(columns, form)
  local counts = {{form.blank_lines, "empty lines are left out"}}
  local list = {"separated by " .. (SEPARATORS[form.separator] or "`" .. form.separator .. "`")}
  local numbers = 0
  for _, c in ipairs(columns) do
    numbers = numbers + (tonumber(c.name) and 1 or 0)
    if c.classes then list[#list + 1] = ("%s has %d classes"):format(c.name, #c.classes) end
    counts[#counts + 1] = {c.absent, ("cells of %s have no value"):format(c.name)}
    counts[#counts + 1] = {c.not_finite, ("cells of %s are nan or infinite"):format(c.name)}
  end
  counts[#counts + 1] = {numbers, "names of columns look like numbers (`header = false`: line 1 is a row)"}
  return " (" .. table.concat(list, ", ") .. ")" .. require("tide.data").oddities(counts)
end

local function read_csv(path, o)
  local columns, form = core.csv(path, {columns = o.columns, separator = o.separator, decimal = o.decimal,
                                        header = o.header, missing = o.missing, others = "auto"})
  if not columns then return nil, form end
  if form.rows == 0 then return nil, script.error("T0402", "there is no row behind the names", {where = path}) end
  local tensors, texts, classes, taken = {}, {}, {}, {}
  local groups = o.inputs
  if not groups then
    groups = {}
    for _, c in ipairs(columns) do groups[c.type ~= "text" and c.name or 0] = c.type ~= "text" and c.name or nil end
  end
  for _, group in pairs(groups) do
    for _, name in ipairs(type(group) == "table" and group or {group}) do taken[name] = true end
  end
  for _, c in ipairs(columns) do
    if c.type == "text" then texts[c.name] = c.values end
    if c.classes then classes[c.name] = c.classes end
  end
  for own, group in pairs(groups) do
    local list, err = members_of(group, columns, taken, path)
    if not list then return nil, err end
    tensors[own], err = joined(list, o.wide, path)
    if not tensors[own] then return nil, err end
  end
  return tensors, texts, classes, remarks(columns, form)
end

local function csv_of(data)
  return function(path, o)
    o = o or {}
    if type(path) ~= "string" then refuse("tide.data.csv", "requires the path of a file") end
    check_csv(o)
    return data.lazy(function()
      local piped <const> = data.check_pipes {path}
      if piped then return nil, piped end
      local tensors, texts, classes, remark = read_csv(path, o)
      if not tensors then return nil, texts end
      local parts, count, held = parts_of(tensors, o, path)
      if not parts then return nil, count end
      return {parts = parts, count = count, texts = texts, classes = classes,
              note = described(tensors, path, count, held) .. remark}
    end)
  end
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
function arrays.records_csv(records, fields)
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
function arrays.records_tensors(records, fields)
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
function arrays.write(path, value, about)
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
  return core.tensor("u64", rows, 1):fill(math.type(keys) == "integer" and keys or 0, 1)
end

---Rows of a file of any writer into a table: `t:load(path, {tensor =, keys =, add =})`.
---@param handle table
---@param path string .npy, .npz or .safetensors
---@param o table
---@return true|nil, table? err
function arrays.into(handle, path, o)
  script.check_fields("T0113", "t:load", o, LOAD)
  local tensors, err = arrays.read(path)
  if not tensors then return nil, err end
  local name = o.tensor or arrays.format_of(path) == "npy" and "x" or nil
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
  local spec <const> = handle.spec.keys
  if spec[1] == "dense" and #keys > 0 and (keys:max() >= spec[2] or keys:min() < 0) then
    return nil, script.error("T0602", ("keys %d to %d do not fit table `%s` of keys 0 to %d"):format(keys:min(),
      keys:max(), handle.name, spec[2] - 1), {where = path, state = "the table is as it was"})
  end
  for first = 1, rows:rows(), CHUNK do
    local count <const> = math.min(CHUNK, rows:rows() - first + 1)
    local some <const> = rows:slice(first, count)
    local own <const> = keys:view(first, count, 1)
    if o.add then
      handle:push(own:type() == "u64" and own or own:convert "u64", some:type() == "f32" and some or some:convert "f32")
    else
      handle:assign(own:type() == "u64" and own or own:convert "u64", some:type() == "f32" and some
        or some:convert "f32")
    end
  end
  return true
end

---Adds the readers to tide.data.
function arrays.extend(data)
  data.npy, data.npz = reader_of(data, "npy"), reader_of(data, "npz")
  data.safetensors, data.csv = reader_of(data, "safetensors"), csv_of(data)
end

return arrays
