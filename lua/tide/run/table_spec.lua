-- tide.table{}: the description of a parameter table, checked here, made on the nodes by core.table.
local checks = require "tide.checks"
local core = require "tide.core"
local script = require "tide.script"
local text = require "tide.text"
local units = require "tide.units"

local table_spec = {}

-- Fields that are no row of option.def, or more than one: their types and what they are, as in an annotation.
local OWN <const> = {
  {"keys", "table", "tide.dense(n) or tide.hashed {}: which keys there are"},
  {"width", "integer", "numbers of a row"},
  {"dtype?", '"f32"', "what rows are made of"},
  {"init?", "table|string", "tide.zero() (default), tide.uniform, tide.normal or tide.xavier: new rows"},
  {"update?", "table|string", '"add" (default), "assign", {"sgd", lr=}, ..: what a push does'},
  {"consistency?", "string", '"sequential" (default), "bsp", "ssp:N", "essp:N", "async", "vap:V": what pulls see'},
  {"durability?", "string|table", '"none", "strict", "window" or {window=, bytes=}: what an answered push promises'},
  {"memory?", "string|integer", "most bytes of rows in a node's memory; with `disk`"},
  {"disk?", "string", "the directory where the other rows lie; with `memory`"},
  {"seed?", "integer", "of the initial values (default: the job's)"},
  {"name?", "string", "its name in the cluster (default: made of the run's)"},
  {"keep?", "boolean", "it stays when its run is closed"},
  {"shared?", "boolean", "runs share the table of this name"},
}

local known -- by name: true, or the row of option.def
local function fields_known()
  if known then return known end
  known = {}
  for _, field in ipairs(OWN) do known[field[1]:gsub("%?", "")] = true end
  for _, row in ipairs(core.table_options()) do known[row.name] = row end
  return known
end

-- Fields of the update rules; lr, the rate, has no default.
local UPDATES <const> = {
  add = {}, assign = {}, total = {}, sgd = {lr = true}, adagrad = {lr = true, eps = true, sum_init = true},
  adam = {lr = true, beta1 = true, beta2 = true, eps = true},
  momentum = {lr = true, momentum = true}, nesterov = {lr = true, momentum = true},
}
local SHARES <const> = {beta1 = true, beta2 = true, momentum = true} -- of what was that stay
local INITS <const> = {zero = 0, uniform = 2, normal = 1, xavier = 2} -- how many numbers follow the name

local function refuse(level, format, ...)
  error(script.error("T0204", format:format(...)), level + 1)
end

local function count(value, what)
  local whole <const> = type(value) == "number" and math.tointeger(value) -- 1e6 too
  if not whole or whole < 1 then refuse(4, "%s is %s, not a positive integer", what, value) end
  return whole
end

local STALENESS_MAX <const> = 60

local function is_number(value) return type(value) == "number" and value == value and math.abs(value) < math.huge end

-- Of a rule of a module (tide.kernel.load): what it has, with what was not given filled in.
local function of_module(update, own)
  local fields <const> = {lr = true, version = true}
  local whole <const> = {version = own.version}
  for key, value in pairs(update) do whole[key] = value end
  for _, number in ipairs(own.numbers) do
    fields[number.name] = true
    if whole[number.name] == nil then whole[number.name] = number.default end
    if whole[number.name] == nil then
      refuse(4, "update rule `%s` requires `%s`: %s", update[1], number.name, number.doc)
    end
  end
  return whole, fields
end

