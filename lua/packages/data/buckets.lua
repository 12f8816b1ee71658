-- tide.data.buckets: a worker goes through triples by pairs of buckets of their entities. The owner of a bucket has the
-- rows of those of its entities that it uses on its node, for as long as it works on it; no two workers work on one
-- entity at a time. Which worker has which buckets when says tournament.lua, rotation.lua lets the rows travel ahead of
-- their use. Of a bucket that passes on, the rows that its new worker has no use for stay where they are.
local rotation = require "tide.data.rotation"
local tensor = require "tide.tensor"
local tide = require "tide"
local tournament = require "tide.data.tournament"

local buckets = {}

---@class tide.data.bucket_pair one pair, or several that can be trained on at once
---@field triples table u32 tensor n x 3; first (0) and count of those that are trained on: all
---@field seed integer for their order and draws

---Columns of entities, by slots of their table: so the rows of a bucket have one node as their home, which is asked for
---all of them at once.
local function columns_of(entities, entity_count, plan)
  local column_of, parts <const> = {}, plan.parts
  local bucket_count <const> = plan.column_count // parts
  for entity = 0, entity_count - 1 do
    local slot <const> = entities and entities:slot(entity) or entity
    column_of[entity] = parts * (slot % bucket_count) + slot // bucket_count % parts
  end
  return column_of
end

---Place of a pair of columns, whichever comes first, among all pairs.
local function place(a, b)
  if a > b then a, b = b, a end
  return b * (b + 1) // 2 + a
end

---Triples sorted by the columns of their subject and object; where those of each pair begin; and their subjects and
---objects, of each pair first those in the lower column.
local function sorted(triples, column_of, column_count)
  local offsets, rows <const> = {}, triples:rows()
  local function place_of(i) return place(column_of[triples[3 * i + 1]], column_of[triples[3 * i + 3]]) end
  for at = 0, place(column_count - 1, column_count - 1) + 1 do offsets[at] = 0 end
  for i = 0, rows - 1 do
    local at <const> = place_of(i) + 1
    offsets[at] = offsets[at] + 1
  end
  for at = 1, #offsets do offsets[at] = offsets[at] + offsets[at - 1] end
  local all <const>, ends <const>, free = tensor.zeros("u32", rows, 3), tensor.zeros("u64", 2 * rows), {}
  for i = 0, rows - 1 do
    local s <const>, r <const>, o <const> = triples[3 * i + 1], triples[3 * i + 2], triples[3 * i + 3]
    local at <const> = place(column_of[s], column_of[o])
    local to <const> = free[at] or offsets[at]
    all[3 * to + 1], all[3 * to + 2], all[3 * to + 3] = s, r, o
    local first, second = s, o
    if column_of[s] > column_of[o] then first, second = o, s end
    ends[offsets[at] + to + 1], ends[offsets[at + 1] + to + 1] = first, second
    free[at] = to + 1
  end
  return all, offsets, ends
end

---@param w tide.worker
---@param o {triples: table, entity_count: integer, entities?: table, epochs?: integer}
---  triples: those of all workers; entities: the table whose rows move; epochs: number of the last one
---@return tide.data.rotation its blocks are pairs of buckets
function buckets.new(w, o)
  local plan <const> = tournament.new(w.workers, w.seed, w.crowded)
  local column_of <const> = columns_of(o.entities, o.entity_count, plan)
  local all <const>, offsets <const>, ends <const> = sorted(o.triples, column_of, plan.column_count)

  ---Entities of `column` in the triples that join it with `partner`.
  local function entities_of(column, partner)
    local at <const> = place(column, partner)
    local first <const>, count <const> = offsets[at], offsets[at + 1] - offsets[at]
    if column == partner then return ends:slice(2 * first + 1, 2 * count) end
    return ends:slice(2 * first + (column < partner and 0 or count) + 1, count)
  end

  local function triples_of(visit)
    local at <const> = place(visit.joined[1], visit.joined[2])
    return all:slice(offsets[at] + 1, offsets[at + 1] - offsets[at])
  end

  return rotation.new(w, {
    plan = plan, epochs = o.epochs, columns = o.entities, joins = true,
    keys = function(columns, visits_of)
      local parts = {}
      for _, column in ipairs(columns) do
        for _, visit in ipairs(visits_of(column)) do
          local a <const>, b <const> = visit.joined[1], visit.joined[2]
          if a == column then parts[#parts + 1] = entities_of(a, b) end
          if b == column and a ~= b then parts[#parts + 1] = entities_of(b, a) end
        end
      end
      return tensor.join(parts)
    end,
    block = function(epoch, visits)
      local slices = {}
      for i, visit in ipairs(visits) do slices[i] = triples_of(visit) end
      local triples <const> = #slices == 1 and slices[1] or tensor.join(slices)
      local joined <const> = visits[1].joined
      return {triples = triples, first = 0, count = triples:rows(),
              seed = tide.random((w.seed * 1000003 + epoch) * 4294967296 + place(joined[1], joined[2])):below(1 << 53)}
    end})
end

return buckets
