-- A running cluster as lists of plain records: what `tide status` and the listing commands print.
--
-- Attaches as a client, asks the agent of every node once, and leaves. A node that does not answer appears with its
-- membership alone and `problem`; it does not make the command fail.

local errors = require "tide.errors"
local text = require "tide.text"

local cluster_view = {}

---Runs `f` while this process is a client of the cluster.
---@param context tide.context
---@param f fun(client: table): any, tide.error?
---@return any result nil on failure
---@return tide.error? err
function cluster_view.attached(context, f)
  local client <const> = require "tide.cluster.client"
  local wanted <const> = context.options.cluster
  if context.verbose then context:say("connecting to " .. (wanted and text.clean(wanted) or "the cluster")) end
  local ok, err = client.attach {
    cluster = wanted, keys = context.keys, timeout_s = context.timeout_s, verbose = context.verbose}
  if not ok then return nil, errors.from(err, "T0501") end
  local done, result, problem = xpcall(f, function(raised)
    local failure = errors.from(raised)
    failure.trace = failure.trace or debug.traceback("", 2)
    return failure
  end, client)
  context.core.node_stop(0)
  if not done then return nil, result end
  return result, problem and errors.from(problem) or nil
end

local LOOK_S <const> = 0.05

---Waits between two looks at a cluster; Ctrl-C and --timeout end that at once.
---@param core table
---@param seconds number
---@param deadline? number
---@param leaves? fun(): boolean whether the user quits
---@return integer? exit code of a command that is to end
function cluster_view.pause(core, seconds, deadline, leaves)
  local over <const> = core.now() + seconds
  while true do
    if core.interrupted() > 0 then return 130 end
    if leaves and leaves() then return 0 end
    local now <const> = core.now()
    if deadline and now >= deadline then return 124 end
    if now >= over then return nil end
    core.sleep(math.min(LOOK_S, over - now))
  end
end

-- Times of C structures in nanoseconds become seconds.
local function seconds(record)
  local out = {}
  for k, v in pairs(record) do
    local base <const> = type(k) == "string" and k:match("^(.*)_ns$")
    if base and type(v) == "number" then
      out[base .. "_s"] = v / 1e9
    else
      out[k] = v
    end
  end
  return out
end

local function add_records(list, records, node)
  for _, record in ipairs(records or {}) do
    local row = seconds(record)
    row.node = node
    list[#list + 1] = row
  end
end

local function count(list)
  local n = 0
  for _ in pairs(list or {}) do n = n + 1 end
  return n
end

local function node_row(member, row)
  local node = {}
  for k, v in pairs(member) do node[k] = v end
  local answer <const> = row and row.answer
  if answer then
    node.rss_bytes, node.actors, node.tables = answer.rss_bytes, count(answer.actors), count(answer.tables)
    node.uptime_s = answer.uptime_s
    if answer.queue then
      node.queue_bytes, node.queue_limit_bytes = answer.queue.bytes, answer.queue.limit_bytes
      node.queue_waits = answer.queue.waits
    end
    if answer.memory then
      node.memory_used_bytes, node.memory_cap_bytes = answer.memory.used_bytes, answer.memory.cap_bytes
      node.memory_share = answer.memory.used_bytes / answer.memory.cap_bytes
      node.memory_tier, node.memory_refused = answer.memory.tier, answer.memory.refused
    end
    local mailbox = 0
    for _, actor in ipairs(answer.actors or {}) do mailbox = mailbox + (actor.mailbox_messages or 0) end
    node.mailbox_messages = mailbox
  elseif row and row.error then
    node.problem = type(row.error) == "table" and row.error.message or tostring(row.error)
  end
  return node
end

local SUMMED <const> = {
  "pulls_local", "pulls_remote", "pushes_local", "pushes_remote", "served_pulls", "served_pushes", "queued",
  "forwarded", "messages_out", "bytes_out", "bytes_in", "not_finite", "rows", "memory_bytes", "localized",
  "relocated_in", "relocated_out", "location_used", "location_stale", "surprises", "not_admitted", "evicted", "expired",
  "cold_rows", "disk_bytes", "frozen", "thawed", "compacted",
}

local function local_share(row)
  local near <const> = (row.pulls_local or 0) + (row.pushes_local or 0)
  local all <const> = near + (row.pulls_remote or 0) + (row.pushes_remote or 0)
  return all > 0 and near / all or nil
end

---One record per table: the counters of all nodes added up.
---@param rows table[] one per table and node
---@return table[]
function cluster_view.sum_tables(rows)
  local list, by_name = {}, {}
  for _, row in ipairs(rows) do
    local sum = by_name[row.name]
    if not sum then
      sum = {name = row.name, width = row.width, nodes = 0}
      by_name[row.name] = sum
      list[#list + 1] = sum
    end
    sum.nodes = sum.nodes + 1
    for _, key in ipairs(SUMMED) do
      if row[key] then sum[key] = (sum[key] or 0) + row[key] end
    end
  end
  for _, sum in ipairs(list) do sum.local_share = local_share(sum) end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

local function table_records(tables)
  local list = {}
  for name, stats in pairs(tables or {}) do
    local row = {}
    for k, v in pairs(stats) do row[k] = v end
    row.name = row.name or name
    list[#list + 1] = row
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

---Everything, in one round of questions. Call it attached.
---@param context tide.context
---@param client table
---@return table? view {cluster, view, nodes, tables, table_parts, actors, links, slow}
---@return tide.error? err
function cluster_view.collect(context, client)
  local core <const> = context.core
  local rows, err = client.gather "status"
  if not rows then return nil, errors.from(err) end
  local members <const> = require("tide.cluster.members").listed(core.members())
  local mine <const> = core.node() or {}
  local by_member, names = {}, {} -- by id: a node that is gone may have had the name of one that lives
  for _, row in ipairs(rows) do by_member[row.id or row.name] = row end
  local out = {cluster = mine.cluster, view = members.view, nodes = {}, table_parts = {}, actors = {}, links = {},
               slow = {}}
  for _, member in ipairs(members) do names[member.id] = member.name end
  for _, member in ipairs(members) do
    local row <const> = by_member[member.id] or by_member[member.name]
    local answer <const> = row and row.answer or {}
    out.nodes[#out.nodes + 1] = node_row(member, row)
    add_records(out.table_parts, table_records(answer.tables), member.name)
    add_records(out.actors, answer.actors, member.name)
    add_records(out.links, answer.links, member.name)
    add_records(out.slow, answer.slow, member.name)
  end
  for _, part in ipairs(out.table_parts) do part.local_share = local_share(part) end
  for _, link in ipairs(out.links) do link.peer_name = names[link.peer] end
  table.sort(out.nodes, function(a, b) return (a.id or 0) < (b.id or 0) end)
  out.tables = cluster_view.sum_tables(out.table_parts)
  return out
end

---@param context tide.context
---@return table? view see collect
---@return tide.error? err
function cluster_view.read(context)
  return cluster_view.attached(context, function(client) return cluster_view.collect(context, client) end)
end

return cluster_view
