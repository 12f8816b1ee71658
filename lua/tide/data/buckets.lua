-- tide.data.buckets: a worker goes through triples by pairs of buckets of their entities. Whoever has a bucket has the
-- rows of those of its entities that it uses on its node, for as long as it works on it; no two workers work on one
-- entity at a time. Which worker has which buckets when says tournament.lua, rotation.lua lets the rows travel ahead of
-- their use. Of a bucket that passes on, the rows that its new worker has no use for stay where they are.
local core = require "tide.core"
local rotation = require "tide.data.rotation"
local tensor = require "tide.tensor"
local tournament = require "tide.data.tournament"

local buckets = {}

---@class tide.data.bucket_pair
---@field triples table u32 tensor n x 3; first (0) and count of those that are trained on: all
---@field seed integer for their order and draws

---Columns of entities, by slots of their table: so the rows of a bucket have one node as their home, which is asked for
---all of them at once.
local function columns_of(entities, entity_count, column_count)
  local column_of, bucket_count <const> = {}, (column_count + 1) // 2
  for entity = 0, entity_count - 1 do
    local slot <const> = entities and entities:slot(entity) or entity
    column_of[entity] = (2 * (slot % bucket_count) + slot // bucket_count % 2) % column_count
  end
  return column_of
end

---Place of a pair of columns, whichever comes first, among all pairs.
local function place(a, b)
  if a > b then a, b = b, a end
  return b * (b + 1) // 2 + a
end

---Triples sorted by the columns of their subject and object, and where each pair's begin.
local function sorted(triples, column_of, column_count)
  local offsets, rows <const> = {}, triples:rows()
  local function place_of(i) return place(column_of[triples[3 * i + 1]], column_of[triples[3 * i + 3]]) end
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

---Columns that a round brings together with `column`.
local function partners_of(column, visits)
  local partners = {}
  for _, visit in ipairs(visits) do
    local a <const>, b <const> = table.unpack(visit.joined)
    if a == column then partners[#partners + 1] = b elseif b == column then partners[#partners + 1] = a end
  end
  table.sort(partners)
  return partners
end

---@param w tide.worker
---@param o {triples: table, entity_count: integer, entities?: table, epochs?: integer}
---  triples: those of all workers; entities: the table whose rows move; epochs: number of the last one
---@return tide.data.rotation its blocks are pairs of buckets
function buckets.new(w, o)
  local plan <const> = tournament.new(w.workers, w.seed)
  local column_of <const> = columns_of(o.entities, o.entity_count, plan.column_count)
  local all <const>, offsets <const> = sorted(o.triples, column_of, plan.column_count)
  local used = {}

  ---Entities of `column` in triples that join it with one of `partners`, behind those of `list`.
  local function add_entities(list, column, partners)
    local seen = {}
    for _, partner in ipairs(partners) do
      local at <const> = place(column, partner)
      for i = 3 * offsets[at] + 1, 3 * offsets[at + 1], 3 do
        for _, entity in ipairs {all[i], all[i + 2]} do
          if column_of[entity] == column and not seen[entity] then seen[entity], list[#list + 1] = true, entity end
        end
      end
    end
  end

  ---Entities of some columns that visits use; found out once.
  local function entities_of(columns, visits)
    local names, partners = {}, {}
    for i, column in ipairs(columns) do
      partners[i] = partners_of(column, visits)
      names[i] = column .. ":" .. table.concat(partners[i], ",")
    end
    local name <const> = table.concat(names, " ")
    if not used[name] then
      local list = {}
      for i, column in ipairs(columns) do add_entities(list, column, partners[i]) end
      used[name] = tensor.from("u64", list)
    end
    return used[name]
  end

  return rotation.new(w, {
    plan = plan, epochs = o.epochs, columns = o.entities, keys = entities_of,
    block = function(epoch, visit)
      local at <const> = place(visit.joined[1], visit.joined[2])
      local count <const> = offsets[at + 1] - offsets[at]
      return {triples = all:slice(offsets[at] + 1, count), first = 0, count = count,
              seed = core.random((w.seed * 1000003 + epoch) * 4294967296 + at):below(1 << 53)}
    end})
end

return buckets
