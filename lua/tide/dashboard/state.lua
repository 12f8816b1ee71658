-- What the page shows, from two snapshots of a cluster: a *sample*, the few numbers that become curves, and a *state*,
-- everything as it is now. Pure: no clock, no cluster.
local metrics = require "tide.show.metrics"
local units = require "tide.units"

local state = {}

local BUCKETS <const> = 28

local WAITS <const> = {"barrier", "chunk", "driver", "report"}

-- Counters fall when a process begins anew: that is no negative rate.
local function rate(now, before, seconds)
  if not now or not before or seconds <= 0 then return 0 end
  return tonumber(("%.5g"):format(math.max(now - before, 0) / seconds))
end

---Text that JSON takes, whatever bytes a name has.
---@param s any
---@return string
function state.text(s)
  s = tostring(s)
  if utf8.len(s) then return s end
  return (s:gsub("[\x80-\xff]", "\u{FFFD}"))
end

local text <const> = state.text

---A value whose texts JSON takes, whatever is in it.
---@param value any
---@return any
function state.clean(value)
  if type(value) == "string" then return state.text(value) end
  if type(value) ~= "table" then return value end
  local out = {}
  for k, v in pairs(value) do out[state.clean(k)] = state.clean(v) end
  return out
end

local function by(list, key)
  local found = {}
  for _, row in ipairs(list or {}) do found[row[key]] = row end
  return found
end

---- nodes ------------------------------------------------------------------------------------------------------------

local function link_rows(node, old, names, seconds)
  local rows, links_before = {}, by(old and old.links, "peer")
  for _, link in ipairs(node.links or {}) do
    if names[link.peer] then
      local before <const> = links_before[link.peer] or {}
      rows[#rows + 1] = {peer = text(names[link.peer]), up = link.up and true or false,
        sent = rate(link.bytes_out, before.bytes_out, seconds), queue = link.queue_bytes,
        round_trip_s = (link.round_trip_ns or 0) > 0 and link.round_trip_ns / 1e9 or nil}
    end
  end
  return rows
end

local function sum_actors(node, key)
  local sum = 0
  for _, actor in ipairs(node.actors or {}) do sum = sum + (actor[key] or 0) end
  return sum
end

-- Who holds the resident memory of a node: its tables, mail that waits, what links have yet to send, and the rest:
-- code, Lua states, allocators.
local function owners_of(node)
  local tables, mail, links = 0, sum_actors(node, "mailbox_bytes"), 0
  for _, t in ipairs(node.tables or {}) do tables = tables + (t.memory_bytes or 0) end
  for _, link in ipairs(node.links or {}) do links = links + (link.queue_bytes or 0) end
  return {tables, mail, links, math.max((node.rss_bytes or 0) - tables - mail - links, 0)}
end

-- The type of actors that was busiest since the last look, and the share of a thread that it took.
local function busiest(node, old, seconds)
  local before <const> = by(old and old.actors, "type")
  local name, share = nil, 0
  for _, actor in ipairs(node.actors or {}) do
    local b <const> = before[actor.type]
    local busy <const> = rate(actor.handling_s, b and b.handling_s, seconds)
    if busy > share then name, share = actor.type, busy end
  end
  return name, share
end

local function node_row(node, old, names)
  local seconds <const> = old and node.now and old.now and node.now - old.now or 0
  local memory <const> = node.memory
  local row <const> = {name = text(node.name), id = node.id, state = node.state, up = node.up, bare = node.bare,
    left = node.state == "left" or nil,
    workers = node.workers, rss = node.rss_bytes, processors = node.processors,
    mail = sum_actors(node, "mailbox_messages"),
    cpu = node.cpu_s and rate(node.cpu_s, old and old.cpu_s, seconds) or nil,
    handled = rate(sum_actors(node, "messages"), old and sum_actors(old, "messages"), seconds),
    store_busy = node.store and rate(node.store.busy_s, old and old.store and old.store.busy_s, seconds),
    links = link_rows(node, old, names, seconds), owners = node.rss_bytes and owners_of(node),
    memory = memory and {used = memory.used_bytes, cap = memory.cap_bytes, tier = memory.tier,
                         refused = memory.refused}}
  row.busiest, row.busy = busiest(node, old, seconds)
  return row
end

---- tables -----------------------------------------------------------------------------------------------------------

local SUMMED <const> = {rows = "rows", memory_bytes = "bytes"}
local RATES <const> = {
  pulls_local = "pulls_local", pulls_remote = "pulls_remote", pushes_local = "pushes_local",
  pushes_remote = "pushes_remote", bytes_out = "wire", relocated_in = "moves", not_finite = "not_finite",
}

