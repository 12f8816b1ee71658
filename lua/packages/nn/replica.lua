-- A worker's replica of a model's parameters, and the table that stores them: workers write the parameters to the table
-- in ranges, and replicas that differ are made equal from it.
local compute = require "tide.compute"
local package = require "tide.package"
local tensor = require "tide.tensor"

---@class tide.nn.replica
---@field resyncs integer number of times that replicas differed
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

---Writes the parameters, each worker a range of its own. If a worker dies meanwhile, the others write all ranges again.
---@param rest? fun() writes state that is equal on all workers and no parameter; the first worker calls it
---@param more? fun(i: integer, n: integer) writes the i-th of n pieces of further state
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

---Copies the table to the replica.
function replica:fetch()
  self.table:pull(replica.range(0, self.model.parameters:rows()), {into = self.model.parameters})
  if self.model.give then self.model:give() end
end

---Replicas are equal bit for bit on processors that multiply alike. If they differ, all workers copy the table.
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
