-- The schedule of DSGD (Gemulla et al., KDD 2011) over a matrix that is cut into P x P blocks: an epoch has P
-- sub-epochs; in each, no two blocks that are worked on share a row or a column. It depends on P, seed and epoch alone,
-- not on how many workers share the work.
--
-- It is nested: pairs of row blocks have the same pair of column blocks for two sub-epochs, pairs of pairs those of
-- four, and so on by the prime factors of P. A worker with two or four row blocks keeps its columns that long, and gets
-- all of them from one other.
--
-- Row and column blocks are numbered from 0.
local tide = require "tide"

---@class tide.data.schedule of one epoch
local schedule = {}
schedule.__index = schedule

---The numbers 0 .. n - 1 in a drawn order.
---@return integer[]
function schedule.permutation(random, n)
  local list = {}
  for i = 1, n do
    local j = random:below(i) + 1
    list[i] = list[j]
    list[j] = i - 1
  end
  return list
end

---@return integer[] prime factors, the greatest first
local function factors(n)
  local list, f = {}, 2
  while n > 1 do
    if n % f == 0 then
      n = n // f
      table.insert(list, 1, f)
    else
      f = f + 1
    end
  end
  return list
end

---A permutation of the numbers with these digits (`radices`, from the `first` one on) that keeps together what shares
---its leading digits.
local function nested_permutation(random, radices, first)
  if first > #radices then return {0} end
  local list, outer = {}, schedule.permutation(random, radices[first])
  for _, digit in ipairs(outer) do
    local inner = nested_permutation(random, radices, first + 1)
    for _, rest in ipairs(inner) do list[#list + 1] = digit * #inner + rest end
  end
  return list
end

---Adds digit by digit, without carries.
local function add(radices, a, b)
  local sum, unit = 0, 1
  for i = #radices, 1, -1 do
    local radix = radices[i]
    sum = sum + (a + b) % radix * unit
    a, b, unit = a // radix, b // radix, unit * radix
  end
  return sum
end

---@param blocks integer P
---@param epoch integer
---@param seed integer the same on all workers
---@return tide.data.schedule
function schedule.new(blocks, epoch, seed)
  local random <const>, radices <const> = tide.random((seed * 1000003 + epoch) * 1000003 + blocks), factors(blocks)
  return setmetatable({blocks = blocks, radices = radices, lines = nested_permutation(random, radices, 1),
                       places = nested_permutation(random, radices, 1)}, schedule)
end

---@param e integer sub-epoch, from 0
---@return integer the column block that goes with this row block
function schedule:column(e, row) return add(self.radices, self.lines[e + 1], self.places[row + 1]) end

---@return integer[] column blocks of the row blocks first .. first + own - 1 in sub-epoch e, rising
function schedule:columns(e, first, own)
  local list = {}
  for row = first, first + own - 1 do list[#list + 1] = self:column(e, row) end
  table.sort(list)
  return list
end

---The last prime factors of P of which `own` is a multiple: for as many sub-epochs as their product is, a worker with
---`own` row blocks keeps its columns.
---@return integer product
---@return integer[] radices
function schedule.stay(blocks, own)
  local all <const>, kept = factors(blocks), {}
  local product = 1
  for i = #all, 1, -1 do
    if own % (product * all[i]) ~= 0 then break end
    product = product * all[i]
    table.insert(kept, 1, all[i])
  end
  return product, kept
end

---The blocks of row blocks first .. first + own - 1 from sub-epoch `at` up to the next change of columns. Blocks that
---share a row or a column come in the order of their sub-epochs; among all such orders this is the one that goes up in
---columns wherever it may, digit by digit: so columns with small numbers are needed before the others, which are needed
---late, and are done with early.
---@return {row: integer, column: integer, columns: integer[]}[]
function schedule:visits(at, first, own)
  local stay <const>, radices <const> = schedule.stay(self.blocks, own)
  local list, keys = {}, {}
  for e = 0, stay - 1 do
    for row = first, first + own - 1 do
      local column <const> = self:column(at + e, row)
      local key, unit = column // stay, stay
      for _, radix in ipairs(radices) do
        unit = unit // radix
        key = (key * radix + e // unit % radix) * radix + column // unit % radix
      end
      local visit <const> = {row = row, column = column, columns = {column}}
      list[#list + 1], keys[visit] = visit, key
    end
  end
  table.sort(list, function(a, b) return keys[a] < keys[b] end)
  return list
end

---@class tide.data.dsgd : tide.data.plan
local dsgd = {}
dsgd.__index = dsgd

---The plan of workers with `own` row blocks each (rotation.lua): a round is as long as they keep their columns.
---@return tide.data.dsgd
function schedule.plan(blocks, own, seed)
  local stay <const> = schedule.stay(blocks, own)
  return setmetatable({workers = blocks // own, rounds = blocks // stay, blocks = blocks, own = own, stay = stay,
                       seed = seed}, dsgd)
end

function dsgd:of(epoch)
  if self.epoch ~= epoch then self.epoch, self.schedule = epoch, schedule.new(self.blocks, epoch, self.seed) end
  return self.schedule
end

function dsgd:columns(epoch, round, rank)
  return self:of(epoch):columns(round * self.stay, (rank - 1) * self.own, self.own)
end

function dsgd:visits(epoch, round, rank)
  return self:of(epoch):visits(round * self.stay, (rank - 1) * self.own, self.own)
end

return schedule
