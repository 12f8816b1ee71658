-- Everything that is known of one table, for people: how it is used on each node, how old the rows were that each
-- worker read, and what that took. Behind `tide table show` and t:show().
local core = require "tide.core"
local errors = require "tide.errors"
local staleness = require "tide.show.staleness"
local table_view = require "tide.show.table_view"
local units = require "tide.units"

local table_show = {}

local ASK_S <const> = 5

table_show.columns = {
  {key = "node"}, {key = "rows", format = "count"}, {key = "memory_bytes", title = "memory", format = "size"},
  {key = "pulls_local", title = "pulls", format = "count"}, {key = "pulls_remote", title = "remote", format = "count"},
  {key = "pushes_local", title = "pushes", format = "count"},
  {key = "pushes_remote", title = "remote", format = "count"}, {key = "bytes_out", title = "wire out", format = "size"},
}

---@param parts table[] what stats() of the table says on each node, with `node`
---@return tide.staleness|nil
function table_show.staleness(parts)
  local list = {}
  for i, part in ipairs(parts) do list[i] = {after = part} end
  return staleness.sum(list)
end

---@param name string
---@param parts table[]
---@param o? table as of table_view.lines
---@return string
function table_show.text(name, parts, o)
  local s <const> = table_show.staleness(parts)
  local lines <const> = table_view.lines(parts, table_show.columns, o)
  table.insert(lines, 1, ("table %s, width %d"):format(name, parts[1].width))
  for _, part in ipairs(parts) do
    if (part.unreplicated_bound or 0) > 0 then
      local form <const> = "%s: not yet on copies %s, at most %s, bound %s; %d pushes lost with nodes that died"
      lines[#lines + 1] = form:format(part.node, units.format_size(part.unreplicated),
        units.format_size(part.unreplicated_most), units.format_size(part.unreplicated_bound), part.lost_updates)
    end
  end
  for _, part in ipairs(parts) do
    local gone <const> = {part.not_admitted or 0, part.evicted or 0, part.expired or 0}
    if gone[1] + gone[2] + gone[3] > 0 then
      lines[#lines + 1] = ("%s: %d pushes not admitted, %d keys evicted, %d expired"):format(part.node,
        table.unpack(gone))
    end
    if (part.disk_bytes or 0) > 0 then
      local form <const> = "%s: %d rows on the disk alone, files %s; rows written %d, read %d, moved between files %d"
      lines[#lines + 1] = form:format(part.node, part.cold_rows, units.format_size(part.disk_bytes), part.frozen,
        part.thawed, part.compacted)
    end
  end
  if s then lines[#lines + 1] = "\n" .. staleness.text(s, o) end
  return table.concat(lines, "\n")
end

-- What all nodes say of a table.
local function gather(name)
  local parts = {}
  for _, member in ipairs(core.members()) do
    local agent <const> = member.state == "up" and core.whereis(member.name .. "/agent")
    local answer <const> = agent and core.call(agent, {op = "status"}, ASK_S)
    local part <const> = answer and answer.tables[name]
    if part then
      part.node = member.name
      parts[#parts + 1] = part
    end
  end
  table.sort(parts, function(a, b) return a.node < b.node end)
  return parts
end

---Prints the state of a table on all nodes; behind t:show().
---@param handle table
---@param o? {chart?: string} chart: a file for the picture of what was read (SVG)
function table_show.show(handle, o)
  local parts <const> = gather(handle.name)
  if #parts == 0 then error(errors.new("T0401", ("no node answers for table `%s`"):format(handle.name)), 0) end
  print(table_show.text(handle.name, parts))
  if o and o.chart then
    local s <const> = table_show.staleness(parts)
    if not s then error(errors.new("T0117", ("table `%s` has no clocks to draw"):format(handle.name)), 0) end
    local ok <const>, err <const> = staleness.write(o.chart, {{name = handle.name, staleness = s}})
    if not ok then error(err, 0) end
  end
end

return table_show
