-- Histograms as text, of what the nodes of a cluster count and of numbers.
local errors = require "tide.errors"
local show = require "tide.show"
local targets = require "tide.console.targets"
local text = require "tide.text"

local histogram = {}

local BAR <const> = 40
local SAMPLES_MAX <const> = 100000

local function bar(share, unicode)
  local cells <const> = math.floor(share * BAR + 0.5)
  return ((unicode and "█" or "#"):rep(cells > 0 and cells or share > 0 and 1 or 0))
end

-- The bucket below which a share of all lies, as its upper bound.
local function quantile(buckets, count, q)
  local seen = 0
  for _, bucket in ipairs(buckets) do
    seen = seen + bucket.count
    if seen >= q * count then return bucket.label end
  end
  return "-"
end

local function drawn(self, o)
  local greatest, width = 0, 0
  for _, b in ipairs(self.buckets) do
    greatest, width = math.max(greatest, b.count), math.max(width, text.width(b.label))
  end
  local lines = {("%s: %d %s"):format(text.clean(self.title), self.count, self.unit)}
  if self.count > 0 then
    lines[1] = lines[1] .. ("  half %s, 99 %% %s"):format(quantile(self.buckets, self.count, 0.5),
      quantile(self.buckets, self.count, 0.99))
  end
  for _, b in ipairs(self.buckets) do
    lines[#lines + 1] = (("  %s  %10d  %s"):format(text.pad(b.label, width, true), b.count,
      greatest > 0 and bar(b.count / greatest, o.utf8) or ""):gsub(" +$", ""))
  end
  return table.concat(lines, "\n")
end

-- Buckets from the first to the last that are not empty.
local function trimmed(buckets)
  local first, last
  for i, b in ipairs(buckets) do
    if b.count > 0 then first, last = first or i, i end
  end
  return first and table.move(buckets, first, last, 1, {}) or {}
end

local function made(title, unit, buckets)
  local count = 0
  for _, b in ipairs(buckets) do count = count + b.count end
  return setmetatable({title = title, unit = unit, count = count, buckets = trimmed(buckets)}, {__console = drawn})
end

local function time_label(us)
  if us < 1000 then return ("< %d us"):format(us) end
  if us < 1e6 then return ("< %.3g ms"):format(us / 1000) end
  return ("< %.3g s"):format(us / 1e6)
end

local LABELS <const> = {
  pull = function(i, n) return i == n and ">= 67 s" or time_label(2.0 ^ (i - 1)) end,
  staleness = function(i) return ("%d clocks"):format(i) end,
}
LABELS.push, LABELS.queue = LABELS.pull, LABELS.pull

local TITLES <const> = {
  queue = ", how long messages waited for it",
  pull = ", waits for pulls from other nodes", push = ", waits for pushes to other nodes",
  staleness = ", how old what was read was",
}

---What all nodes count of a table: "pull", "push" (waits for other nodes), "staleness" (of tables with clocks).
---@param name string of the table
---@param kind string
---@return table histogram {title, unit, count, buckets = {{label, count}, ..}}
function histogram.of_table(name, kind)
  if kind == "queue" or not LABELS[kind] then
    error(errors.new("T0105", {message = ("hist: there is no `%s` of a table"):format(text.clean(tostring(kind))),
      help = "of = \"pull\", \"push\" or \"staleness\"; \"queue\" is of an actor"}), 3)
  end
  local sums = {}
  for _, answer in pairs(targets.ask_all {op = "waits", table = name}) do
    for i, count in ipairs(answer[kind] or {}) do sums[i] = (sums[i] or 0) + count end
  end
  return histogram.of_counts(name, kind, kind == "staleness" and "keys" or "waits", sums)
end

---@param name string of what was counted
---@param kind string
---@param unit string
---@param counts integer[]
---@return table histogram
function histogram.of_counts(name, kind, unit, counts)
  local buckets = {}
  for i, count in ipairs(counts) do buckets[i] = {label = LABELS[kind](i, #counts), count = count} end
  return made(name .. TITLES[kind], unit, buckets)
end

---Of numbers, in bins of equal width; what is no number or not finite is left out.
---@param numbers number[]
---@param bins integer
---@return table histogram
function histogram.of_numbers(numbers, bins)
  local low, high, list = math.huge, -math.huge, {}
  for i = 1, math.min(rawlen(numbers), SAMPLES_MAX) do
    local v <const> = rawget(numbers, i)
    if type(v) == "number" and v == v and math.abs(v) < math.huge then
      low, high, list[#list + 1] = math.min(low, v), math.max(high, v), v
    end
  end
  local buckets = {}
  local step <const> = high > low and (high - low) / bins or 1
  for i = 1, high > low and bins or #list > 0 and 1 or 0 do
    buckets[i] = {label = "<= " .. show.number(high > low and low + i * step or low), count = 0}
  end
  for _, v in ipairs(list) do
    local at <const> = math.max(1, math.min(#buckets, math.ceil((v - low) / step)))
    buckets[at].count = buckets[at].count + 1
  end
  return made("numbers", "numbers", buckets)
end

return histogram
