-- Metrics: what a snapshot of a cluster says (tide.cluster.collect), as named families after Prometheus' rules, and as
-- text of its formats. One declaration a family; the page docs/guides/metrics.md, the dashboard for Grafana and the
-- tests are made from the same list.
--
-- Names: base units (seconds, bytes), `_total` for what only grows, labels for what is of the same kind. No label has
-- an actor, a key or anything else without a bound. A counter begins anew with its process; sums over actors also fall
-- when an actor ends, which Prometheus takes for a new beginning.
local text = require "tide.text"

local metrics = {}

local WORKERS_MAX <const> = 256 -- of a run in text; all are in the snapshot

---@class tide.metric_family
---@field name string without `_total`
---@field kind "counter"|"gauge"|"histogram"
---@field unit? string "seconds" or "bytes", which its name ends with
---@field help string
---@field scope string what it is of: see SCOPES
---@field labels string[]
---@field of fun(row: table): number|table|nil value of a row; of a histogram {counts, bounds, sum}

---- what rows there are ----------------------------------------------------------------------------------------------

-- Each gives f(row, labels) for all that a snapshot has of its kind.
local SCOPES <const> = {}

function SCOPES.cluster(s, f) f(s, {}) end

function SCOPES.member(s, f)
  for _, node in ipairs(s.nodes) do
    if node.state ~= "left" then f(node, {node = node.name}) end -- in order: nothing is down
  end
end

local function counted(s, f)
  for _, node in ipairs(s.nodes) do
    if node.up and node.rss_bytes then f(node) end
  end
end

function SCOPES.node(s, f)
  counted(s, function(node) f(node, {node = node.name}) end)
end

function SCOPES.actors(s, f)
  counted(s, function(node)
    for _, sum in ipairs(node.actors) do f(sum, {node = node.name, type = sum.type}) end
  end)
end

-- One for all threads of a role.
function SCOPES.slow(s, f)
  counted(s, function(node)
    local sums <const> = {}
    for _, entry in ipairs(node.slow or {}) do
      local key <const> = entry.role .. "\0" .. entry.type
      local sum <const> = sums[key] or {role = entry.role, type = entry.type, count = 0, seconds = 0}
      sums[key], sum.count, sum.seconds = sum, sum.count + entry.count, sum.seconds + entry.seconds
    end
    for _, key in ipairs(text.sorted_keys(sums)) do
      f(sums[key], {node = node.name, thread = sums[key].role, type = sums[key].type})
    end
  end)
end

local function names_of(s)
  local names = {}
  for _, node in ipairs(s.nodes) do names[node.id] = node.name end
  return names
end

function SCOPES.link(s, f)
  local names <const> = names_of(s)
  counted(s, function(node)
    for _, link in ipairs(node.links) do
      if names[link.peer] then f(link, {node = node.name, peer = names[link.peer]}) end -- clients come and go
    end
  end)
end

function SCOPES.home(s, f)
  local names <const> = names_of(s)
  counted(s, function(node)
    for id, seconds in pairs(node.waited) do
      local home <const> = names[math.tointeger(tonumber(id))]
      if home then f({seconds = seconds}, {node = node.name, home = home}) end
    end
  end)
end

function SCOPES.table(s, f)
  counted(s, function(node)
    for _, t in ipairs(node.tables) do f(t, {node = node.name, table = t.name}) end
  end)
end

-- A table's row once for each of two cases of a label.
local function twice(label, a, b)
  return function(s, f)
    SCOPES.table(s, function(t, labels)
      for _, case in ipairs {a, b} do
        f({t = t, case = case}, {node = labels.node, table = labels.table, [label] = case})
      end
    end)
  end
end
SCOPES.table_where, SCOPES.table_operation = twice("where", "local", "remote"), twice("operation", "pull", "push")

function SCOPES.run(s, f)
  for _, run in ipairs(s.runs) do
    if not run.script then f(run, {run = run.name, job = run.job}) end -- else it has no reports
  end
end

function SCOPES.run_state(s, f)
  for _, run in ipairs(s.runs) do f(run, {run = run.name, job = run.job, state = run.state}) end
end

function SCOPES.worker(s, f)
  for _, run in ipairs(s.runs) do
    for i, w in ipairs(run.workers) do
      if i > WORKERS_MAX then break end
      f(w, {run = run.name, node = w.node, worker = tostring(w.rank)})
    end
  end
end

function SCOPES.worker_wait(s, f)
  SCOPES.worker(s, function(w, labels)
    for _, kind in ipairs {"barrier", "chunk", "driver", "report"} do
      f({seconds = w.waits[kind]}, {run = labels.run, node = labels.node, worker = labels.worker, reason = kind})
    end
  end)
