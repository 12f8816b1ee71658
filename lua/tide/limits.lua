-- The limits of this process (runtime/base/limits.def): `--limit NAME=V` sets them, the environment hands them on to
-- the processes that this one starts, `tide version -v` and the reference list them.
local core = require "tide.core"
local errors = require "tide.errors"
local text = require "tide.text"
local units = require "tide.units"

local limits = {}

local PARSED <const> = {time = units.parse_duration, bytes = units.parse_size}

---A value as people write it.
---@param limit table an entry of core.limits()
---@param value number
---@return string
function limits.format(limit, value)
  if limit.unit == "time" then return units.format_duration(value) end
  return limit.unit == "bytes" and units.format_size(value) or ("%d"):format(value)
end

---Reads "NAME=V".
---@param word string
---@return table? limit of core.limits()
---@return number|string value or why it is none
---@return string? help
function limits.parse(word)
  local name <const>, given <const> = word:match "^%s*([^=%s]*)%s*=%s*(.-)%s*$"
  if not name then return nil, "write NAME=V" end
  local names = {}
  for i, limit in ipairs(core.limits()) do
    names[i] = limit.name
    if limit.name == name then
      local value, why = (PARSED[limit.unit] or tonumber)(given)
      if limit.unit == "count" then value = math.tointeger(value) end
      if not value then return nil, why or ("`%s` is not a whole number"):format(given) end
      if value < limit.least or value > limit.most then
        return nil, ("%s is outside of %s to %s"):format(limits.format(limit, value),
          limits.format(limit, limit.least), limits.format(limit, limit.most))
      end
      return limit, value
    end
  end
  return nil, ("there is no limit `%s`"):format(name),
    text.did_you_mean(name, names) or "`tide version -v` lists the limits"
end

---Sets what the words say.
---@param words string[]
---@param where string where they were written
---@return true?
---@return tide.error? err
function limits.set(words, where)
  for _, word in ipairs(words) do
    local limit <const>, value <const>, help <const> = limits.parse(word)
    if not limit then
      return nil, errors.new("T0104", {message = ("%s %s: %s"):format(where, text.clean(word), value), help = help})
    end
    core.limit_set(limit.name, value)
  end
  return true
end

---The words of TIDE_LIMITS.
---@param getenv fun(name: string): string?
---@return string[]
function limits.inherited(getenv)
  local words = {}
  for word in (getenv "TIDE_LIMITS" or ""):gmatch "[^,]+" do words[#words + 1] = word end
  return words
end

---The limits that differ from their defaults, as words of the command line.
---@return string[]
function limits.changed()
  local words = {}
  for _, limit in ipairs(core.limits()) do
    if limit.value ~= limit.default then
      words[#words + 1] = ("%s=%s"):format(limit.name, limit.unit == "time" and ("%.9gs"):format(limit.value)
        or ("%d"):format(limit.value))
    end
  end
  return words
end

---Words of the command line as settings of a profile of the simulator, whose times are nanoseconds.
---@param words string[] that limits.set has accepted
---@return string[]
function limits.settings(words)
  local settings = {}
  for i, word in ipairs(words) do
    local limit <const>, value <const> = limits.parse(word)
    settings[i] = limit and ("%s=%.0f"):format(limit.name, limit.unit == "time" and value * 1e9 or value) or word
  end
  return settings
end

---Sets the limits of a command: those it inherits, then those of its options; processes that it starts inherit them.
---@param context tide.context
---@param alone? boolean without those that it inherits: in the simulator the environment counts for nothing
---@return true?
---@return tide.error? err
function limits.use(context, alone)
  local ok, err = limits.set(alone and {} or limits.inherited(context.getenv), "TIDE_LIMITS")
  if ok then ok, err = limits.set(context.options.limit or {}, "--limit") end
  if not ok then return nil, err end
  core.limits_pass(table.concat(limits.changed(), ","))
  return true
end

-- What the names of a page of the reference begin with.
local ROOMS <const> = {
  {"actor", "Actors"}, {"net", "Links and members"}, {"control", "The controller's log"}, {"store", "Parameter tables"},
  {"exchange", "Exchange of gradients"}, {"run", "Runs"}, {"cluster", "Clusters"}, {"console", "Consoles"},
  {"policy", "Policies"}, {"scheduler", "Scheduling"},
}

local function rows_of(lines, prefix)
  for _, limit in ipairs(core.limits()) do
    if limit.name:match "^[^_]+" == prefix then
      lines[#lines + 1] = ("| `%s` | %s | %s | %s | %s |"):format(limit.name, limits.format(limit, limit.default),
        limits.format(limit, limit.least), limits.format(limit, limit.most), limit.breaks)
    end
  end
end

---The page of the reference.
---@return string
function limits.markdown()
  local lines = {"# Limits", "",
    "Made from the table of the source by `./dev reference`. Every limit, window, timeout and batch size that may "
    .. "differ from process to process, with the range in which the program is correct. `tide version -v` prints the "
    .. "values of a process. `--limit NAME=V` of `tide node`, `run`, `up` and `sim` sets one; the processes that a "
    .. "command starts on its machine inherit it by the environment variable `TIDE_LIMITS`, a list with commas. The "
    .. "[simulator](../guides/simulator.md#limits) draws them."}
  for _, room in ipairs(ROOMS) do
    local rows = {}
    rows_of(rows, room[1])
    if #rows > 0 then
      table.move({"", "## " .. room[2], "",
        "| limit | default | least | most | what it bounds, and what a wrong value costs |", "|---|---|---|---|---|"},
        1, 5, #lines + 1, lines)
      table.move(rows, 1, #rows, #lines + 1, lines)
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

return limits
