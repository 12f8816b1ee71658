-- The mean or the sum of an array over the workers of a job, by an exchange of its own. If a worker dies, the others
-- still get equal results.
local exchange = require "tide.nn.exchange"

local KEY <const> = 1024

---@class tide.nn.mean
local mean = {}
mean.__index = mean

---@param w tide.worker
---@param ranks integer[] of the callers
---@param elements integer a multiple of 1024
---@return tide.nn.mean
function mean.new(w, ranks, elements)
  local self = setmetatable({step = 0, elements = elements}, mean)
  self.core = exchange.connect(w, {{first = 0, count = elements}}, elements, ranks)
  self.core:plan {epoch = 0, paths = {"ps"}, formats = {"f32"}, fanouts = {0}}
  return self
end

function mean:close() self.core:close() end

---@return integer number of workers in the sum that the exchange now holds
local function add_up(self, tensor)
  self.step = self.step + 1
  exchange.set(self.core:gradients(KEY), tensor, 1, self.elements)
  self.core:ready(1, self.step)
  self.core:share(self.step, {1})
  self.core:sums(self.step)
  local _, count = self.core:next(1, self.step)
  self.core:need(1, self.step, false)
  return count
end

---The tensor (f32, rows of 1024) becomes the mean of all workers'.
function mean:of(tensor)
  local count <const> = add_up(self, tensor)
  exchange.set(tensor, self.core:sum(KEY), 1 / count, self.elements)
end

---The tensor becomes the sum of all workers'.
function mean:sum(tensor)
  add_up(self, tensor)
  exchange.set(tensor, self.core:sum(KEY), 1, self.elements)
end

return mean
