-- Which variables a round may take, before any check: what a job's `schedule` chooses among. Every worker has this
-- state and draws alike: all depends on the seed, the round and what has changed so far.
local kernels = require("tide.package").kernels
local tensor = require "tide.tensor"
local tide = require "tide"

local sample <const>, weigh <const> = kernels.descent_sample, kernels.descent_weigh

---@class tide.descent.state
---@field x table f64 tensor, the variables
---@field weights table f64 tensor: |change| of each variable at its last update, 1 at first
---@field J integer how many variables there are
---@field round integer
---@field floor number the share of the mean weight that each variable has at least in `priority`
---@field epoch integer of `active`: how many have begun
local state = {}
state.__index = state

---@param o {J: integer, x: table, seed: integer, floor: number}
function state.new(o)
  local self <const> = setmetatable({J = o.J, x = o.x, seed = o.seed, floor = o.floor, round = 0, epoch = 0,
                                     weights = tensor.zeros("f64", o.J):fill(1.0), left_out = o.left_out}, state)
  self.tree = tensor.zeros("f64", o.J + 1)
  return self
end

---After the state was made or taken over: what follows from x, the weights and the round alone.
function state:begin()
  if self.left_out then
    for j = 1, self.J do
      if self.left_out[j] == 2 then self.weights[j] = 0 end
    end
  end
  weigh {weights = self.weights, tree = self.tree}
  self.order, self.at, self.whole, self.deferred = nil, 0, true, {}
end

---A seed of this round and purpose.
local function seed_of(self, purpose) return (self.seed * 1000003 + self.round * 64 + purpose) % (1 << 50) end

local function out_of(numbers, count)
  local list = {}
  for i = 1, count do list[i] = numbers[i] + 1 end
  return list
end

---Variables drawn uniformly, none twice.
---@param n integer
---@return integer[] from 1
function state:random(n)
  local random <const>, list, seen = tide.random(seed_of(self, 1)), {}, {}
  n = math.min(n, self.J)
  for _ = 1, 64 * n do
    if #list == n then break end
    local j <const> = random:below(self.J) + 1
    if not seen[j] and self.weights[j] >= 0 and not (self.left_out and self.left_out[j] == 2) then
      seen[j], list[#list + 1] = true, j
    end
  end
  return list
end

---Variables drawn by how much they changed last, twice as many as are wanted, in the order in which they were drawn:
---sorted by weight, those that the floor brings in would never be taken.
---@param n integer
---@return integer[]
function state:priority(n)
  local out <const> = tensor.zeros("u32", math.min(2 * n, self.J))
  local r <const> = sample {weights = self.weights, tree = self.tree, seed = seed_of(self, 2), count = #out,
                            floor = self.floor, out = out}
  return out_of(out, r.drawn)
end

---A fixed partition: n neighbours at a time, one block a round, each time beginning with another of them.
---@param n integer
---@return integer[]
function state:blocks(n)
  local blocks <const> = (self.J + n - 1) // n
  local first <const>, list = (self.round % blocks) * n, {}
  local count <const> = math.min(n, self.J - first)
  for k = 0, count - 1 do list[k + 1] = first + (k + self.round // blocks) % count + 1 end
  return list
end

---The next of an epoch over the variables that are not 0, in random order; epochs over all come between. Empty where an
---epoch ends.
---@param n integer
---@return integer[]
function state:active(n)
  if not self.order then
    local list = {}
    for j = 1, self.J do
      if (self.whole or self.x[j] ~= 0) and not (self.left_out and self.left_out[j] == 2) then list[#list + 1] = j end
    end
    local random <const> = tide.random(seed_of(self, 3))
    for i = #list, 2, -1 do
      local k <const> = random:below(i) + 1
      list[i], list[k] = list[k], list[i]
    end
    self.order, self.at, self.epoch = list, 0, self.epoch + 1
  end
  local list <const> = self.deferred
  self.deferred = {}
  while #list < n and self.at < #self.order do
    self.at = self.at + 1
    list[#list + 1] = self.order[self.at]
  end
  return list
end

---Those that were not taken have their turn in the next round.
---@param list integer[]
function state:defer(list)
  if not self.order then return end
  for _, j in ipairs(list) do self.deferred[#self.deferred + 1] = j end
end

---The end of an epoch: over all variables next, or over those that are not 0.
---@param still boolean whether the epoch gained next to nothing
---@return boolean whether it was one over all that gained next to nothing
function state:turn(still)
  local was <const> = self.whole
  self.order, self.deferred = nil, {}
  self.whole = not was and still
  return was and still
end

---Changes that were made.
---@param set integer[]
---@param changes number[]
function state:changed(set, changes)
  local places <const>, values <const> = tensor.zeros("u32", #set), tensor.zeros("f64", #set)
  for i, j in ipairs(set) do places[i], values[i] = j - 1, math.abs(changes[i]) end
  if #set > 0 then weigh {weights = self.weights, tree = self.tree, set = places, values = values} end
end

return state
