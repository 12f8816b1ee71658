-- A worker's replica of a model's parameters beside the table that holds them for others: what was learnt is written to
-- it in ranges, and replicas that differ are made equal from it.
local compute = require "tide.compute"
local package = require "tide.package"
local tensor = require "tide.tensor"

---@class tide.nn.replica
---@field resyncs integer how often replicas were not equal
local replica = {}
replica.__index = replica

---@return table u64 tensor first .. first + count - 1
function replica.range(first, count)
  local keys = tensor.zeros("u64", count, 1)
  for i = 1, count do keys[i] = first + i - 1 end
  return keys
end

---@param w tide.worker with a table `params`: rows of 1024, update "assign"
---@param model table with `parameters`, a tensor keys x 1024
---@return tide.nn.replica
function replica.new(w, model)
  return setmetatable({w = w, model = model, table = w.tables.params, resyncs = 0}, replica)
end

---Ranks of the values of a barrier, in order.
---@return integer[]
function replica.ranks(values)
  local ranks = {}
  for rank in pairs(values) do ranks[#ranks + 1] = rank end
  table.sort(ranks)
  return ranks
end

---Writes the parameters: each worker a range of its own. Who dies meanwhile has perhaps not written its own; then the
---others write all again.
---@param rest? fun() writes what is the same on all and not among the parameters; the first worker calls it
---@param more? fun(i: integer, n: integer) writes the i-th of n pieces of something else
function replica:store(rest, more)
  local there = replica.ranks(self.w:barrier("storing", true))
  local ranks
  repeat
    ranks = there
    if rest and ranks[1] == self.w.rank then rest() end
    for i, rank in ipairs(ranks) do
      local first, count = package.piece(self.model.parameters:rows(), i, #ranks)
      if rank == self.w.rank and count > 0 then
        self.table:push(replica.range(first - 1, count), self.model.parameters:slice(first, count))
      end
      if rank == self.w.rank and more then more(i, #ranks) end
    end
    there = replica.ranks(self.w:barrier("stored", true))
  until #there == #ranks
end

---Takes what the table has.
function replica:fetch()
  self.table:pull(replica.range(0, self.model.parameters:rows()), {into = self.model.parameters})
  if self.model.give then self.model:give() end
end

---Replicas are equal bit for bit on processors that multiply alike; where they are not, all take what the table has.
function replica:compare()
  local digests <const> = self.w:barrier("replicas", compute.digest(self.model.parameters))
  local own <const> = digests[self.w.rank]
  local same = true
  for _, digest in pairs(digests) do same = same and digest == own end
  if same then return end
  self.table:pull(replica.range(0, self.model.parameters:rows()), {into = self.model.parameters})
  self.resyncs = self.resyncs + 1
end

return replica
