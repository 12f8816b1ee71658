-- Shapes of plan fields: small functions that check a value, collect every error with its path, and drop what names a
-- thing that has ended since the view was made.
--
-- A shape is f(c, value, path) -> the checked value, or DROP when it names something that is gone, or nil after an
-- error. `c` is the checker: errors, how many entries were seen, how many were dropped, and the ids there are now
-- (c.now.jobs[id]) and were in the view (c.was.jobs[id]).
local did_you_mean <const> = require("tide.text").did_you_mean

local shape = {}

shape.DROP = setmetatable({}, {__tostring = function() return "dropped" end})
local DROP <const> = shape.DROP

shape.ENTRIES_MAX = 10000

---Notes an error.
function shape.fail(c, code, path, value, reason)
  if type(value) == "table" then value = "table" end
  if value ~= value then value = "nan" end -- it prints with a sign that depends on the machine
  c.errors[#c.errors + 1] = {code = code, field = path, value = value, reason = reason}
  return nil
end
local fail <const> = shape.fail

local function count(c, path)
  c.entries = c.entries + 1
  if c.entries == shape.ENTRIES_MAX + 1 then
    fail(c, "PLAN_SHAPE", path, nil, ("more than %d entries"):format(shape.ENTRIES_MAX))
  end
  return c.entries <= shape.ENTRIES_MAX
end

---@param least? number
---@param most? number
function shape.number(least, most)
  return function(c, v, path)
    if type(v) ~= "number" then return fail(c, "PLAN_SHAPE", path, v, "must be a number") end
    if v ~= v or v == math.huge or v == -math.huge then return fail(c, "PLAN_SHAPE", path, v, "must be finite") end
    if least and v < least then return fail(c, "PLAN_SHAPE", path, v, ("must be %g or more"):format(least)) end
    if most and v > most then return fail(c, "PLAN_SHAPE", path, v, ("must be %g or less"):format(most)) end
    return v
  end
end

---An integer, also as a float without a fraction.
function shape.integer(least)
  local number = shape.number(least, 2 ^ 53)
  return function(c, v, path)
    local checked = number(c, v, path)
    if not checked then return nil end
    return math.tointeger(checked) or fail(c, "PLAN_SHAPE", path, v, "must be a whole number")
  end
end

function shape.string(most)
  return function(c, v, path)
    if type(v) ~= "string" then return fail(c, "PLAN_SHAPE", path, v, "must be a string") end
    if #v > most then return fail(c, "PLAN_SHAPE", path, #v, ("must be at most %d bytes"):format(most)) end
    return v
  end
end

function shape.choice(...)
  local names, known = {...}, {}
  for _, name in ipairs(names) do known[name] = true end
  return function(c, v, path)
    if type(v) == "string" and known[v] then return v end
    return fail(c, "PLAN_SHAPE", path, v, "must be one of " .. table.concat(names, ", "))
  end
end

---An id of something: "jobs", "nodes", "workers", ...
function shape.id(what)
  local integer = shape.integer(0)
  return function(c, v, path)
    local id = integer(c, v, path)
    if not id then return nil end
    if c.now[what][id] then return id end
    if c.was[what][id] then
      c.dropped = c.dropped + 1
      return DROP
    end
    return fail(c, "PLAN_UNKNOWN", path, v, ("there is no such %s"):format(what:gsub("_", " "):gsub("s$", "")))
  end
end

function shape.list(of)
  return function(c, v, path)
    if type(v) ~= "table" then return fail(c, "PLAN_SHAPE", path, v, "must be a list") end
    local out, n = {}, #v
    for key in pairs(v) do
      if math.type(key) ~= "integer" or key < 1 or key > n then
        return fail(c, "PLAN_SHAPE", path, nil, "must be a list without holes")
      end
    end
    for i = 1, n do
      if not count(c, path) then return nil end
      local item = of(c, v[i], ("%s[%d]"):format(path, i))
      if item ~= nil and item ~= DROP then out[#out + 1] = item end
    end
    return out
  end
end

---A table keyed by ids of `what`.
function shape.by_id(what, of)
  local id = shape.id(what)
  return function(c, v, path)
    if type(v) ~= "table" then return fail(c, "PLAN_SHAPE", path, v, "must be a table by id") end
    local keys, out = {}, {}
    for key in pairs(v) do
      if type(key) ~= "number" then
        fail(c, "PLAN_SHAPE", ("%s.%s"):format(path, tostring(key)), nil, "must be keyed by ids, which are integers")
      else
        keys[#keys + 1] = key
      end
    end
    table.sort(keys)
    for _, key in ipairs(keys) do
      if not count(c, path) then return nil end
      local at = ("%s[%s]"):format(path, tostring(key))
      local known = id(c, key, at)
      if known and known ~= DROP then
        local item = of(c, v[key], at)
        if item ~= nil and item ~= DROP then out[known] = item end
      end
    end
    return out
  end
end

---Named fields; `required` ones must be there. A dropped field drops the record.
function shape.record(fields, required)
  local names = {}
  for name in pairs(fields) do names[#names + 1] = name end
  table.sort(names)
  return function(c, v, path)
    if type(v) ~= "table" then return fail(c, "PLAN_SHAPE", path, v, "must be a table") end
    local unknown, out, dropped = {}, {}, false
    for key in pairs(v) do
      if not fields[key] then unknown[#unknown + 1] = tostring(key) end
    end
    table.sort(unknown)
    for _, key in ipairs(unknown) do
      local near <const> = did_you_mean(key, names)
      fail(c, "PLAN_SHAPE", path .. "." .. key, nil, "is no field of this" .. (near and ": " .. near or ""))
    end
    for _, name in ipairs(names) do
      if v[name] ~= nil then
        if not count(c, path) then return nil end
        local item = fields[name](c, v[name], path .. "." .. name)
        if item == DROP then dropped = true else out[name] = item end
      end
    end
    for _, name in ipairs(required or {}) do
      if v[name] == nil then fail(c, "PLAN_SHAPE", path .. "." .. name, nil, "is missing") end
    end
    return dropped and DROP or out
  end
end

return shape