end

function SCOPES.seat(s, f)
  for _, run in ipairs(s.runs) do
    for _, seat in ipairs(run.policies) do f(seat, {run = run.name, seat = seat.seat}) end
  end
end

function SCOPES.seat_policy(s, f)
  for _, run in ipairs(s.runs) do
    for _, seat in ipairs(run.policies) do
      f(seat, {run = run.name, seat = seat.seat, policy = seat.policy, version = tostring(seat.version)})
    end
  end
end

local LABELS <const> = {
  slow = {"node", "thread", "type"},
  cluster = {}, member = {"node"}, node = {"node"}, actors = {"node", "type"}, link = {"node", "peer"},
  home = {"node", "home"}, table = {"node", "table"}, table_where = {"node", "table", "where"},
  table_operation = {"node", "table", "operation"}, run = {"run", "job"}, run_state = {"run", "job", "state"},
  worker = {"run", "node", "worker"}, worker_wait = {"run", "node", "worker", "reason"}, seat = {"run", "seat"},
  seat_policy = {"run", "seat", "policy", "version"},
}

---- the families -----------------------------------------------------------------------------------------------------

---@type tide.metric_family[]
metrics.families = {}
local by_name <const> = {}

local function declare(kind, scope, name, help, of)
  local unit <const> = name:match "_(seconds)$" or name:match "_(bytes)$"
  local family <const> = {name = "tide_" .. name, kind = kind, unit = unit, help = help, scope = scope,
                          labels = LABELS[scope], of = of}
  assert(not by_name[family.name] and LABELS[scope], name)
  by_name[family.name] = family
  metrics.families[#metrics.families + 1] = family
end

local function field(name)
  return function(row) return row[name] end
end

local function gauge(...) declare("gauge", ...) end
local function counter(...) declare("counter", ...) end

local AGES <const> = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48} -- of pulls that are distinguished, in clocks
local BUCKETS <const> = 28 -- of times in C: below 1, 2, 4, ... us, and all longer ones

-- All buckets, whatever was counted: bounds that come later would spoil quantiles over time.
local function powers(counts, sum)
  local all, bounds = {}, {}
  for i = 1, BUCKETS do
    all[i], bounds[i] = counts[i] or 0, i < BUCKETS and 1e-6 * 2 ^ (i - 1) or nil
  end
  return {counts = all, bounds = bounds, sum = sum}
end

---Seconds in waits of which only buckets are known: the middle of each, in all within half of the truth.
---@param counts integer[] below 1, 2, 4, ... us
---@return number
function metrics.seconds_of(counts)
  local sum = 0
  for i, n in ipairs(counts) do sum = sum + n * 0.75e-6 * 2 ^ (i - 1) end
  return sum
end

