-- The examples of tide.multitask, as every worker reads them: rows of one task lie together, those to train on first,
-- then those that validate, then those held out.
local kernels = require("tide.package").kernels
local package = require "tide.package"
local tasks = require "tide.data.tasks"
local tensor = require "tide.tensor"
local tide = require "tide"

---@class tide.multitask.problem
---@field m integer tasks; d: columns, with the constant; n: rows
---@field numbers integer[] of the tasks, as the data has them
---@field constant integer[]|nil columns that standardising leaves out
---@field first integer[] of each task: its first row, from 0
---@field counts {train: integer, validate: integer, test: integer}[] of each task
---@field y table f64 tensor, minus `shift` for squared loss
---@field x table {values =} dense f32 n x d, or {offsets =, indices =, values =}
local problem = {}
problem.__index = problem

local CONSTANT <const> = 1e-26 -- a column's variance beside the square of its mean
local PARTS <const> = {"train", "validate", "test"}

local function fail(message, help) error(package.error("T0203", message, {help = help}), 0) end

---Rows by task of each part; where nothing validates, a share of the rows to train on is taken.
local function rows_of(data, o)
  local parts, rows, numbers, seen = {}, {}, {}, {}
  for _, name in ipairs(PARTS) do
    local ok, part = pcall(data.whole, data, name)
    if ok then
      local by, list = tasks.rows(part)
      parts[name], rows[name] = part, by
      for _, t in ipairs(list) do
        if not seen[t] then
          seen[t] = true
          numbers[#numbers + 1] = t
        end
      end
    elseif name == "train" then
      error(part, 0)
    else
      rows[name] = {}
    end
  end
  table.sort(numbers)
  if not parts.validate and o.validate > 0 then
    local random <const> = tide.random(o.seed)
    parts.validate = parts.train
    for _, t in ipairs(numbers) do
      local own <const> = rows.train[t] or {}
      for i = #own, 2, -1 do
        local k <const> = random:below(i) + 1
        own[i], own[k] = own[k], own[i]
      end
      local tried <const>, kept = math.floor(#own * o.validate + 0.5), #own
      if tried > 0 and kept - tried >= 1 then
        rows.validate[t] = table.move(own, kept - tried + 1, kept, 1, {})
        rows.train[t] = table.move(own, 1, kept - tried, 1, {})
      end
    end
  end
  return parts, rows, numbers
end

---Mean of each column over the rows to train on, and deviation; 0 where a column is constant. Squares are summed around
---the mean: of a column of 200,000 +- 1 the difference of two sums would have no digits left.
local function moments(self, order)
  local d <const> = self.columns
  local mean <const>, deviation <const>, count = tensor.zeros("f64", d), tensor.zeros("f64", d), 0
  local sum <const>, entries <const> = tensor.zeros("f64", d), tensor.zeros("f64", d)
  local function each(f)
    for _, r in ipairs(order) do
      if r.name == "train" then
        for j, v in r.part:row(r.row) do f(j + 1, v) end
      end
    end
  end
  for _, r in ipairs(order) do count = count + (r.name == "train" and 1 or 0) end
  each(function(j, v) mean[j], entries[j] = mean[j] + v / count, entries[j] + 1 end)
  each(function(j, v)
    sum[j] = sum[j] + (v - mean[j])
    deviation[j] = deviation[j] + (v - mean[j]) ^ 2
  end)
  self.constant = {}
  for j = 1, d do
    local zeros <const> = count - entries[j]
    local rest <const> = (sum[j] - zeros * mean[j]) / count
    local var <const> = (deviation[j] + zeros * mean[j] ^ 2) / count - rest ^ 2
    local varies <const> = var > CONSTANT * mean[j] ^ 2
    deviation[j] = varies and math.sqrt(var) or 0
    if not varies and mean[j] ~= 0 then self.constant[#self.constant + 1] = j end
  end
  return mean, deviation
end

local function check_label(self, y, t)
  if y ~= y or math.abs(y) == math.huge then fail(("task %d: a label is %g"):format(self.numbers[t], y)) end
  if self.loss ~= "squared" and y ~= 1 and y ~= -1 then
    if y == 0 then return -1 end
    fail(("task %d: label %g; %s loss requires -1 and 1"):format(self.numbers[t], y, self.loss))
  end
  return y
end

---The numbers of one example as the model has them: scaled, over sqrt(d), with the constant.
---@param values table f32 tensor to write to, at = place before the first
function problem:write_row(part, row, values, at)
  local scale <const> = self.scale
  if self.mean then
    for j = 1, self.columns do
      if self.deviation[j] > 0 then values[at + j] = -self.mean[j] / self.deviation[j] * scale end
    end
    for j, v in part:row(row) do
      if self.deviation[j + 1] > 0 then
        values[at + j + 1] = (v - self.mean[j + 1]) / self.deviation[j + 1] * scale
      end
    end
  else
    for j, v in part:row(row) do values[at + j + 1] = v end
  end
  if self.bias then values[at + self.d] = 1 end
end

---@param o table data, loss, standardise, bias, validate, seed
---@return tide.multitask.problem
function problem.new(o)
  local data <const> = o.data
  local self <const> = setmetatable({loss = o.loss, bias = o.bias, columns = data.columns, first = {}, counts = {},
                                     shift = 0.0, scale = 1.0, out = {}}, problem)
  local parts, rows, numbers = rows_of(data, o)
  self.numbers, self.m, self.d = numbers, #numbers, self.columns + (o.bias and 1 or 0)
  local order = {}
  for t, number in ipairs(numbers) do
    self.first[t] = #order
    local counts <const> = {}
    for _, name in ipairs(PARTS) do
      local own <const> = rows[name][number] or {}
      counts[name] = #own
      for _, row in ipairs(own) do order[#order + 1] = {part = parts[name], row = row, name = name, task = t} end
    end
    if counts.train == 0 then fail(("task %d has no example to train on"):format(number)) end
    self.counts[t] = counts
  end
  self.n = #order
  if o.standardise then
    self.mean, self.deviation = moments(self, order)
    self.scale = 1 / math.sqrt(self.columns)
  end
  local sum, count = 0, 0
  self.y = tensor.zeros("f64", self.n)
  for i, r in ipairs(order) do
    local y <const> = check_label(self, r.part.labels[r.row], r.task)
    self.y[i] = y
    if r.name == "train" then sum, count = sum + y, count + 1 end
  end
  if self.loss == "squared" and o.bias then
    self.shift = sum / count
    kernels.vector_add {to = self.y, plus = -self.shift}
  end
  self:read(order)
  return self
end

---Dense rows, but for wide data with many zeros that is not to be standardised.
function problem:read(order)
  local entries = 0
  for _, r in ipairs(order) do entries = entries + r.part.offsets[r.row + 1] - r.part.offsets[r.row] end
  if self.mean or entries * 4 > self.n * self.columns then
    local values <const> = tensor.zeros("f32", self.n, self.d)
    for i, r in ipairs(order) do self:write_row(r.part, r.row, values, (i - 1) * self.d) end
    self.x = {values = values}
    return
  end
  local more <const> = self.bias and self.n or 0
  local x <const> = {offsets = tensor.zeros("u64", self.n + 1), indices = tensor.zeros("u32", entries + more),
                     values = tensor.zeros("f32", entries + more)}
  local at = 0
  for i, r in ipairs(order) do
    for j, v in r.part:row(r.row) do
      at = at + 1
      x.indices[at], x.values[at] = j, v
    end
    if self.bias then
      at = at + 1
      x.indices[at], x.values[at] = self.columns, 1
    end
    x.offsets[i + 1] = at
  end
  self.x = x
end

---A kernel of rows with these arguments.
function problem:kernel(kernel, a)
  a.offsets, a.indices, a.values, a.d = self.x.offsets, self.x.indices, self.x.values, self.d
  return kernel(a)
end

---A digest of the examples, which all workers have to have alike.
---@return string
function problem:digest()
  local x <const> = self.x
  local list <const> = {self.y, x.values}
  list[3], list[4] = x.offsets, x.indices
  return require "tide.data".digest(list)
end

---Tasks that are left out: they have no loss. Their parameters are what those of the others say, S B / lambda, and the
---others are as if S had no rows of them.
---@param numbers? integer[] as the data has them
function problem:leave_out(numbers)
  local out <const>, places <const>, left = {}, {}, self.m
  for t, number in ipairs(self.numbers) do places[number] = t end
  for _, number in ipairs(numbers or {}) do
    local t <const> = places[number]
    if not t then fail(("without: there is no task %s"):format(tostring(number))) end
    if not out[t] then left = left - 1 end
    out[t] = true
  end
  if left == 0 then fail "without: no task is left" end
  self.out = out
end

---Rows that a fit takes of a task: those to train on, and with `all` those that validate.
function problem:rows(t, all)
  if self.out[t] then return 0 end
  local c <const> = self.counts[t]
  return c.train + (all and c.validate or 0)
end

return problem
