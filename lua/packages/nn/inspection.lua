-- Inspects a net: the values of a list that was run once, operation by operation (run:inspect).
local compute = require "tide.compute"

local inspection = {}

---The origin of the first number that is not finite.
---@param list table[] of run:inspect
---@return string text behind "the loss of step 3 is not finite"
---@return string|nil where file:line
function inspection.culprit(list)
  for _, kind in ipairs {"input", "parameter"} do
    for _, v in ipairs(list) do
      if v.operation == kind and v.bad > 0 then
        return (": %s \"%s\" has %d of %d%s"):format(kind, v.name, v.bad, v.count,
          kind == "parameter" and ", from the update of a step before" or "")
      end
    end
  end
  for _, v in ipairs(list) do
    if v.bad > 0 then
      return (": %s%s%s made the first, %d of %d, from finite numbers"):format(v.operation,
        v.backward and " (backward)" or "", v.layer ~= "" and (" of layer %q"):format(v.layer) or "", v.bad, v.count),
        v.at ~= "" and v.at or nil
    end
  end
  return "", nil
end

-- Statistics of arrays together, each as of compute.statistics: mean, std, the greatest magnitude, the share of zeros,
-- how many are not finite; `bins` where nothing is scaled: how many have a magnitude of 4^b to below 4^(b+1).
local function figures(parts, scale)
  local all <const>, bins = {count = 0, n = 0, sum = 0, squares = 0, zeros = 0, bad = 0, max = 0}, {}
  for _, s in ipairs(parts) do
    local n <const> = s.count - s.bad
    all.count, all.bad, all.zeros, all.n = all.count + s.count, all.bad + s.bad, all.zeros + s.zeros, all.n + n
    all.sum, all.squares = all.sum + n * s.mean, all.squares + n * (s.std ^ 2 + s.mean ^ 2)
    all.max = math.max(all.max, math.abs(s.least), math.abs(s.greatest))
    for b, count in pairs(s.bins) do bins[b] = (bins[b] or 0) + count end
  end
  local mean <const> = all.n > 0 and all.sum / all.n or 0
  local variance <const> = all.n > 0 and math.max(0, all.squares / all.n - mean ^ 2) or 0
  return {mean = scale * mean, std = scale * variance ^ 0.5, max = scale * all.max, bad = all.bad,
          zeros = all.count > 0 and all.zeros / all.count or 0}, scale == 1 and bins or nil
end

---@class tide.nn.watched statistics by layer, in the order of the net; tostring makes a table of them
local watched = {}
watched.__index = watched

---@param model tide.nn.model
---@param list table[] of run:inspect
---@param gradients table tensor of the parameters' layout, on the host
---@param count number that gradients are divided by
---@return tide.nn.watched {{name=, values=, gradient=, weights=}}: each {mean=, std=, max=, zeros=, bad=} or nil
function inspection.watch(model, list, gradients, count)
  local layers, by_name = {}, {}
  local function layer(name)
    if not by_name[name] then
      by_name[name] = {name = name}
      layers[#layers + 1] = by_name[name]
    end
    return by_name[name]
  end
  for _, v in ipairs(list) do -- the last one that a layer makes forward is what it gives
    local forward <const> = not v.backward and v.operation ~= "input" and v.operation ~= "parameter"
    if forward and v.layer ~= "" and v.output == 1 then
      local own <const> = layer(v.layer)
      own.values, own.value_bins = figures({v}, 1)
    end
  end
  for i, place in ipairs(model.layout.layers) do
    local own <const> = layer(place.name ~= "" and place.name or "(no layer)")
    local weights, made = {}, {}
    for _, p in ipairs(model.layout.parameters) do
      if p.layer == i then
        weights[#weights + 1] = compute.statistics(model.parameters, p.first, p.count)
        made[#made + 1] = compute.statistics(gradients, p.first, p.count)
      end
    end
    own.weights, own.weight_bins = figures(weights, 1)
    own.gradient = figures(made, count > 0 and 1 / count or 0)
  end
  return setmetatable(layers, watched)
end

local SHOWN <const> = {"values", "gradient", "weights"}

function watched:__tostring()
  local lines <const> = {("%-16s %-9s %11s %11s %11s %7s %5s"):format("layer", "of", "mean", "std", "max", "zeros",
    "bad")}
  for _, each in ipairs(self) do
    for _, what in ipairs(SHOWN) do
      local f <const> = each[what]
      if f then
        lines[#lines + 1] = ("%-16s %-9s %11.3g %11.3g %11.3g %6.1f%% %5d"):format(each.name, what, f.mean, f.std,
          f.max, 100 * f.zeros, f.bad)
      end
    end
  end
  return table.concat(lines, "\n")
end

local BINNED <const> = {values = "value_bins", weights = "weight_bins"}
local FIELDS_MAX <const> = 800 -- with bins; a report has at most 1,024, and the job's own are to come

---Its numbers as fields of a report: `fc1.values_std`; and while there are not too many layers, histograms:
---`fc1.weights_bin_-3` counts the weights of a magnitude of 4^-3 to below 4^-2.
---@return table<string, number>
function watched:fields()
  local fields, count, bins = {}, 0, {}
  for _, each in ipairs(self) do
    for _, what in ipairs(SHOWN) do
      for name, number in pairs(each[what] or {}) do
        fields[("%s.%s_%s"):format(each.name, what, name)], count = number, count + 1
      end
      for b, number in pairs(each[BINNED[what]] or {}) do
        bins[#bins + 1] = {("%s.%s_bin_%d"):format(each.name, what, b), number}
      end
    end
  end
  for _, bin in ipairs(count + #bins <= FIELDS_MAX and bins or {}) do fields[bin[1]] = bin[2] end
  return fields
end

local function with_commas(n)
  return (("%d"):format(n):reverse():gsub("(%d%d%d)(%d)", "%1,%2"):reverse())
end

---Layers with the shapes of their results and the number of their parameters.
---@param program tide.nn.program
---@return string text
function inspection.summary(program)
  local lines <const> = {("%-16s %-12s %-26s %12s"):format("layer", "kind", "gives", "parameters")}
  local all, listed, counts = 0, {}, {}
  local layout <const> = program:layout()
  for _, p in ipairs(layout.parameters) do
    local of <const> = layout.layers[p.layer].name
    counts[of], all = (counts[of] or 0) + p.count, all + p.count
  end
  for _, each in ipairs(program.shown) do
    local again <const> = listed[each.name]
    listed[each.name] = true
    lines[#lines + 1] = ("%-16s %-12s %-26s %12s"):format(each.name, each.kind, each.shape,
      again and "shared" or with_commas(counts[each.name] or 0))
  end
  for _, place in ipairs(layout.layers) do
    if not listed[place.name] then
      lines[#lines + 1] = ("%-16s %-12s %-26s %12s"):format(place.name ~= "" and place.name or "(no layer)", "", "",
        with_commas(counts[place.name] or 0))
    end
  end
  lines[#lines + 1] = ("%-16s %-12s %-26s %12s"):format("all", "", "", with_commas(all))
  return table.concat(lines, "\n")
end

return inspection
