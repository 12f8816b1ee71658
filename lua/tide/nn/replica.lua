-- A worker's replica of a model's parameters beside the table that holds them for others: what was learnt is written to
-- it in ranges, and replicas that differ are made equal from it.
local core = require "tide.core"
local data = require "tide.data"

---@class tide.nn.replica
---@field resyncs integer how often replicas were not equal
local replica = {}
replica.__index = replica

---@return table u64 tensor first .. first + count - 1
function replica.range(first, count)
  local keys = core.tensor("u64", count, 1)
  for i = 1, count do keys[i] = first + i - 1 end
  return keys
end

---@param w tide.worker with a table `params`: rows of 1024, update "assign"
---@param model table with `parameters`, a tensor keys x 1024
---@return tide.nn.replica
function replica.new(w, model)
  local first, count = data.piece(model.parameters:rows(), w.rank, w.workers)
  return setmetatable({w = w, model = model, table = w.tables.params, first = first, count = count, resyncs = 0,
                       keys = replica.range(first - 1, count)}, replica)
end

---Writes this worker's range of the parameters.
function replica:store()
  if self.count > 0 then self.table:push(self.keys, self.model.parameters:slice(self.first, self.count)) end
end

---Replicas are equal bit for bit on processors that multiply alike; where they are not, all take what the table has.
function replica:compare()
  local digests <const> = self.w:barrier("replicas", core.digest(self.model.parameters))
  local same = true
  for _, digest in ipairs(digests) do same = same and digest == digests[1] end
  if same then return end
  self.table:pull(replica.range(0, self.model.parameters:rows()), {into = self.model.parameters})
  self.resyncs = self.resyncs + 1
end

return replica
