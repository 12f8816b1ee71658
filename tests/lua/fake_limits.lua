-- The limits of a fake core: those of the table of the source, with their defaults.
local SECOND <const> = 1000000000
local NAMES <const> = {TIDE_SECOND = SECOND, MS = SECOND // 1000, TIDE_CALL_TIMEOUT = 30 * SECOND,
                       UINT64_C = function(n) return n end}

local function read_limits()
  local list, values = {}, {}
  local file <close> = assert(io.open "runtime/base/limits.def")
  for name, unit, initial, least, most, breaks in file:read "a":gmatch
    '\n[LB][IO][MU][IN][TD]%(([%w_]+), (%u+), ([^,]+), ([^,]+), ([^,]+),%s*(".-")%)%f[\n]' do
    local limit <const> = {name = name, breaks = breaks:gsub('"%s*"', ""):sub(2, -2),
                           unit = ({COUNT = "count", BYTES = "bytes"})[unit] or "time"}
    for field, text in pairs {default = initial, least = least, most = most} do
      local value <const> = assert(load("return " .. text, text, "t", NAMES))()
      limit[field] = limit.unit == "time" and value / SECOND or value
    end
    list[#list + 1] = limit
    values[name] = limit.default
  end
  return list, values
end

---@param fake table gets the functions of core that read and set limits
return function(fake)
  local limits <const>, values <const> = read_limits()
  function fake.limit(name) return (assert(values[name], name)) end
  function fake.limit_set(name, value)
    assert(values[name], name)
    values[name] = value
    return true
  end
  function fake.limits()
    local list = {}
    for i, limit in ipairs(limits) do
      list[i] = setmetatable({value = values[limit.name]}, {__index = limit})
    end
    return list
  end
  function fake.limits_draw() end
  function fake.limits_pass(text) fake.limits_passed = text end
end