gauge("cluster", "cluster_members", "Living members of the cluster and the newest departed nodes.",
  function(s) return #s.nodes end)
gauge("cluster", "cluster_view_version", "Version of the membership; it rises with every change.", field "view")
gauge("cluster", "cluster_runs", "Runs that have not ended.", function(s) return #s.runs end)

gauge("member", "node_up", "1 when the node is a member and answered within a second, else 0.",
  function(node) return node.up and 1 or 0 end)
gauge("node", "node_workers", "Worker slots of the node.", field "workers")
gauge("node", "resident_memory_bytes", "Resident memory of the node's process.", field "rss_bytes")
counter("node", "process_cpu_seconds", "Processor time of the node's process.", field "cpu_s")
gauge("node", "processors", "Processors that the node's process may use.", function(node)
  return node.processors > 0 and node.processors or nil
end)
gauge("node", "threads_ready", "Runnable threads of the node's machine, of all processes.",
  field "threads_ready")

local function memory(name)
  return function(node) return node.memory and node.memory[name] end
end
local TIERS <const> = {calm = 0, tight = 1, narrow = 2, full = 3, over = 4}
gauge("node", "memory_used_bytes", "Memory that the node's cap counts: tables, queues, copies.", memory "used_bytes")
gauge("node", "memory_cap_bytes", "The node's memory cap (--memory).", memory "cap_bytes")
gauge("node", "memory_tier", "How near the cap is: 0 calm, 1 tight, 2 narrow, 3 full, 4 over.", function(node)
  return node.memory and TIERS[node.memory.tier]
end)
counter("node", "memory_refusals", "What the cap has refused.", memory "refused")

local function queue(name)
  return function(node) return node.queue and node.queue[name] end
end
gauge("node", "queue_bytes", "Operations of the node's workers in flight, if it has a queue limit.", queue "bytes")
gauge("node", "queue_limit_bytes", "The node's queue limit (--queue-limit).", queue "limit_bytes")
counter("node", "queue_waits", "Times that a fiber waited for room under the queue limit.", queue "waits")

local function store(name)
  return function(node) return node.store and node.store[name] end
end
counter("node", "store_messages", "Operations of other nodes that the node's store has done.", store "messages")
counter("node", "store_keys", "Keys in those operations.", store "keys")
counter("node", "store_busy_seconds", "Time that the node's store has spent on them.", store "busy_s")
gauge("node", "store_queue_messages", "Messages that wait for the node's store.", store "queue")
counter("home", "home_wait_seconds", "Time during which the node had operations in flight to the store of `home`.",
  field "seconds")

gauge("actors", "actors", "Actors that live, by type.", field "count")
gauge("actors", "mailbox_messages", "Messages that wait in mailboxes.", field "mailbox_messages")
gauge("actors", "mailbox_bytes", "Bytes of them.", field "mailbox_bytes")
counter("actors", "messages_handled", "Messages that actors of the type have handled.", field "messages")
counter("actors", "messages_refused", "Messages that they have refused: unknown, malformed, or without the right.",
  field "refused")
counter("actors", "handling_seconds", "Time they have spent on them.", field "handling_s")

counter("slow", "slow_handlers", "Times that actors of the type held an I/O thread or the control thread too long.",
  field "count")
counter("slow", "slow_handler_seconds", "Time that these took.", field "seconds")

gauge("link", "link_up", "1 when the node is connected to the peer.", function(link) return link.up and 1 or 0 end)
counter("link", "link_sent_bytes", "Bytes sent to the peer.", field "bytes_out")
counter("link", "link_received_bytes", "Bytes received from the peer.", field "bytes_in")
counter("link", "link_sent_frames", "Frames sent to the peer.", field "frames_out")
counter("link", "link_received_frames", "Frames received from the peer.", field "frames_in")
counter("link", "link_writes", "System calls that sent them.", field "writes")
gauge("link", "link_queue_bytes", "Bytes that wait to be sent to the peer.", field "queue_bytes")
gauge("link", "link_round_trip_seconds", "Round trip of the newest heartbeat.", function(link)
  return link.round_trip_ns > 0 and link.round_trip_ns / 1e9 or nil
end)

gauge("table", "table_rows", "Rows of the table that the node holds.", field "rows")
gauge("table", "table_memory_bytes", "Memory of them.", field "memory_bytes")
counter("table_where", "pulled_keys", "Keys that workers of the node pulled: from this node, from another one.",
  function(row) return row.t["pulls_" .. row.case] end)
counter("table_where", "pushed_keys", "Keys that workers of the node pushed: to this node, to another one.",
  function(row) return row.t["pushes_" .. row.case] end)
counter("table_operation", "served_keys", "Keys that the node's store has served to other nodes.", function(row)
  return row.t[row.case == "pull" and "served_pulls" or "served_pushes"]
end)
declare("histogram", "table_operation", "table_wait_seconds",
  "How long workers waited for pulls and pushes that could not be done in place. The sum is taken from the buckets.",
  function(row)
    local counts <const> = row.t.waits and row.t.waits[row.case]
    return counts and powers(counts, metrics.seconds_of(counts))
  end)
counter("table", "table_messages", "Messages that the node sent for the table.", field "messages_out")
counter("table", "table_sent_bytes", "Bytes that the node sent for the table.", field "bytes_out")
counter("table", "table_received_bytes", "Bytes that the node received for the table.", field "bytes_in")
counter("table", "table_queued", "Operations that waited for a row in transit.", field "queued")
counter("table", "table_forwarded", "Operations that were sent on to where a row had gone.", field "forwarded")
counter("table", "table_not_finite_rows", "Pushed rows that held a NaN or an infinity.", field "not_finite")
counter("table", "table_not_admitted_rows", "Pushed rows of keys that the table did not admit.", field "not_admitted")
counter("table", "table_evicted_keys", "Keys that made room for others.", field "evicted")
counter("table", "table_expired_keys", "Keys that were not used for long.", field "expired")
gauge("table", "table_cold_rows", "Rows that are on the node's disk alone.", field "cold_rows")
gauge("table", "table_disk_bytes", "Bytes of the table's files there.", field "disk_bytes")
counter("table", "table_frozen_rows", "Rows written to the disk.", field "frozen")
counter("table", "table_thawed_rows", "Rows read from the disk.", field "thawed")
counter("table", "table_compacted_rows", "Rows moved between files.", field "compacted")
counter("table", "relocated_in_keys", "Keys that came to the node.", field "relocated_in")
counter("table", "relocated_out_keys", "Keys that left the node.", field "relocated_out")
declare("histogram", "table", "relocation_seconds", "How long keys took from the request to their coming.", function(t)
  local counts, bounds = {}, {}
  for i = 1, BUCKETS do -- there are two an octave, from 512 ns on
    local hist <const> = t.relocate_hist or {}
    counts[i] = i == 1 and (hist[1] or 0) or (hist[2 * i - 2] or 0) + (hist[2 * i - 1] or 0)
    bounds[i] = i < BUCKETS and 512e-9 * 2 ^ (i - 1) or nil
  end
  return {counts = counts, bounds = bounds, sum = (t.relocate_ns_sum or 0) / 1e9}
end)
counter("table", "location_hits", "Times that a remembered location was right.", field "location_used")
counter("table", "location_misses", "Times that a remembered location was out of date.", field "location_stale")
gauge("table", "unreplicated_bytes", "Bytes of rows with answered writes that no copy has yet.", field "unreplicated")
counter("table", "lost_updates", "Answered writes that went with a lost node.", field "lost_updates")
declare("histogram", "table", "staleness_clocks", "Age of what pulls of tables with clocks saw, in clocks.",
  function(t)
    local seen <const> = t.staleness
    if not seen then return nil end
    local counts, sum, bucket = {}, 0, 1
    for i = 1, #AGES + 1 do counts[i] = 0 end
    for age, n in ipairs(seen.hist) do
      while AGES[bucket] and age > AGES[bucket] do bucket = bucket + 1 end
      counts[bucket], sum = counts[bucket] + n, sum + n * age
    end
    return {counts = counts, bounds = AGES, sum = sum}
  end)

local function clocks(name)
  return function(t)
    local sum = t.staleness and 0
    for _, w in ipairs(t.staleness and t.staleness.workers or {}) do sum = sum + (w[name] or 0) end
    return sum
  end
end
counter("table", "clock_wait_seconds", "Time that workers waited in clocks for the table's bound.",
  clocks "clock_s")
counter("table", "stopped_seconds", "Time that pushes and clocks waited until others had seen enough (vap).",
  clocks "stopped_s")

gauge("run_state", "run_info", "1 for the state that the run is in.", function() return 1 end)
gauge("run", "run_workers", "Workers of the run that have not returned.", function(run)
  local n = 0
  for _, w in ipairs(run.workers) do
    if w.state ~= "done" and w.state ~= "lost" then n = n + 1 end
  end
  return n
end)
counter("run", "run_seconds", "Time since the workers began.", field "elapsed_s")
counter("run", "run_reports", "Reports of all workers.", field "reports")
counter("run", "run_examples", "Examples that were reported.", field "examples")
gauge("run", "run_examples_per_second", "Examples a second, of the last seconds.", field "examples_per_s")
gauge("run", "run_loss", "Loss of the newest report, an example.", field "loss")
counter("run", "run_on_report_seconds", "Time in the job's on_report.", field "on_report_s")
counter("run", "run_policies_seconds", "Time in decisions of policies at reports.", field "policies_s")
counter("worker", "worker_reports", "Reports of the worker.", field "reports")
counter("worker", "worker_work_seconds", "Time that the worker did not wait in meetings, by its reports.",
  field "work_s")
counter("worker", "worker_compute_seconds", "What the worker reported as `compute_s`.", field "compute_s")
counter("worker_wait", "worker_wait_seconds",
  "Time that the worker waited: for the others at reports and barriers, for the driver, for a chunk of the data.",
  field "seconds")
gauge("seat_policy", "policy_info", "1 for the policy that holds the seat.", function() return 1 end)
counter("seat", "policy_decisions", "Decisions of the seat's policies.", field "decisions")
counter("seat", "policy_actions", "Changes that they made.", field "actions")
counter("seat", "policy_faults", "Decisions that failed or were refused.", field "faults")

---- values -----------------------------------------------------------------------------------------------------------

---@class tide.metric
---@field family tide.metric_family
---@field samples {labels: table<string, string>, value?: number, histogram?: table}[]

---@param snapshot tide.snapshot
---@return tide.metric[] families that have samples, in the order of their declaration
function metrics.of(snapshot)
  local list = {}
  for _, family in ipairs(metrics.families) do
    local samples = {}
    SCOPES[family.scope](snapshot, function(row, labels)
      local value <const> = family.of(row)
      if value == nil then return end
      samples[#samples + 1] = family.kind == "histogram" and {labels = labels, histogram = value}
        or {labels = labels, value = value}
    end)
    if #samples > 0 then list[#list + 1] = {family = family, samples = samples} end
  end
  return list
end

---- text -------------------------------------------------------------------------------------------------------------

local ESCAPES <const> = {["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n"}

-- Labels that are no UTF-8 would make the whole page invalid.
local function label_value(value)
  if not utf8.len(value) then
    value = value:gsub("[\x80-\xff]", function(c) return ("\\x%02x"):format(c:byte()) end)
  end
  return (value:gsub('[\\"\n]', ESCAPES))
end

local function labels_text(family, labels, le)
  local parts = {}
  for i, name in ipairs(family.labels) do parts[i] = ('%s="%s"'):format(name, label_value(labels[name])) end
  if le then parts[#parts + 1] = ('le="%s"'):format(le) end
  return #parts > 0 and "{" .. table.concat(parts, ",") .. "}" or ""
end

local function number(value)
  if value ~= value then return "NaN" end
  if value == math.huge then return "+Inf" end
  if value == -math.huge then return "-Inf" end
  if math.type(value) == "integer" then return tostring(value) end
  if value == math.floor(value) and math.abs(value) < 1e15 then return ("%.1f"):format(value) end
  return ("%.17g"):format(value)
end

-- As short as it can be read back.
local function bound(value)
  local short <const> = ("%.15g"):format(value)
  return value == math.floor(value) and ("%.1f"):format(value) or short
end

local function add_histogram(lines, family, sample)
  local h <const>, sum = sample.histogram, 0
  for i, count in ipairs(h.counts) do
    sum = sum + count
    if h.bounds[i] then
      lines[#lines + 1] = ("%s_bucket%s %d"):format(family.name,
        labels_text(family, sample.labels, bound(h.bounds[i])), sum)
    end
  end
  lines[#lines + 1] = ("%s_bucket%s %d"):format(family.name, labels_text(family, sample.labels, "+Inf"), sum)
  lines[#lines + 1] = ("%s_sum%s %s"):format(family.name, labels_text(family, sample.labels), number(h.sum + 0.0))
  lines[#lines + 1] = ("%s_count%s %d"):format(family.name, labels_text(family, sample.labels), sum)
end

---The text that Prometheus reads.
---@param list tide.metric[]
---@param format "prometheus"|"openmetrics" text format 0.0.4, OpenMetrics 1.0
---@return string
function metrics.text(list, format)
  local open <const> = format == "openmetrics"
  local lines = {}
  for _, metric in ipairs(list) do
    local family <const> = metric.family
    local counts <const> = family.kind == "counter"
    local name <const> = counts and not open and family.name .. "_total" or family.name
    lines[#lines + 1] = ("# HELP %s %s"):format(name, family.help:gsub("\\", "\\\\"))
    lines[#lines + 1] = ("# TYPE %s %s"):format(name, family.kind)
    if open and family.unit then lines[#lines + 1] = ("# UNIT %s %s"):format(name, family.unit) end
    for _, sample in ipairs(metric.samples) do
      if sample.histogram then
        add_histogram(lines, family, sample)
      else
        lines[#lines + 1] = ("%s%s%s %s"):format(family.name, counts and "_total" or "",
          labels_text(family, sample.labels), number(sample.value))
      end
    end
  end
  if open then lines[#lines + 1] = "# EOF" end
  return table.concat(lines, "\n") .. "\n"
end

---Plain data: {schema, time, cluster, families = {{name, type, unit, help, samples}}}.
---@param list tide.metric[]
---@param snapshot tide.snapshot
---@return table
function metrics.data(list, snapshot)
  local out <const> = {schema = "tide.metrics/1", time = snapshot.time, cluster = snapshot.cluster, families = {}}
  for i, metric in ipairs(list) do
    local family <const> = metric.family
    local samples = {}
    for k, sample in ipairs(metric.samples) do
      local labels = {}
      for _, name in ipairs(family.labels) do labels[name] = sample.labels[name] end
      local value = sample.value
      if value and (value ~= value or value == math.huge or value == -math.huge) then value = nil end
      samples[k] = {labels = next(labels) and labels or nil, value = value, counts = sample.histogram
        and sample.histogram.counts, bounds = sample.histogram and sample.histogram.bounds,
        sum = sample.histogram and sample.histogram.sum}
    end
    out.families[i] = {name = family.kind == "counter" and family.name .. "_total" or family.name, type = family.kind,
                       unit = family.unit, help = family.help, samples = samples}
  end
  return out
end

return metrics
