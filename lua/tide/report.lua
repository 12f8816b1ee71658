-- What a worker may report, and what the numbers of a report mean.
--
-- A report is a table of numbers by name; texts and booleans stay in the worker's own entry. The worker checks it at
-- the call, where the error finds the script's line; the controller checks it again, because it comes from another
-- process. Both refuse the names that the controller writes into reports itself.
--
-- Workers report sums: `loss` is the sum over `examples`, `valid_loss` that over `valid_examples`. What is shown, and
-- what a sweep or a stop rule compares, is the mean per example.
local errors = require "tide.errors"
local text = require "tide.text"

local report = {}

local NAME_BYTES <const> = 128
local TEXT_BYTES <const> = 1024
local FIELDS_MAX <const> = 1024
local SUMS_MAX <const> = 4096  -- names of the sums over all workers

-- Names that the controller, the driver and the run's directory give to something else.
local RESERVED <const> = {
  kind = true, n = true, clock = true, workers = true, elapsed_s = true, params = true, stop = true, time = true,
  rank = true, node = true, wait_s = true, peers_bytes = true, peers_wait_s = true, alike = true, wait = true,
}

-- Names that were found good: workers report the same ones again and again.
local good, good_count = {}, 0

---@param name any
---@return string|nil fault why nothing in a report can have this name
function report.name_fault(name)
  if good[name] then return nil end
  if type(name) ~= "string" then
    return ("its fields have names, as in {loss = 0.5}, and %s is none"):format(type(name) == "number"
      and ("%s (a %s)"):format(name, type(name)) or "a " .. type(name))
  end
  if name == "" then return "the name of a field is empty" end
  if #name > NAME_BYTES then
    return ("the name of a field has %d bytes, more than %d: `%s...`"):format(#name, NAME_BYTES,
      text.clean(name:sub(1, 20)))
  end
  if not utf8.len(name) or name:find "%c" then
    return ("the name %s is not printable UTF-8"):format((("%q"):format(name):gsub("[\x80-\xff]", function(c)
      return ("\\x%02x"):format(c:byte())
    end)))
  end
  if RESERVED[name] then return ("`%s` is a name that reports use themselves"):format(name) end
  if good_count >= SUMS_MAX then good, good_count = {}, 0 end
  good[name], good_count = true, good_count + 1
  return nil
end

local function value_fault(name, value, numbers)
  if type(value) == "string" and not numbers and name ~= "examples" then
    if #value > TEXT_BYTES then return ("the text `%s` has %d bytes, more than %d"):format(name, #value, TEXT_BYTES) end
    return not utf8.len(value) and ("the text `%s` is no UTF-8"):format(name) or nil
  elseif type(value) == "boolean" and not numbers and name ~= "examples" then
    return nil
  elseif type(value) ~= "number" then
    local what <const> = type(value) == "boolean" and tostring(value) or "a " .. type(value)
    return ("`%s` is %s, not a number"):format(name, what)
  end
  if name == "examples" and not (value >= 0 and value < math.huge) then
    return ("`examples` is %s, not a number of examples: 0 or more"):format(value)
  end
  return nil
end

---@param fields any numbers, texts and booleans by name
---@param what? string what they are called, of numbers alone; nil: "a report"
---@param besides? table<string, true> names of fields that are looked at elsewhere
---@return string|nil fault
function report.fault(fields, what, besides)
  if type(fields) ~= "table" then
    return ("%s is a table of numbers, as {loss = 0.5, examples = 10}, not a %s"):format(what or "a report",
      type(fields))
  end
  local count = 0
  for name, value in next, fields do
    count = count + 1
    local fault <const> = not (besides and besides[name])
      and (report.name_fault(name) or value_fault(name, value, what ~= nil))
    if fault then return fault end
  end
  if count > FIELDS_MAX then
    return ("%s has at most %d fields, and this one %d"):format(what or "a report", FIELDS_MAX, count)
  end
  return nil
end

---@param sum any what a job's evaluation returned
---@param count any
---@return string|nil fault
function report.evaluation_fault(sum, count)
  if count ~= nil and type(count) ~= "number" then return "returns a " .. type(count) .. " as count, not a number" end
  if sum == nil or type(sum) == "number" then return nil end
  if type(sum) ~= "table" then return ("returns a %s, not a sum or a table of sums by name"):format(type(sum)) end
  for name, value in next, sum do
    if type(name) ~= "string" or type(value) ~= "number" then
      return ("returns a table of sums with `%s`, which is a %s"):format(text.clean(tostring(name)), type(value))
    end
  end
  return nil
end

-- How many names a table of sums has.
local sizes <const> = setmetatable({}, {__mode = "k"})

---Adds the numbers of a report to sums. Raises where workers report ever new names.
---@param sums table<string, number>
---@param fields table<string, any> what is no number is left out
function report.add(sums, fields)
  local size = sizes[sums]
  if not size then
    size = 0
    for _ in next, sums do size = size + 1 end
  end
  for name, value in next, fields do
    if type(value) == "number" and name ~= "rank" then
      size = size + (sums[name] and 0 or 1)
      sums[name] = (sums[name] or 0) + value
    end
  end
  sizes[sums] = size
  if size > SUMS_MAX then
    errors.raise("T0113", ("the reports of all workers have more than %d different names"):format(SUMS_MAX))
  end
end

---What a number of a report is the sum over: `NAME_n` for any NAME; for `loss` and `valid_loss` their `examples` and
---`valid_examples`, else `examples`.
---@param r table<string, any> a report of all workers, or a line of reports.jsonl
---@param name string
---@return number|nil nil: it is no sum over something that the report counts
function report.count_of(r, name)
  local part <const> = name:match "^(.*)loss$"
  local count <const> = r[name .. "_n"] or part and (r[part .. "examples"] or r.examples)
  return type(count) == "number" and count > 0 and count or nil
end

---A number of a report as it is shown and compared: the mean of a sum that the report has a count for.
---@param r table<string, any>
---@param name string "loss", "valid_loss", "correct"
---@return number|nil
function report.value(r, name)
  local value <const>, count <const> = r[name], report.count_of(r, name)
  if type(value) ~= "number" then return nil end
  return count and value / count or value
end

return report
