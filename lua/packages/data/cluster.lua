-- Which worker gets which rows of a part, when rows with one value in a column are to be together: triples of a
-- relation, whose row of a table then stays on that worker's node (Lapse, VLDB 2020, section 4.1: clustering by
-- relation). Values go by falling count to the worker with the fewest rows (longest processing time first); one with
-- more rows than a worker should have is cut over several.
local cluster = {}

---@param counts table<integer, integer> rows of each value
---@param workers integer
---@return table<integer, {[1]: integer, [2]: integer}[]> shares of each value: {worker, rows}, in the order of its rows
function cluster.assign(counts, workers)
  local values, total, load, shares = {}, 0, {}, {}
  for value, count in pairs(counts) do values[#values + 1], total = value, total + count end
  table.sort(values, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return a < b
  end)
  local most <const> = (total + workers - 1) // workers
  for w = 1, workers do load[w] = 0 end
  for _, value in ipairs(values) do
    local left = counts[value]
    shares[value] = {}
    while left > 0 do
      local least = 1
      for w = 2, workers do least = load[w] < load[least] and w or least end
      local n = counts[value] > most and math.min(left, most - load[least]) or left
      table.insert(shares[value], {least, n})
      load[least], left = load[least] + n, left - n
    end
  end
  return shares
end

---@param whole table tensor, one example a row
---@param column integer 1-based
---@param rank integer 1..workers
---@param workers integer
---@return table tensor rows of this worker
---@return integer[] own values that no other worker has, rising
---@return integer[] shared values that others have as well, rising
function cluster.piece(whole, column, rank, workers)
  local rows, columns = whole:rows(), whole:columns()
  local counts, own, shared, take, size = {}, {}, {}, {}, 0
  for i = 0, rows - 1 do
    local value = whole[i * columns + column]
    counts[value] = (counts[value] or 0) + 1
  end
  for value, list in pairs(cluster.assign(counts, workers)) do
    local from = 0
    for _, share in ipairs(list) do
      if share[1] == rank then
        take[value], size = {from, from + share[2]}, size + share[2]
        table.insert(#list > 1 and shared or own, value)
      end
      from = from + share[2]
    end
  end
  local piece, seen, at = require("tide.tensor").zeros(whole:type(), size, columns), {}, 0
  for i = 0, rows - 1 do
    local value = whole[i * columns + column]
    local range, n = take[value], seen[value] or 0
    seen[value] = n + 1
    if range and n >= range[1] and n < range[2] then
      for c = 1, columns do piece[at + c] = whole[i * columns + c] end
      at = at + columns
    end
  end
  table.sort(own)
  table.sort(shared)
  return piece, own, shared
end

return cluster
