-- Guards: a metric that must not get worse after a swap. The baseline is the metric's median over as long a time before
-- the swap as the guard lasts; the median of what was seen since is compared with it.
local core = require "tide.core"
local errors = require "tide.errors"
local text = require "tide.text"
local units = require "tide.units"

local guard = {}

local SAMPLES_MAX <const> = 4096
local SAMPLES_MIN <const> = 3 -- one bad sample is no breach

---Keeps a sample, in order of time.
---@param metrics table<string, {at: number[], value: number[], first: integer, n: integer}> by name
---@param most? integer how many are kept
function guard.sample(metrics, name, at, value, most)
  local list = metrics[name]
  if not list then
    list = {at = {}, value = {}, first = 1, n = 0}
    metrics[name] = list
  end
  list.at[list.first + list.n], list.value[list.first + list.n] = at, value
  if list.n < (most or SAMPLES_MAX) then
    list.n = list.n + 1
  else
    list.at[list.first], list.value[list.first] = nil, nil
    list.first = list.first + 1
  end
end

---@param list? table samples of guard.sample
---@return number|nil median, integer count of the samples in (from, to]
function guard.median(list, from, to)
  local values = {}
  for i = list and list.first or 1, list and list.first + list.n - 1 or 0 do
    if list.at[i] > from and list.at[i] <= to then values[#values + 1] = list.value[i] end
  end
  return core.k.quantile(values, 0.5), #values
end

local POINTS_MAX <const> = 400

local function unknown(metrics, name, within)
  return errors.new("T0307", ("there is no sample of `%s` from the last %g s; measured are: %s"):format(tostring(name),
    within, #text.sorted_keys(metrics) > 0 and table.concat(text.sorted_keys(metrics), ", ") or "none"))
end

---Samples of a metric for a picture: at most 400 points, each the mean of those that it stands for.
---@param metrics table
---@param name string
---@param now number
---@param last? number seconds before now; default: all that are kept
---@return {at: number[], value: number[]}|nil curve at: seconds before now, table? err
function guard.curve(metrics, name, now, last)
  local list <const>, out = metrics[name], {at = {}, value = {}}
  local first, stop = list and list.first or 1, list and list.first + list.n - 1 or 0
  while last and first <= stop and list.at[first] < now - last do first = first + 1 end
  if first > stop then return nil, unknown(metrics, name, last or now) end
  local each <const> = (stop - first) // POINTS_MAX + 1
  for from = first, stop, each do
    local till, at, value = math.min(from + each - 1, stop), 0, 0
    for i = from, till do at, value = at + list.at[i], value + list.value[i] end
    out.at[#out.at + 1], out.value[#out.value + 1] = now - at / (till - from + 1), value / (till - from + 1)
  end
  return out
end

local function share(v)
  if type(v) == "string" and v:match "^%d+%.?%d*%%$" then v = tonumber(v:sub(1, -2)) / 100 end
  return type(v) == "number" and v > 0 and v < 1e6 and v or nil
end

---@param o {metric: string, drop?: number|string, rise?: number|string, within?: number|string}
---@return {drop?: number, rise?: number, within: number}|nil wanted, table? err
function guard.parse(o)
  local drop, rise = share(o.drop), share(o.rise)
  if type(o.metric) ~= "string" or (drop == nil) == (rise == nil) then
    return nil, errors.new("T0307", "a guard is {metric = name, drop = share or rise = share, within = time}")
  end
  local within = type(o.within) == "number" and o.within or units.parse_duration(o.within or "60s")
  if not within or within <= 0 then return nil, errors.new("T0307", "`within` must be a time") end
  return {drop = drop, rise = rise, within = within}
end

---@param metrics table
---@param o table of guard.parse
---@return table|nil guard, table? err
function guard.arm(metrics, o, now)
  local wanted, err = guard.parse(o)
  if not wanted then return nil, err end
  local drop, rise, within = wanted.drop, wanted.rise, wanted.within
  local baseline, count = guard.median(metrics[o.metric], now - within, now)
  if not baseline then return nil, unknown(metrics, o.metric, within) end
  local limit = drop and baseline - drop * math.abs(baseline) or baseline + rise * math.abs(baseline)
  return {metric = o.metric, baseline = baseline, limit = limit, drops = drop ~= nil, from = now, ends = now + within,
          samples = count}
end

---@return "breach"|"passed"|nil verdict, string? text
function guard.look(metrics, g, now)
  local value, count = guard.median(metrics[g.metric], g.from, now)
  local over = now >= g.ends
  if value and (count >= SAMPLES_MIN or over) and (g.drops and value < g.limit or not g.drops and value > g.limit) then
    return "breach", ("%s is %.6g, it was %.6g, the limit is %.6g"):format(g.metric, value, g.baseline, g.limit)
  end
  if not over then return nil end
  if not value then return "breach", ("no sample of %s came within the window"):format(g.metric) end
  return "passed", ("%s is %.6g, it was %.6g"):format(g.metric, value, g.baseline)
end

return guard
