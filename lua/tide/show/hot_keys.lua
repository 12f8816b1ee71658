-- The keys of tables that are accessed most, over all nodes.
--
-- Each node samples what its own workers read and write (runtime/store/core/key_counts.h); a table's accesses are the
-- sum. A key that is missing in a node's answer had less there than what the answer ends with.
local units = require "tide.units"

local hot_keys = {}

---@class tide.hot_key
---@field key integer
---@field reads number accesses of all nodes, estimated from 1 in 64; older ones count less
---@field writes number
---@field accesses number reads + writes
---@field share number of all accesses to the table
---@field nodes table<string, {reads: number, writes: number}> by the node whose workers made them

---One node's answer for one table, as short as a message requires.
---@param handle table
---@param count integer
---@return table {total=, keys=, reads=, writes=}
function hot_keys.of_node(handle, count)
  local hot, total = handle:hottest(count)
  local answer = {total = total, keys = {}, reads = {}, writes = {}}
  for i, k in ipairs(hot) do answer.keys[i], answer.reads[i], answer.writes[i] = k.key, k.reads, k.writes end
  return answer
end

---@param answers table<string, table> of hot_keys.of_node, by node
---@param count integer
---@return tide.hot_key[] hottest first, at most `count`
---@return number total accesses to the table
function hot_keys.merge(answers, count)
  local by_key, list, total = {}, {}, 0
  for node, answer in pairs(answers) do
    total = total + answer.total
    for i, key in ipairs(answer.keys) do
      local k = by_key[key]
      if not k then
        k = {key = key, reads = 0, writes = 0, nodes = {}}
        by_key[key], list[#list + 1] = k, k
      end
      k.reads, k.writes = k.reads + answer.reads[i], k.writes + answer.writes[i]
      k.nodes[node] = {reads = answer.reads[i], writes = answer.writes[i]}
    end
  end
  for _, k in ipairs(list) do
    k.accesses = k.reads + k.writes
    k.share = total > 0 and k.accesses / total or 0
  end
  table.sort(list, function(a, b)
    if a.accesses ~= b.accesses then return a.accesses > b.accesses end
    return math.ult(a.key, b.key)
  end)
  for i = #list, count + 1, -1 do list[i] = nil end
  return list, total
end

---Hot keys for JSON, which has no numbers from 2^63 on: such keys are texts there.
---@param list tide.hot_key[]
---@return table[]
function hot_keys.to_data(list)
  local out = {}
  for i, k in ipairs(list) do
    out[i] = {}
    for name, value in pairs(k) do out[i][name] = value end
    if k.key < 0 then out[i].key = units.format_unsigned(k.key) end
  end
  return out
end

---Adds the times of relocations of one node to `sum`, bucket by bucket.
---@param sum integer[]
---@param hist? integer[] relocate_hist of a table's stats
---@param before? integer[] what it was at the start
function hot_keys.add_times(sum, hist, before)
  for i, n in ipairs(hist or {}) do
    for k = #sum + 1, i do sum[k] = 0 end
    sum[i] = sum[i] + n - (before and before[i] or 0)
  end
end

local FIRST_S <const> = 512e-9

---A quantile of the times of relocations: in their histogram [1] counts those below 512 ns, then come two an octave.
---@param hist integer[] relocate_hist of a table's stats, or sums of several
---@param q number 0 to 1
---@return number|nil seconds: middle of the bucket; nil: there was none
function hot_keys.quantile(hist, q)
  local total = 0
  for _, n in ipairs(hist) do total = total + n end
  if total == 0 then return nil end
  local left = q * total
  for i, n in ipairs(hist) do
    left = left - n
    if left <= 0 and n > 0 then
      if i == 1 then return FIRST_S / 2 end
      local octave <const>, half <const> = (i - 2) // 2, (i - 2) % 2
      return FIRST_S * 2 ^ octave * (half == 0 and 1.25 or 1.75)
    end
  end
  return nil
end

---Accesses on the node and elsewhere, for tide.chart.
---@param title string
---@param rows table[] one a node: node, pulls_local, pulls_remote, pushes_local, pushes_remote
---@return tide.chart.bars
function hot_keys.locality_chart(title, rows)
  local groups, near, far = {}, {}, {}
  for i, row in ipairs(rows) do
    groups[i] = row.node
    near[i], far[i] = row.pulls_local + row.pushes_local, row.pulls_remote + row.pushes_remote
  end
  return {title = title, x = "node", y = "keys", groups = groups,
          series = {{name = "on the node", values = near}, {name = "elsewhere", values = far}}}
end

return hot_keys
