-- Params of runs: what may be one, and what may take the place of one. Checked wherever params are given: by a script,
-- a command, the console, a sweep, and by the run's controller, to which they come from other processes.
local core = require "tide.core"
local errors = require "tide.errors"
local text = require "tide.text"

local params = {}

local BYTES_MAX <const> = 64 << 10

---@param value any
---@return string for messages
function params.shown(value)
  if type(value) == "string" then return ("the string \"%s\""):format(text.clean(value:sub(1, 60))) end
  if type(value) == "number" or type(value) == "boolean" then return tostring(value) end
  return value == nil and "nothing" or "a " .. type(value)
end

-- Why a value does not travel.
local function fault_of(value, path, seen)
  local kind <const> = type(value)
  if kind == "number" and value ~= value then return path .. " is not a number (NaN)" end
  if kind == "function" or kind == "thread" then return ("%s is a %s, which does not travel"):format(path, kind) end
  if kind ~= "table" then return nil end
  if seen[value] then return path .. " refers to itself" end
  seen[value] = true
  for k, v in pairs(value) do
    local fault <const> = fault_of(v, ("%s.%s"):format(path, text.clean(tostring(k))), seen)
    if fault then return fault end
  end
  seen[value] = nil
end

---@param given any
---@return string|nil fault
function params.travel_fault(given)
  if type(given) ~= "table" then return "params are a table of values by name, not " .. params.shown(given) end
  for k, v in pairs(given) do
    if type(k) ~= "string" then return ("params have names; %s is none"):format(params.shown(k)) end
    if not utf8.len(k) or k:find "%c" then return ("the name of a param is not printable: %s"):format(text.clean(k)) end
    local fault <const> = fault_of(v, "`" .. k .. "`", {})
    if fault then return fault end
  end
  local ok, bytes = pcall(core.encode, given)
  if not ok then return tostring(bytes) end
  return #bytes > BYTES_MAX and "params are larger than 64 KiB" or nil
end

---@param given any
---@param known? table<string, any> params that there are; nil: any may be given
---@param o? {who?: string, new?: boolean} who: what was called; new: unknown names may be given
---@return true|nil, tide.error? err T0113, T0115
function params.check(given, known, o)
  o = o or {}
  local function refuse(fault, help, code)
    return nil, errors.new(code or "T0113", {message = (o.who and o.who .. ": " or "") .. fault, help = help,
      state = "nothing changed"})
  end
  local fault <const> = params.travel_fault(given)
  if fault then return refuse(fault) end
  for _, name in ipairs(known and text.sorted_keys(given) or {}) do
    local now <const>, value <const> = known[name], given[name]
    if now == nil and not o.new then
      return refuse(("there is no param `%s`"):format(name), next(known) == nil
        and "a job's field `params` names them: tide.job {params = {eps = 0.1}, ...}"
        or text.did_you_mean(name, known) or "`--new` (new = true) adds one to a run", "T0115")
    end
    if now ~= nil and type(value) ~= type(now) then
      local comma <const> = type(now) == "number" and type(value) == "string" and value:find "^%-?%d+,%d+$"
      return refuse(("param `%s` is a %s%s, not %s%s"):format(name, type(now),
        type(now) == "table" and "" or (" (%s)"):format(text.clean(tostring(now))), params.shown(value),
        comma and (": write %s"):format((value:gsub(",", "."))) or "")) -- a help does not cross processes
    end
  end
  return true
end

---Params as JSON holds them: what it cannot hold, as an infinity, is there as text.
---@param given table<string, any>
---@return table<string, any>
function params.printable(given)
  local out = {}
  for k, v in pairs(given) do
    local finite <const> = type(v) ~= "number" or v - v == 0 -- JSON would have null
    out[k] = finite and pcall(core.json_encode, {v}) and v or tostring(v)
  end
  return out
end

---What a word of a command line means for a param: as the one that is there has it; else a number, true or false where
---it reads like one.
---@param word string
---@param now any
---@return any
function params.read(word, now)
  if type(now) == "string" then return word end
  if word == "true" or word == "false" then return word == "true" end
  local number <const> = tonumber(word)
  if not number or math.abs(number) == math.huge then return word end -- 1e999 is no number, as inf is none
  return math.tointeger(number) or number
end

return params
