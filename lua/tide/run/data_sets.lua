-- The core's part of data sets: how classes of them are distinguished, and how they are cut into pieces. The readers
-- are a package's (tide.data).
local data_sets = {}

local classes <const> = setmetatable({}, {__mode = "k"}) -- metatables

---Registers a class of data sets: objects with `count`, the examples of the training part, and `cut(self, rank,
---workers, seed)`, which returns the set as worker `rank` of so many sees it.
---@param class table metatable of its objects
function data_sets.register(class) classes[class] = true end

---@param value any
---@return boolean whether it is a data set, which workers cut by :cut
function data_sets.is_set(value) return classes[getmetatable(value) or 0] == true end

---Piece `rank` of so many of `count` things: the first, from 1, and how many.
---@return integer first, integer size
function data_sets.piece(count, rank, workers)
  local from = (count * (rank - 1)) // workers
  return from + 1, (count * rank) // workers - from
end

return data_sets
