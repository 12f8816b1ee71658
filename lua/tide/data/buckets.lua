-- tide.data.buckets: a worker goes through triples by pairs of buckets of their entities. Whoever has a bucket has the
-- rows of all its entities on its node, for as long as it works on it; no two workers work on one entity at a time.
-- Which worker has which buckets when says tournament.lua, rotation.lua lets the rows travel ahead of their use.
local core = require "tide.core"
local rotation = require "tide.data.rotation"
local tensor = require "tide.tensor"
local tournament = require "tide.data.tournament"

local buckets = {}

---@class tide.data.bucket_pair
---@field triples table u32 tensor n x 3; first (0) and count of those that are trained on: all
---@field candidates table u64 tensor: all entities that are here, those of the triples among them
---@field seed integer for their order and draws

---Place of a pair of columns, whichever comes first, among all pairs.
local function place(a, b)
  if a > b then a, b = b, a end
  return b * (b + 1) // 2 + a
end

---Triples sorted by the columns of their subject and object, and where each pair's begin.
local function sorted(triples, column_count)
  local offsets, rows <const> = {}, triples:rows()
  local function place_of(i) return place(triples[3 * i + 1] % column_count, triples[3 * i + 3] % column_count) end
  for at = 0, place(column_count - 1, column_count - 1) + 1 do offsets[at] = 0 end
  for i = 0, rows - 1 do
    local at <const> = place_of(i) + 1
    offsets[at] = offsets[at] + 1
  end
  for at = 1, #offsets do offsets[at] = offsets[at] + offsets[at - 1] end
  local all, free = tensor.zeros("u32", rows, 3), {}
  for i = 0, rows - 1 do
    local at <const> = place_of(i)
    local to <const> = free[at] or offsets[at]
    for c = 1, 3 do all[3 * to + c] = triples[3 * i + c] end
    free[at] = to + 1
  end
  return all, offsets
end

---@param w tide.worker
---@param o {triples: table, entity_count: integer, entities?: table, epochs?: integer}
---  triples: those of all workers; entities: the table whose rows move; epochs: number of the last one
---@return tide.data.rotation its blocks are pairs of buckets
function buckets.new(w, o)
  local plan <const> = tournament.new(w.workers, w.seed)
  local n <const> = plan.column_count
  local all <const>, offsets <const> = sorted(o.triples, n)
  local function size(column) return (o.entity_count - column + n - 1) // n end
  local function entities_of(columns)
    local count, at = 0, 1
    for _, column in ipairs(columns) do count = count + size(column) end
    local keys = tensor.zeros("u64", count, 1)
    for _, column in ipairs(columns) do
      keys:slice(at, size(column)):fill(column, n)
      at = at + size(column)
    end
    return keys
  end
  return rotation.new(w, {
    plan = plan, epochs = o.epochs, columns = o.entities,
    keys = function(column) return entities_of {column} end,
    block = function(epoch, visit)
      local at <const> = place(visit.joined[1], visit.joined[2])
      local count <const> = offsets[at + 1] - offsets[at]
      return {triples = all:slice(offsets[at] + 1, count), first = 0, count = count,
              candidates = entities_of(visit.columns),
              seed = core.random((w.seed * 1000003 + epoch) * 4294967296 + at):below(1 << 53)}
    end})
end

return buckets