local function hot_rows(keys)
  local rows = {}
  for i, key in ipairs(keys or {}) do
    if i > 8 then break end
    local users = {}
    for name in pairs(key.nodes or {}) do users[#users + 1] = text(name) end
    table.sort(users)
    rows[i] = {key = units.format_unsigned(key.key), share = key.share, users = users}
  end
  return rows
end

local function table_rows(now, before, hot)
  local list, by_name = {}, {}
  local nodes_before <const> = by(before and before.nodes, "id")
  for _, node in ipairs(now.nodes) do
    local old <const> = nodes_before[node.id]
    local seconds <const> = old and node.now and old.now and node.now - old.now or 0
    local tables_before <const> = by(old and old.tables, "name")
    for _, t in ipairs(node.tables or {}) do
      local row = by_name[t.name]
      if not row then
        row = {name = text(t.name), width = t.width, parts = {}, hot = hot_rows(hot and hot[t.name])}
        for _, name in pairs(SUMMED) do row[name] = 0 end
        for _, name in pairs(RATES) do row[name] = 0 end
        by_name[t.name], list[#list + 1] = row, row
      end
      for key, name in pairs(SUMMED) do row[name] = row[name] + (t[key] or 0) end
      local b <const> = tables_before[t.name] or {}
      local near, far = 0, 0
      for key, name in pairs(RATES) do
        local r <const> = rate(t[key], b[key], seconds)
        row[name] = row[name] + r
        if name:find "_local$" then near = near + r elseif name:find "_remote$" then far = far + r end
      end
      row.staleness = t.staleness and true or row.staleness
      row.parts[#row.parts + 1] = {node = text(node.name), rows = t.rows or 0, near = near, far = far}
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- The bound that 99 of 100 waiting pulls stayed below, of what all nodes counted between the two snapshots.
local function pull_p99(now, before)
  local counts, total = {}, 0
  local nodes_before <const> = by(before and before.nodes, "id")
  for _, node in ipairs(now.nodes) do
    local old <const> = nodes_before[node.id]
    local tables_before <const> = by(old and old.tables, "name")
    for _, t in ipairs(old and node.tables or {}) do
      local b <const> = tables_before[t.name]
      for i = 1, t.waits and BUCKETS or 0 do
        local n <const> = math.max((t.waits.pull[i] or 0) - (b and b.waits and b.waits.pull[i] or 0), 0)
        counts[i], total = (counts[i] or 0) + n, total + n
      end
    end
  end
  local seen = 0
  for i = 1, BUCKETS do
    seen = seen + (counts[i] or 0)
    if total > 0 and seen >= 0.99 * total then return 1e-6 * 2 ^ (i - 1) end
  end
  return nil
end

---- runs -------------------------------------------------------------------------------------------------------------

local function finite(number)
  if type(number) ~= "number" or number ~= number or number == math.huge or number == -math.huge then return nil end
  return number
end

-- Where a worker's time went, as shares of it. What it worked it says with its reports, so a short while may seem to
-- have more of it than there was.
local function worker_row(w, old, seconds)
  local row <const> = {rank = w.rank, node = text(w.node), state = w.state, reports = w.reports, waits = {}}
  local told <const>, waited = old and seconds > 0, 0
  for _, kind in ipairs(WAITS) do
    local before <const> = told and old.waits and old.waits[kind]
    local share <const> = math.min(rate(w.waits[kind], before, seconds), 1)
    row.waits[kind], waited = share, waited + share
  end
  row.work = told and math.min(rate(w.work_s, old.work_s, seconds), math.max(1 - waited, 0)) or 0
  row.rest = told and math.max(1 - waited - row.work, 0) or 0
  return row
end

local function run_row(run, old, seconds)
  local workers, before = {}, by(old and old.workers, "rank")
  for i, w in ipairs(run.workers or {}) do workers[i] = worker_row(w, before[w.rank], seconds) end
  local seats = {}
  for i, seat in ipairs(run.policies or {}) do
    seats[i] = {seat = text(seat.seat), policy = text(seat.policy), version = seat.version, decisions = seat.decisions,
                actions = seat.actions, faults = seat.faults}
  end
  local layers = run.layers and {}
  for i, l in ipairs(run.layers or {}) do
    layers[i] = {text(l.layer), text(l.of), finite(l.mean) or false, finite(l.std) or false, finite(l.max) or false,
                 finite(l.zeros) or false, finite(l.bad) or false}
  end
  return {name = text(run.name), job = text(run.job), state = run.state, why = run.why and text(run.why),
    layers = layers, loss = finite(run.loss), diverged = run.loss ~= nil and finite(run.loss) == nil or nil,
    rate = finite(run.examples_per_s), reports = run.reports, examples = finite(run.examples), elapsed = run.elapsed_s,
    chunks = run.chunks, workers = workers, policies = seats, directory = run.directory and text(run.directory)}
end

local OWNERS_MAX <const> = 8

-- The same over all nodes, with the largest tables by name: {{name, bytes}}.
local function owners_of_all(nodes, tables)
  local sums, list, others = {0, 0, 0, 0}, {}, 0
  for _, node in ipairs(nodes) do
    for i, bytes in ipairs(node.owners or {}) do sums[i] = sums[i] + bytes end
  end
  local by_size <const> = table.move(tables, 1, #tables, 1, {})
  table.sort(by_size, function(a, b) return a.bytes > b.bytes or a.bytes == b.bytes and a.name < b.name end)
  for i, t in ipairs(by_size) do
    if i <= OWNERS_MAX then list[i] = {"table " .. t.name, t.bytes} else others = others + t.bytes end
  end
  if others > 0 then list[#list + 1] = {"other tables", others} end
  for i, name in ipairs {"mail", "links", "processes"} do list[#list + 1] = {name, sums[i + 1]} end
  return list
end

---- all of it --------------------------------------------------------------------------------------------------------

local function totals(out, now, before, tables, runs)
  local s <const> = {t = now.time, up = 0, nodes = 0, rss = 0, wire = 0, pulls = 0, pushes = 0, rate = 0, cpu = {},
                     runs = {}}
  local near, all = 0, 0
  for _, node in ipairs(out.nodes) do
    if not node.bare and not node.left then
      s.nodes, s.up = s.nodes + 1, s.up + (node.up and 1 or 0)
      s.cpu[#s.cpu + 1] = {node.name, node.cpu or 0}
    end
    s.rss = s.rss + (node.rss or 0)
    if node.memory and node.memory.cap > 0 then
      s.memory = math.max(s.memory or 0, node.memory.used / node.memory.cap)
    end
    for _, link in ipairs(node.links) do s.wire = s.wire + link.sent end
  end
  for _, t in ipairs(tables) do
    s.pulls, s.pushes = s.pulls + t.pulls_local + t.pulls_remote, s.pushes + t.pushes_local + t.pushes_remote
    near, all = near + t.pulls_local + t.pushes_local, all + t.pulls_local + t.pushes_local + t.pulls_remote
      + t.pushes_remote
  end
  s.owners = owners_of_all(out.nodes, tables)
  s.near = all > 0 and near / all or nil
  s.p99 = pull_p99(now, before)
  for i, run in ipairs(runs) do
    s.rate = s.rate + (run.state == "running" and run.rate or 0)
    s.runs[i] = {run.name, run.loss or false, run.rate or 0, run.reports or 0}
  end
  return s
end

---@param now tide.snapshot
---@param before? tide.snapshot the one before it, for rates
---@param o? {window?: tide.snapshot, hot?: table, events?: table[], slowest?: table, problem?: string} window: one of
---  some looks ago
---@return table sample
---@return table state
function state.of(now, before, o)
  o = o or {}
  local names, nodes_before = {}, by(before and before.nodes, "id")
  for _, node in ipairs(now.nodes) do names[node.id] = node.name end
  local out <const> = {schema = "tide.state/1", time = now.time, cluster = text(now.cluster or "?"), view = now.view,
    nodes = {}, runs = {}, events = o.events or {}, slowest = o.slowest, problem = o.problem}
  for i, node in ipairs(now.nodes) do
    local old <const> = nodes_before[node.id]
    out.nodes[i] = node_row(node, old and old.rss_bytes and node.rss_bytes and old or nil, names)
  end
  out.tables = table_rows(now, before, o.hot)
  local earlier <const> = o.window or before -- workers send their time with each report: they need a longer window
  local runs_before <const> = by(earlier and earlier.runs, "name")
  for i, run in ipairs(now.runs) do
    out.runs[i] = run_row(run, runs_before[run.name], earlier and now.now - earlier.now or 0)
  end
  return totals(out, now, before, out.tables, out.runs), out
end

---`GET /metrics`.
---@param snapshot tide.snapshot
---@param format "prometheus"|"openmetrics"
---@return string
function state.metrics(snapshot, format) return metrics.text(metrics.of(snapshot), format) end

return state
