-- How local a table's accesses are, how its rows move and which keys are hot, over all nodes: part of
-- `tide table show`.
local hot_keys = require "tide.show.hot_keys"
local table_view = require "tide.show.table_view"
local text = require "tide.text"

local locality = {}

local KEYS_MIN <const> = 40

local NODES <const> = {
  {key = "node"}, {key = "local_share", title = "local", format = "share"}, {key = "queued", format = "count"},
  {key = "relocated_in", title = "rows in", format = "count"}, {key = "relocated_out", title = "out", format = "count"},
  {key = "location_used", title = "straight", format = "count"},
  {key = "location_stale", title = "stale", format = "count"},
}

local COPIES <const> = {
  {key = "node"}, {key = "copies", format = "count"}, {key = "hits", title = "served", format = "count"},
  {key = "updates_out", title = "updates", format = "count"}, {key = "rows_in", title = "rows in", format = "count"},
  {key = "unsent_mean_ms", title = "unsent ms"}, {key = "behind_mean_ms", title = "behind ms"},
}

local KEYS <const> = {
  {key = "key", format = "key"}, {key = "accesses", format = "count"}, {key = "share", format = "share"},
  {key = "reads", format = "count"}, {key = "writes", format = "count"}, {key = "by"},
}

-- "n1 70 %, n2 30 %": whose workers access a key.
local function by_node(k)
  local parts = {}
  for _, node in ipairs(text.sorted_keys(k.nodes)) do
    local n <const> = k.nodes[node]
    parts[#parts + 1] = ("%s %.0f %%"):format(node, 100 * (n.reads + n.writes) / k.accesses)
  end
  return table.concat(parts, ", ")
end

---@param client table attached
---@param name string of the table
---@param parts table[] what its stats() say on each node, with `node`
---@param top integer keys wanted
---@return table? found {relocate_p50_s=, relocate_p99_s=, hottest=}
---@return table? err
function locality.look(client, name, parts, top)
  local rows, err = client.gather("hottest", {tables = {name}, count = math.max(4 * top, KEYS_MIN)})
  if not rows then return nil, err end
  local answers, times = {}, {}
  for _, row in ipairs(rows) do answers[row.name] = row.answer and row.answer[name] end
  for _, part in ipairs(parts) do hot_keys.add_times(times, part.relocate_hist) end
  local hottest <const> = hot_keys.merge(answers, top)
  for _, k in ipairs(hottest) do k.by = by_node(k) end
  return {hottest = hottest, relocate_p50_s = hot_keys.quantile(times, 0.5),
          relocate_p99_s = hot_keys.quantile(times, 0.99)}
end

-- Copies of hot keys, of the nodes that have shared any.
local function copies_of(parts)
  local rows <const> = {}
  for _, part in ipairs(parts) do
    local s <const> = part.shared
    if s and s.keys > 0 then
      rows[#rows + 1] = {node = part.node, copies = s.copies, hits = s.hits, updates_out = s.updates_out,
        rows_in = s.rows_in, unsent_mean_ms = ("%.3g"):format(s.unsent_mean_ms),
        behind_mean_ms = ("%.3g"):format(s.behind_mean_ms)}
    end
  end
  return rows
end

---@param parts table[]
---@param found table of locality.look
---@param o? table as of table_view.lines
---@return string
function locality.text(parts, found, o)
  local lines <const> = table_view.lines(parts, NODES, o)
  if found.relocate_p50_s then
    lines[#lines + 1] = ("\nrows come in %.3g ms (median; 99 %% within %.3g ms)"):format(1e3 * found.relocate_p50_s,
      1e3 * found.relocate_p99_s)
  end
  local copies <const> = copies_of(parts)
  if #copies > 0 then lines[#lines + 1] = "\n" .. table.concat(table_view.lines(copies, COPIES, o), "\n") end
  if #found.hottest > 0 then
    lines[#lines + 1] = "\n" .. table.concat(table_view.lines(found.hottest, KEYS, o), "\n")
  end
  return table.concat(lines, "\n")
end

return locality