local function check_update(spec)
  local update = type(spec.update) == "table" and spec.update or {spec.update or "add"}
  local rule <const> = update[1]
  local fields, own = UPDATES[rule], script.rules[rule]
  if own then
    update, fields = of_module(update, own)
  elseif not fields then
    local names <const> = text.sorted_keys(UPDATES)
    table.move(text.sorted_keys(script.rules), 1, #text.sorted_keys(script.rules), #names + 1, names)
    refuse(3, "update rule `%s` is not known: there are %s, and those of modules that tide.kernel.load loaded before",
      tostring(rule), table.concat(names, ", "))
  end
  for key, value in pairs(update) do
    if key ~= 1 and not fields[key] then
      error(checks.unknown("T0204", ("update rule `%s`"):format(rule) .. " has no field `%s`", key, fields,
        not next(fields) and "it has none" or nil), 3)
    end
    if key ~= 1 and key ~= "version" and not (is_number(value) and (own and key ~= "lr" or value >= 0)) then
      refuse(3, "update rule `%s`: `%s` is %s, not a number%s", rule, key, tostring(value),
        own and key ~= "lr" and "" or " of 0 or more")
    end
    if not own and SHARES[key] and not (value > 0 and value < 1) then
      refuse(3, "update rule `%s`: `%s` is %s, not between 0 and 1", rule, key, value)
    end
    if not own and key == "eps" and string.unpack("f", string.pack("f", value)) == 0 then
      refuse(3, "update rule `%s`: `eps` is %s, which rows of 32-bit floats round to 0", rule, value)
    end
  end
  if fields.lr and update.lr == nil then
    refuse(3, 'update rule `%s` requires a rate: update = {"%s", lr = 0.1}', rule, rule)
  end
  if own then
    local ok, err = core.rule_check {update = update}
    if not ok then refuse(3, "%s", err.message) end
  end
  return update
end

local function check_init(spec)
  local init <const> = type(spec.init) == "table" and spec.init or {spec.init or "zero"}
  local count_of <const> = INITS[init[1]]
  if not count_of then
    refuse(3, "init `%s` is not known: there are tide.zero(), tide.uniform, tide.normal, tide.xavier",
      tostring(init[1]))
  end
  for key, value in pairs(init) do
    if math.type(key) ~= "integer" or key < 1 or key > count_of + 1 then
      refuse(3, "init `%s` has no field `%s`", init[1], tostring(key))
    end
    if key > 1 and not is_number(value) then refuse(3, "init `%s`: %s is no number", init[1], tostring(value)) end
  end
  if init[1] == "uniform" and #init == 3 and init[2] > init[3] then
    refuse(3, "init `uniform`: low is %s, above high, which is %s", init[2], init[3])
  end
  if #init ~= count_of + 1 then refuse(3, "init `%s` requires %d numbers", init[1], count_of) end
  return init
end

---The forms that the store takes (runtime/include/tide/table.h).
local function is_consistency(value)
  if type(value) ~= "string" then return false end
  local s <const> = value:match("^e?ssp:(%d+)$")
  if s then return tonumber(s) <= STALENESS_MAX end
  local bound <const> = tonumber(value:gsub(":flat$", ""):match("^vap:(%d[%d.e+-]*)$"))
  if bound then return bound > 0 and bound < math.huge end
  return value == "sequential" or value == "bsp" or value == "bsp:reproducible" or value == "async"
    or value:match("^async:%d+ms$") ~= nil
end

local DURABILITIES <const> = {strict = true, none = true, window = true}
local WINDOW <const> = {
  window = {parse = units.parse_duration, unit = 1e9, least = 4e6, most = 1e10, field = "window_ns",
    range = "4ms to 10s"},
  bytes = {parse = units.parse_size, unit = 1, least = 2^16, most = 2^30, field = "window_bytes",
    range = "64KiB to 1GiB"},
}

-- Durability as "strict", or {window="50ms", bytes="64MiB"}: into the fields that core.table takes.
local function read_durability(spec)
  local value <const> = spec.durability
  if value == nil or DURABILITIES[value] then return end
  if type(value) ~= "table" or next(value) == nil then
    refuse(3, 'table field `durability` is `%s`; there are "none", "strict", "window", {window="50ms", bytes="64MiB"}',
      tostring(value))
  end
  spec.durability = "window"
  for _, key in ipairs(text.sorted_keys(value)) do
    local w <const> = WINDOW[key]
    if not w then refuse(3, "durability has no field `%s`: window, bytes", tostring(key)) end
    local amount <const>, why <const> = w.parse(value[key])
    if not amount then refuse(3, "durability.%s: %s", key, why) end
    local whole <const> = math.floor(amount * w.unit + 0.5)
    if whole < w.least or whole > w.most then
      refuse(3, "durability.%s is `%s`, not in %s", key, tostring(value[key]), w.range)
    end
    spec[w.field] = math.tointeger(whole)
  end
end

-- Tables whose rows may go: what does not work with them yet.
local function check_forgetting(spec)
  local k <const> = spec.keys
  local what <const> = k.evict and "evict" or k.admit_after and "admit" or k.unused_ns and "expire"
  if not what then return end
  local function only(holds, format, ...)
    if not holds then refuse(3, "`%s` of tide.hashed works with %s in this version", what, format:format(...)) end
  end
  only((spec.technique or "static") == "static", "technique static, not `%s`", spec.technique)
  only((spec.replicas or 0) == 0, "replicas = 0, not %s", spec.replicas)
  only((spec.consistency or "sequential") == "sequential", "consistency sequential, not `%s`", spec.consistency)
end

local DISK_MAX <const> = 159 -- bytes of a path

-- What a table with a second tier does not do; by the field that asks for it.
local function tier_refuses(spec)
  if (spec.replicas or 0) > 0 then return ("replicas = %d"):format(spec.replicas) end
  if spec.consistency and spec.consistency ~= "sequential" then return ("consistency %q"):format(spec.consistency) end
  local technique <const> = spec.technique or "static"
  if technique ~= "static" and technique ~= "relocate" then return ("technique %q"):format(technique) end
  local k <const> = spec.keys
  local forgets <const> = k.evict and "evict" or k.admit_after and "admit" or k.unused_ns and "expire"
  if forgets then return ("tide.hashed{%s =}"):format(forgets) end
end

-- Second tier: memory = "2GiB", disk = "/data/x": into the fields that core.table takes.
local function read_tier(spec)
  if spec.memory == nil and spec.disk == nil then return end
  if spec.memory == nil or spec.disk == nil then
    refuse(3, "a table has `memory` and `disk` together: most bytes of rows in a node's memory, and the directory for "
      .. 'the other rows: memory = "2GiB", disk = "/data/tide"')
  end
  if type(spec.disk) ~= "string" or spec.disk:sub(1, 1) ~= "/" or #spec.disk > DISK_MAX or spec.disk:find "%c" then
    refuse(3, "table field `disk` is `%s`, not the absolute path of a directory of at most %d bytes",
      tostring(spec.disk), DISK_MAX)
  end
  local bytes <const>, why <const> = units.parse_size(spec.memory)
  if not bytes then refuse(3, "table field `memory`: %s", why) end
  local refused <const> = tier_refuses(spec)
  if refused then refuse(3, "a table with `disk` does not work with %s in this version", refused) end
  spec.memory, spec.tier_memory = nil, math.tointeger(bytes)
end

---Keys 0 .. n-1.
---@param n integer
function table_spec.dense(n) return {"dense", count(n, "the key count of tide.dense")} end

local UNUSED_MOST <const> = 3650 * 86400

-- The number of pushes, or of seconds, in a field of tide.hashed that is a table of one field.
local function only_field(o, name, field)
  local value <const> = o[name]
  if value == nil then return nil end
  if type(value) ~= "table" or value[field] == nil then
    refuse(3, "`%s` of tide.hashed is %s = {%s = ..}", name, name, field)
  end
  checks.known("T0204", ("`%s` of tide.hashed"):format(name), value, {[field] = true})
  return value[field]
end

-- Which keys have rows: docs/guides/large-tables.md. Into the fields that core.table takes.
local function read_forgetting(o, keys)
  local after <const>, unused <const> = only_field(o, "admit", "after"), only_field(o, "expire", "unused")
  if after ~= nil then
    keys.admit_after = type(after) == "number" and math.tointeger(after)
    if not keys.admit_after or after < 2 or after > 15 then
      refuse(3, "admit.after is %s, not 2 to 15", tostring(after))
    end
  end
  if unused ~= nil then
    local seconds <const>, why <const> = units.parse_duration(unused)
    if not seconds then refuse(3, "expire.unused: %s", why) end
    if seconds < 1 or seconds > UNUSED_MOST then refuse(3, "expire.unused is `%s`, not 1s to 3650d", unused) end
    keys.unused_ns = math.tointeger(math.floor(seconds * 1e9 + 0.5))
  end
  if o.evict ~= nil and o.evict ~= "lfu" then
    refuse(3, '`evict` of tide.hashed is `%s`; there is "lfu"', o.evict)
  end
  keys.evict = o.evict
  if (after ~= nil or o.evict) and not o.limit then
    refuse(3, "`%s` of tide.hashed needs a limit: tide.hashed {limit = 1e6, ..}", o.evict and "evict" or "admit")
  end
  return keys
end

---Any 64-bit keys. A table over its limit refuses new ones, or has them take the place of others (`evict`).
---@param o? {limit?: integer, admit?: {after: integer}, expire?: {unused: string|number}, evict?: "lfu"}
function table_spec.hashed(o)
  o = o or {}
  checks.known("T0204", "tide.hashed", o, {limit = true, admit = true, expire = true, evict = true})
  return read_forgetting(o, {"hashed", o.limit and count(o.limit, "the limit of tide.hashed") or 0})
end

-- Initial values: pure functions of the table's seed and the key.
---Rows begin as zeros.
function table_spec.zero() return {"zero"} end

---Rows begin as numbers drawn from [low, high), the same for the same seed and key.
---@param o {low: number, high: number}
function table_spec.uniform(o)
  if type(o) ~= "table" or not o.low or not o.high then refuse(2, "tide.uniform requires {low=, high=}") end
  checks.known("T0204", "tide.uniform", o, {low = true, high = true})
  return {"uniform", o.low, o.high}
end

---Rows begin as numbers drawn from a normal distribution of mean 0, the same for the same seed and key.
---@param o {std: number}
function table_spec.normal(o)
  if type(o) ~= "table" or not o.std then refuse(2, "tide.normal requires {std=}") end
  checks.known("T0204", "tide.normal", o, {std = true})
  return {"normal", o.std}
end

---Rows begin as numbers drawn from +- sqrt(6 / (fan_in + fan_out)).
---@param o {fan_in: number, fan_out: number}
function table_spec.xavier(o)
  if type(o) ~= "table" or not o.fan_in or not o.fan_out then refuse(2, "tide.xavier requires {fan_in=, fan_out=}") end
  checks.known("T0204", "tide.xavier", o, {fan_in = true, fan_out = true})
  return {"xavier", o.fan_in, o.fan_out}
end

-- A value of a field that is a row of option.def.
local function check_row(row, value)
  if row == true then return end
  if row.words then
    for _, word in ipairs(row.words) do
      if value == word then return end
    end
    refuse(3, "table field `%s` is `%s`; this version has %s", row.name, tostring(value), table.concat(row.words, ", "))
  elseif row.most == 1 then
    if type(value) ~= "boolean" then refuse(3, "table field `%s` is true or false", row.name) end
  else
    local whole <const> = type(value) == "number" and math.tointeger(value)
    if not whole or whole < 0 or whole > row.most then
      refuse(3, "table field `%s` is `%s`, not a whole number from 0 to %d", row.name, tostring(value), row.most)
    end
  end
end

---The annotation of the fields of tide.table: `---@class` and `---@field` lines.
---@return string
---@package
function table_spec.annotation()
  local lines = {"---@class tide.table_fields"}
  for _, field in ipairs(OWN) do lines[#lines + 1] = ("---@field %s %s %s"):format(table.unpack(field)) end
  for _, row in ipairs(core.table_options()) do
    local kind <const> = row.words and '"' .. table.concat(row.words, '"|"') .. '"' or row.most == 1 and "boolean"
      or "integer"
    lines[#lines + 1] = ("---@field %s? %s %s"):format(row.name, kind, row.doc)
  end
  return table.concat(lines, "\n") .. "\n"
end

---@return boolean whether it was made by table_spec.new
---@package
function table_spec.is(spec) return getmetatable(spec) == table_spec end

---Describes a table of rows of 32-bit floats; each run makes its own. docs/guides/tables.md has all fields.
---@param fields tide.table_fields
---@return table spec
function table_spec.new(fields)
  if type(fields) ~= "table" then refuse(2, "tide.table requires a table of fields") end
  local spec, all = {}, fields_known()
  for key, value in pairs(fields) do
    if not all[key] then
      error(checks.unknown("T0204", "table field `%s` is not known", key, all), 2)
    end
    check_row(all[key], value)
    spec[key] = value
  end
  if type(spec.keys) ~= "table" then refuse(2, "a table needs keys = tide.dense(n) or tide.hashed{}") end
  spec.width = count(spec.width, "the width of a table")
  spec.update = check_update(spec)
  spec.init = check_init(spec)
  if spec.consistency ~= nil and not is_consistency(spec.consistency) then
    refuse(2, 'table field `consistency` is `%s`; there are "sequential", "bsp", "bsp:reproducible", "ssp:N", ' ..
      '"essp:N" (N up to %d), "async", "async:50ms", "vap:0.01", "vap:0.01:flat"', tostring(spec.consistency),
      STALENESS_MAX)
  end
  if spec.replicas and not ({[0] = true, true, true})[spec.replicas] then
    refuse(2, "replicas is %s; a table has 0, 1 or 2 copies of each row", tostring(spec.replicas))
  end
  if spec.dtype ~= nil and spec.dtype ~= "f32" then
    refuse(2, "table field `dtype` is `%s`; this version has f32", tostring(spec.dtype))
  end
  if spec.seed ~= nil then
    spec.seed = type(spec.seed) == "number" and math.tointeger(spec.seed)
      or refuse(2, "table field `seed` is `%s`, not a whole number", tostring(fields.seed))
  end
  if spec.name ~= nil and (type(spec.name) ~= "string" or spec.name == "") then
    refuse(2, "table field `name` is `%s`, not a name", tostring(spec.name))
  end
  if spec.slots == "range" and spec.keys[1] == "hashed" then
    refuse(2, "slots = \"range\" works with tide.dense keys: hashed ones have no range")
  end
  for _, key in ipairs {"keep", "shared"} do
    if spec[key] ~= nil and type(spec[key]) ~= "boolean" then refuse(2, "table field `%s` is true or false", key) end
  end
  local clocked <const> = spec.consistency ~= nil and spec.consistency ~= "sequential"
  for _, key in ipairs {"cache_bytes", "unsubscribe_after"} do
    if spec[key] and not clocked then refuse(2, "`%s` works with clocks: consistency = \"ssp:2\" or another", key) end
  end
  if spec.shared and clocked then
    refuse(2, "a shared table has no clocks, which count the workers of one run")
  end
  check_forgetting(spec)
  read_durability(spec)
  local copied <const> = (spec.replicas or 0) > 0
  if spec.durability and (spec.durability ~= "none") ~= copied then
    refuse(2, copied and "durability none has no copies: replicas = 0" or
      "durability `%s` needs replicas = 1 or 2", spec.durability)
  end
  read_tier(spec)
  spec.dtype = nil -- accepted because scripts say what they rely on; the store has one type in this version
  return setmetatable(spec, table_spec)
end

return table_spec
