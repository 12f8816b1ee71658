-- tide.data.npy, npz, safetensors, csv: arrays and tables of other programs as data sets. Every array is an input by
-- its name, with one example a row: parts "train.NAME", and "test.NAME" with a split. nn.job and w.data:part take them.
local formats = require "tide.formats"
local package = require "tide.package"
local tensor = require "tide.tensor"

local arrays = {}

local OPTIONS <const> = {names = true, split = true, wide = true}
local NARROW <const> = {f64 = "f32", i64 = "i32", u64 = "i32", u32 = "i32", u16 = "i32"}

local function refuse(what, message, help)
  error(package.error("T0113", ("%s: %s"):format(what, message), {help = help}), 3)
end

local function check_split(what, split)
  if split == nil then return nil end
  package.check_fields("T0115", what .. "'s `split`", split, {test = true, seed = true})
  if type(split.test) ~= "number" or split.test <= 0 or split.test >= 1 then
    refuse(what, "`split.test` is a share of the examples, between 0 and 1")
  end
  return split
end

---Numbers as another type; an error names the array and the row of what does not fit.
---@param help? string
---@return table|nil tensor, table? err
function arrays.converted(t, to, path, name, help)
  if t:type() == to then return t end
  local ok, made = pcall(t.convert, t, to)
  if ok then return made end
  return nil, package.error("T0402", ("`%s`: %s"):format(name, (tostring(made):gsub("^.-:%d+: ", ""))),
    {where = path, help = help})
end

-- 64-bit numbers as nets and kernels take them.
local function narrowed(t, to, path, name)
  return arrays.converted(t, to, path, name,
    "`wide = true` keeps 64 bits, which a script can scale with t:mul and narrow with t:convert")
end

-- The data set of tensors with one example a row.
local function parts_of(tensors, o, from)
  local count, first
  local parts = {}
  for _, name in ipairs(package.sorted_keys(tensors)) do
    local t <const> = tensors[name]
    if count and t:rows() ~= count then
      return nil, package.error("T0402", ("`%s` has %d rows, `%s` %d: an example is a row of each"):format(first, count,
        name, t:rows()), {where = from, help = "`names = {x = \"...\", y = \"...\"}` says which ones are examples"})
    end
    count, first = count or t:rows(), first or name
  end
  if not count then return nil, package.error("T0402", "there is no array in it", {where = from}) end
  local held <const> = o.split and math.floor(count * o.split.test) or 0
  if o.split and (held == 0 or held == count) then
    return nil, package.error("T0402", ("a split of %g leaves a part of %d examples empty"):format(o.split.test, count),
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
  for i, name in ipairs(package.sorted_keys(tensors)) do
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
  for _, name in ipairs(package.sorted_keys(files)) do
    local found, shapes, left_out = formats.arrays(files[name], format)
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
        return nil, package.error("T0401", ("there is no array `%s`"):format(tostring(key)), {where = files[name],
          help = "there are: " .. table.concat(package.sorted_keys(found), ", ")})
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
    package.check_fields("T0115", what, o, OPTIONS)
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
        package.did_you_mean(tostring(key), CSV))
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
    if #list == 0 then return nil, package.error("T0401", "no column of numbers is left for `*`", {where = path}) end
    return list
  end
  for _, name in ipairs(type(group) == "table" and group or {group}) do
    local found
    for _, c in ipairs(columns) do found = c.name == name and c or found end
    if not found or found.type == "text" then
      return nil, package.error("T0401", ("there is no column `%s` of numbers or classes"):format(tostring(name)),
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
  local across = tensor.zeros(type, #list, list[1].values:rows())
  for i, c in ipairs(list) do
    local values <const>, err = narrowed(c.values, type, path, c.name)
    if not values then return nil, err end
    across:put(i, values:view(1, 1, #values))
  end
  return only and across:view(1, #across, 1) or across:transpose()
end

local SEPARATORS <const> = {["\t"] = "TAB", [" "] = "blanks"}

-- Remarks on how a table was read.
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
  local columns, form = formats.csv(path, {columns = o.columns, separator = o.separator, decimal = o.decimal,
                                        header = o.header, missing = o.missing, others = "auto"})
  if not columns then return nil, form end
  if form.rows == 0 then return nil, package.error("T0402", "there is no row behind the names", {where = path}) end
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

---Adds the readers to tide.data.
function arrays.extend(data)
  data.npy, data.npz = reader_of(data, "npy"), reader_of(data, "npz")
  data.safetensors, data.csv = reader_of(data, "safetensors"), csv_of(data)
end

return arrays
