-- The bottleneck of a run, in a sentence: a pure function of two snapshots of a cluster (tide.cluster.collect).
--
-- The time of all workers between the snapshots is split into what they wait for and what is left, computing. Each
-- cause that there may be says which share of that time would be gone without it; the largest is the answer, and below
-- a tenth nothing stands out. Without an earlier snapshot the run is judged from its beginning on.
local metrics = require "tide.show.metrics"
local units = require "tide.units"

local slowest = {}

local LEAST <const> = 0.10     -- of the workers' time: what is less does not stand out
local BUSY <const> = 0.5       -- a store that works so much of the time makes others wait for it
local HOT <const> = 0.10       -- of a table's accesses, by one key
local APART <const> = 1.5      -- so many times as much as the others: one stands out from them
local SEEN_S <const> = 0.05    -- of a run: with less there is nothing to judge

---@class tide.finding
---@field run string
---@field uid string of the run
---@field rank? integer of the worker that the cause is
---@field cause string one of slowest.CAUSES, or "none", "unknown"
---@field sentence string
---@field share number of the workers' time that would be gone, 0 to 1
---@field remedy? string what to try
---@field subject? string the worker, node, table or key
---@field split table<string, number> shares of the workers' time: computing, tables, clocks, report, barrier, driver,
---  chunk, messages, exchange
---@field evidence string[] the numbers behind it
---@field others {cause: string, share: number}[] what else there is, largest first

---@type string[]
slowest.CAUSES = {"worker", "store", "hot_key", "network", "clocks", "driver", "on_report", "policy", "steps", "chunks",
                  "memory", "exchange"}

local function percent(share) return ("%.0f %%"):format(100 * share) end

local function by_name(list)
  local out = {}
  for _, item in ipairs(list or {}) do out[item.name] = item end
  return out
end

-- Of counters that fall when what they count begins anew.
local function grown(after, before) return math.max((after or 0) - (before or 0), 0) end

local function median(list)
  if #list == 0 then return 0 end
  local sorted <const> = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  local middle <const> = (#sorted + 1) // 2
  return #sorted % 2 == 1 and sorted[middle] or (sorted[middle] + sorted[middle + 1]) / 2
end

---- where the time goes ----------------------------------------------------------------------------------------------

local WAITS <const> = {"report", "barrier", "driver", "chunk"}

-- The workers that were there all the time: {rank, node, seconds by what for, busy_s}.
local function workers_of(run, old, seconds)
  local before, list = {}, {}
  for _, w in ipairs(old and old.workers or {}) do before[w.rank] = w end
  for _, w in ipairs(run.workers) do
    local was <const> = before[w.rank]
    if w.state == "running" and (was or not old) then
      local row = {rank = w.rank, node = w.node, waited_s = 0}
      for _, kind in ipairs(WAITS) do
        row[kind] = math.min(grown(w.waits[kind], was and was.waits[kind]), seconds)
        row.waited_s = row.waited_s + row[kind]
      end
      -- The wait that a worker reports exceeds the wait that its controller measures, by the latency of messages.
      local told <const> = grown(w.told_wait_s, was and was.told_wait_s)
      local reports <const> = grown(w.reports, was and was.reports)
      row.messages = reports > 1 and math.max(math.min(told, seconds) - row.waited_s, 0) or 0
      row.exchange = math.min(grown(w.exchange_s, was and was.exchange_s), math.max(seconds - row.waited_s, 0))
      row.reports, row.busy_s = reports, math.max(seconds - row.waited_s - row.messages, 0)
      list[#list + 1] = row
    end
  end
  return list
end

-- Seconds that workers of a node waited for a table: what has ended, and what continues.
local function table_wait(t, was)
  local seconds = 0
  for _, operation in ipairs {"pull", "push"} do
    local function total(of)
      if not of then return 0 end
      return metrics.seconds_of(of.waits and of.waits[operation] or {}) + (of.open and of.open[operation] or 0)
    end
    seconds = seconds + grown(total(t), total(was))
  end
  return seconds
end

-- Of a table with clocks: seconds for rows, and for clocks of others. Its pulls are counted by the clocks alone; keys
-- that had to wait for a clock show which part of them that was.
local function clock_waits(t, was)
  local function total(of)
    local clocks, pulls, waits, fetches = 0, 0, 0, 0
    for _, w in ipairs(of and of.staleness and of.staleness.workers or {}) do
      clocks, pulls = clocks + (w.clock_s or 0) + (w.stopped_s or 0), pulls + (w.waited_s or 0)
      waits, fetches = waits + (w.waits or 0), fetches + (w.fetches or 0)
    end
    return {clocks, pulls, waits, fetches}
  end
  local now <const>, then_ <const>, d = total(t), total(was), {}
  for i = 1, 4 do d[i] = grown(now[i], then_[i]) end
  local pulls <const> = d[2]
  local share <const> = d[3] + d[4] > 0 and d[3] / math.max(d[3], d[4]) or 0
  return pulls * (1 - share), d[1] + pulls * share
end

-- Of each node with workers of the run: how long they waited for its tables.
local function nodes_of(run, after, before, workers)
  local old <const>, count, wanted = by_name(before and before.nodes), {}, {}
  for _, w in ipairs(workers) do count[w.node] = (count[w.node] or 0) + 1 end
  for _, name in ipairs(run.tables) do wanted[name] = true end
  local list = {}
  for _, node in ipairs(after.nodes) do
    local was <const> = old[node.name]
    if node.up and node.tables then
      local row = {node = node, was = was, workers = count[node.name] or 0, tables = {}, waited_s = 0, clocks_s = 0,
                   seconds = was and was.now and node.now - was.now or run.elapsed_s}
      local tables_was <const> = by_name(was and was.tables)
      for _, t in ipairs(node.tables) do
        if wanted[t.name] and row.workers > 0 then
          local rows, clocks = table_wait(t, tables_was[t.name]), 0
          if t.staleness then rows, clocks = clock_waits(t, tables_was[t.name]) end
          row.tables[t.name] = {rows_s = rows, clocks_s = clocks}
        end
      end
      local all = 0
      for _, each in pairs(row.tables) do all = all + each.rows_s + each.clocks_s end
      local most <const> = row.workers * row.seconds -- buckets give the sum within a half
      local scale <const> = all > most and most / all or 1
      for _, each in pairs(row.tables) do
        each.rows_s, each.clocks_s = each.rows_s * scale, each.clocks_s * scale
        row.waited_s, row.clocks_s = row.waited_s + each.rows_s, row.clocks_s + each.clocks_s
      end
      list[#list + 1] = row
    end
  end
  return list
end

---@return table|nil all that the causes look at; nil: there is nothing to judge
local function split_of(run, after, before)
  local old
  for _, each in ipairs(before and before.runs or {}) do
    if each.run == run.run then old = each end
  end
  if before and not old then return nil end
  local seconds <const> = run.elapsed_s - (old and old.elapsed_s or 0)
  if seconds < SEEN_S then return nil end
  local s = {run = run, old = old, after = after, before = before, seconds = seconds,
             workers = workers_of(run, old, seconds)}
  if #s.workers == 0 then return nil end
  s.nodes = nodes_of(run, after, before, s.workers)
  s.total = seconds * #s.workers
  local share = {tables = 0, clocks = 0, messages = 0, exchange = 0}
  for _, kind in ipairs(WAITS) do share[kind] = 0 end
  for _, w in ipairs(s.workers) do
    for _, kind in ipairs {"report", "barrier", "driver", "chunk", "messages", "exchange"} do
      share[kind] = share[kind] + w[kind] / s.total
    end
  end
  for _, n in ipairs(s.nodes) do
    share.tables, share.clocks = share.tables + n.waited_s / s.total, share.clocks + n.clocks_s / s.total
    for _, w in ipairs(s.workers) do -- what of a worker's time it did not wait for anything
      if w.node == n.node.name then w.busy_s = math.max(w.busy_s - (n.waited_s + n.clocks_s) / n.workers, 0) end
    end
  end
  local waits = 0
  for _, part in pairs(share) do waits = waits + part end
  share.computing = math.max(1 - waits, 0)
  s.share = share
  return s
end

---- causes -----------------------------------------------------------------------------------------------------------

-- Each gives nil or {share, sentence, remedy, subject, evidence}.
local causes = {}

-- The one that is largest, and the largest of the others.
local function first_two(list, key)
  local first, second
  for _, item in ipairs(list) do
    if not first or item[key] > first[key] then
      first, second = item, first
    elseif not second or item[key] > second[key] then
      second = item
    end
  end
  return first, second
end

function causes.worker(s)
  local slow <const>, next_one <const> = first_two(s.workers, "busy_s")
  if not next_one then return nil end
  local busy = {}
  for i, w in ipairs(s.workers) do busy[i] = w.busy_s end
  local usual <const> = median(busy)
  if slow.busy_s < 1.15 * next_one.busy_s then return nil end -- not always the same one
  local others_wait = 0
  for _, w in ipairs(s.workers) do
    if w ~= slow then others_wait = others_wait + w.report + w.barrier + w.messages end
  end
  local own <const> = slow.report + slow.barrier + slow.messages
  local gain <const> = math.min(others_wait - own * (#s.workers - 1),
    (slow.busy_s - next_one.busy_s) * (#s.workers - 1))
  return {share = gain / s.total, rank = slow.rank, subject = "worker " .. slow.rank,
    sentence = ("worker %d on %s is the bottleneck: it computes %.1f times as long as the others, which wait %s of "
      .. "their time for it"):format(slow.rank, slow.node, slow.busy_s / math.max(usual, 1e-9),
      percent(others_wait / (s.total - s.seconds))),
    remedy = "look what else runs on its machine; `batch` with a batching policy, or data in chunks, gives it less",
    evidence = {("busy: worker %d %s of the time, median %s"):format(slow.rank, percent(slow.busy_s / s.seconds),
      percent(usual / s.seconds))}}
end

-- How long each home was waited for, how busy it was, what a key costs it.
local function homes_of(s)
  local by_id, list, seconds = {}, {}, 0
  for _, n in ipairs(s.nodes) do
    local busy <const> = grown(n.node.store.busy_s, n.was and n.was.store and n.was.store.busy_s)
    local keys <const> = grown(n.node.store.keys, n.was and n.was.store and n.was.store.keys)
    local home = {name = n.node.name, id = n.node.id, waited_s = 0, busy = busy / math.max(n.seconds, 1e-9),
                  key_s = keys > 0 and busy / keys or 0, keys = keys, queue = n.node.store.queue, of = n}
    by_id[n.node.id], list[#list + 1] = home, home
  end
  for _, n in ipairs(s.nodes) do
    if n.workers > 0 then
      seconds = seconds + n.seconds
      for id, waited in pairs(n.node.waited) do
        local home <const> = by_id[math.tointeger(tonumber(id))]
        if home then home.waited_s = home.waited_s + grown(waited, n.was and n.was.waited and n.was.waited[id]) end
      end
    end
  end
  for _, home in ipairs(list) do home.waited = seconds > 0 and home.waited_s / seconds or 0 end
  return list
end

-- The table that is waited for most: name, share of the workers' time.
local function slowest_table(s)
  local sums, best = {}, nil
  for _, n in ipairs(s.nodes) do
    for name, each in pairs(n.tables) do sums[name] = (sums[name] or 0) + each.rows_s end
  end
  for name, seconds in pairs(sums) do
    if not best or seconds > sums[best] or seconds == sums[best] and name < best then best = name end
  end
  return best, best and sums[best] / s.total or 0
end

local function busy_home(s)
  local homes <const> = homes_of(s)
  local home <const>, other <const> = first_two(homes, "busy")
  if not home or home.busy < BUSY and not (home.busy > 0.2 and other and home.busy > APART * 2 * other.busy) then
    return nil
  end
  local others = {}
  for _, each in ipairs(homes) do
    if each ~= home and each.keys > 0 then others[#others + 1] = each.key_s end
  end
  return home, median(others)
end

local function hot_key(s, name)
  local hot <const> = s.after.hot and s.after.hot[name]
  local key <const> = hot and hot[1]
  return key and key.share >= HOT and key or nil
end

-- Several nodes that are busy share what is waited; without one of them the wait is that for the next.
local function store_share(s) return s.share.tables end

function causes.store(s)
  local home <const>, usual_key_s <const> = busy_home(s)
  if not home then return nil end
  local name <const>, share <const> = slowest_table(s)
  local key <const> = name and hot_key(s, name)
  if key and not (usual_key_s > 0 and home.key_s > APART * usual_key_s) then return nil end -- causes.hot_key
  return {share = store_share(s), subject = home.name,
    sentence = ("%s's store is the bottleneck: workers wait %s of their time for rows%s, and it is busy %s of the time")
      :format(home.name, percent(s.share.tables), name and (", %s for table %s"):format(percent(share), name) or "",
      percent(home.busy)),
    remedy = "`tide move` or a placement policy gives slots to other nodes; copies (technique = \"replicate\") or "
      .. "relocation keep rows where they are used",
    evidence = {("%s: busy %s, waited for %s of the time, %s a key (other nodes %s), %d messages pending"):format(
      home.name, percent(home.busy), percent(home.waited), units.format_duration(home.key_s),
      units.format_duration(usual_key_s), home.queue)}}
end

function causes.hot_key(s)
  local name <const>, share <const> = slowest_table(s)
  local key <const> = name and hot_key(s, name)
  local home <const>, usual_key_s <const> = busy_home(s)
  if not key or not home or usual_key_s > 0 and home.key_s > APART * usual_key_s then return nil end
  return {share = store_share(s), subject = ("key %s of %s"):format(units.format_unsigned(key.key), name),
    sentence = ("key %s of table %s is the bottleneck: it is %s of the table's accesses, and workers wait %s of "
      .. "their time for the table"):format(units.format_unsigned(key.key), name, percent(key.share), percent(share)),
    remedy = "technique = \"replicate\" or \"intent\" keeps copies of hot keys on every node",
    evidence = {("%s's store: busy %s, %d keys served"):format(home.name, percent(home.busy), home.keys)}}
end

function causes.network(s)
  if busy_home(s) then return nil end
  local names, homes, trips = {}, {}, {}
  for _, node in ipairs(s.after.nodes) do
    names[node.id], homes[node.id] = node.name, node.has_store or nil
  end
  for _, n in ipairs(s.nodes) do
    for _, link in ipairs(n.node.links) do
      if homes[link.peer] and (link.round_trip_ns or 0) > 0 then
        trips[#trips + 1] = {from = n.node.name, to = names[link.peer], s = link.round_trip_ns / 1e9}
      end
    end
  end
  local home <const> = first_two(homes_of(s), "waited")
  local worst <const>, all = first_two(trips, "s"), {}
  for i, trip in ipairs(trips) do all[i] = trip.s end
  local name <const>, share <const> = slowest_table(s)
  local sent = 0
  for _, n in ipairs(s.nodes) do
    local was = {}
    for _, link in ipairs(n.was and n.was.links or {}) do was[link.peer] = link end
    for _, link in ipairs(n.node.links) do
      sent = sent + grown(link.bytes_out, was[link.peer] and was[link.peer].bytes_out)
    end
  end
  local where <const> = home and home.waited > 0 and (", most for rows on %s"):format(home.name) or ""
  return {share = s.share.tables, subject = home and home.name,
    sentence = ("the network is the bottleneck: workers wait %s of their time for rows%s%s, while the stores are idle")
      :format(percent(s.share.tables), name and (", %s for table %s"):format(percent(share), name) or "", where),
    remedy = "pull more keys at once or ahead of need (async); relocation and copies make accesses local",
    evidence = {worst and ("longest round-trip time %s, %s to %s; median %s"):format(units.format_duration(worst.s),
      worst.from, worst.to, units.format_duration(median(all))) or "no round-trip time measured",
      ("%s sent per second"):format(units.format_size(sent / s.seconds))}}
end

function causes.memory(s)
  local TIER <const> = {narrow = true, full = true, over = true}
  for _, n in ipairs(s.nodes) do
    local memory <const>, queue <const> = n.node.memory, n.node.queue
    local refused <const> = memory and grown(memory.refused, n.was and n.was.memory and n.was.memory.refused) or 0
    local waits <const> = queue and grown(queue.waits, n.was and n.was.queue and n.was.queue.waits) or 0
    if memory and (TIER[memory.tier] or refused > 0) then
      return {share = s.share.tables, subject = n.node.name,
        sentence = ("%s has no memory left under its cap: it is %s, and workers wait %s of their time for rows"):format(
          n.node.name, memory.tier, percent(s.share.tables)),
        remedy = "give it more (--memory), or more nodes to hold the rows",
        evidence = {("%s of %s used, %d refused meanwhile"):format(units.format_size(memory.used_bytes),
          units.format_size(memory.cap_bytes), refused)}, first = true}
    elseif waits > 0 then
      return {share = s.share.tables, subject = n.node.name,
        sentence = ("%s's queue limit is the bottleneck: its workers waited for room %d times, and wait %s of their "
          .. "time for rows"):format(n.node.name, waits, percent(s.share.tables)),
        remedy = "a larger --queue-limit, or fewer operations in flight",
        evidence = {("%s of %s in flight"):format(units.format_size(queue.bytes),
          units.format_size(queue.limit_bytes))}, first = true}
    end
  end
end

function causes.clocks(s)
  local worst, bound
  for _, n in ipairs(s.nodes) do
    for name, each in pairs(n.tables) do
      if not worst or each.clocks_s > worst.s then worst = {name = name, s = each.clocks_s} end
    end
  end
  for _, n in ipairs(s.nodes) do
    for _, t in ipairs(n.node.tables) do
      if worst and t.name == worst.name then bound = t.consistency or bound end
    end
  end
  if not worst or worst.s == 0 then return nil end
  local ahead <const> = first_two(s.workers, "busy_s")
  return {share = s.share.clocks, subject = worst.name,
    sentence = ("the staleness bound is the bottleneck: workers wait %s of their time for clocks of others at table %s "
      .. "(%s)"):format(percent(s.share.clocks), worst.name, bound or "?"),
    remedy = "a larger bound, `tide.table {consistency = \"ssp:N\"}`; the others wait for the worker that "
      .. "computes longest",
    evidence = {("worker %d on %s computes %s of the time"):format(ahead.rank, ahead.node,
      percent(ahead.busy_s / s.seconds))}}
end

function causes.on_report(s)
  local seconds <const> = grown(s.run.on_report_s, s.old and s.old.on_report_s)
  return {share = math.min(seconds / s.seconds, s.share.driver), subject = "on_report",
    sentence = ("on_report is the bottleneck: workers wait %s of their time for it"):format(
      percent(seconds / s.seconds)),
    remedy = "do less in on_report, or report less often",
    evidence = {("%s in all"):format(units.format_duration(seconds))}}
end

function causes.policy(s)
  local seconds <const> = grown(s.run.policies_s, s.old and s.old.policies_s)
  return {share = math.min(seconds / s.seconds, s.share.driver), subject = "policies",
    sentence = ("policies are the bottleneck: workers wait %s of their time for them"):format(
      percent(seconds / s.seconds)),
    remedy = "`tide policy list` names them; a larger `every`, or less work in decide",
    evidence = {("%s in all"):format(units.format_duration(seconds))}}
end

function causes.driver(s)
  local own <const> = grown(s.run.on_report_s, s.old and s.old.on_report_s)
    + grown(s.run.policies_s, s.old and s.old.policies_s)
  local share <const> = math.max(s.share.driver - own / s.seconds, 0)
  return {share = share, subject = "driver",
    sentence = ("the driver is the bottleneck: workers wait %s of their time in reports for it"):format(
      percent(share)),
    remedy = "do less in the loop over run:events, or evaluate less often",
    evidence = {("reports: %d"):format(grown(s.run.reports, s.old and s.old.reports))}}
end

function causes.steps(s)
  local worker <const> = causes.worker(s)
  local rest <const> = s.share.report + s.share.barrier + s.share.messages - (worker and math.max(worker.share, 0) or 0)
  local reports <const> = grown(s.run.reports, s.old and s.old.reports)
  return {share = rest, subject = "steps",
    sentence = ("the steps are too short: workers spend %s of their time in reports and barriers, and no single "
      .. "worker causes it"):format(percent(rest)),
    remedy = "a larger batch, or more steps between two reports",
    evidence = {("%.1f reports per second"):format(reports / s.seconds)}}
end

function causes.chunks(s)
  return {share = s.share.chunk, subject = "chunks",
    sentence = ("the chunks are too large: workers wait %s of their time for a chunk"):format(
      percent(s.share.chunk)),
    remedy = "more chunks (`chunks` of the job), or a dispatch policy",
    evidence = {s.run.chunks and ("%d chunks a pass"):format(s.run.chunks.pieces or 0) or "no chunks are known"}}
end

function causes.exchange(s)
  return {share = s.share.exchange, subject = "gradients",
    sentence = ("the exchange of gradients is the bottleneck: workers wait %s of their time for it"):format(
      percent(s.share.exchange)),
    remedy = "larger batches; a comm policy chooses path and format of each layer",
    evidence = {}}
end

---- the answer -------------------------------------------------------------------------------------------------------

-- A machine with more to do than processors makes everything slow alike: no cause of its own, but worth a word.
local function crowded(s)
  for _, n in ipairs(s.nodes) do
    local node <const> = n.node
    if n.workers > 0 and (node.processors or 0) > 0 and (node.threads_ready or 0) > 2 * node.processors then
      return ("the machine of %s has %d threads to run on %d processors"):format(node.name, node.threads_ready,
        node.processors)
    end
  end
end

---@param run tide.run_figures
---@param after tide.snapshot
---@param before? tide.snapshot
---@return tide.finding
function slowest.of_run(run, after, before)
  local s <const> = split_of(run, after, before)
  if not s then
    local state <const> = run.state ~= "running" and ("it is %s"):format(run.state) or "it has only begun"
    return {run = run.name, uid = run.run, cause = "unknown", share = 0, split = {}, evidence = {}, others = {},
            sentence = ("nothing can be said of run %s: %s"):format(run.name, state)}
  end
  local found = {}
  for _, cause in ipairs(slowest.CAUSES) do
    local one <const> = causes[cause](s)
    if one and one.share > 0 then
      one.cause = cause
      found[#found + 1] = one
    end
  end
  table.sort(found, function(a, b)
    if a.share ~= b.share then return a.share > b.share end
    if (a.first or false) ~= (b.first or false) then return a.first or false end
    return a.cause < b.cause
  end)
  local others = {}
  for i, one in ipairs(found) do others[i] = {cause = one.cause, share = one.share} end
  local top = found[1]
  local note <const> = crowded(s)
  if not top or top.share < LEAST then
    local sentence = ("nothing stands out: %s of the time is computing"):format(percent(s.share.computing))
    return {run = run.name, uid = run.run, cause = "none", share = 0, sentence = sentence, split = s.share,
            evidence = {note}, others = others}
  end
  table.remove(others, 1)
  if note then top.evidence[#top.evidence + 1] = note end
  return {run = run.name, uid = run.run, cause = top.cause, share = top.share, sentence = top.sentence,
          remedy = top.remedy, rank = top.rank, subject = top.subject, split = s.share, evidence = top.evidence,
          others = others}
end

---The bottleneck of each active run.
---@param before tide.snapshot|nil
---@param after tide.snapshot
---@return tide.finding[]
function slowest.of(before, after)
  local list = {}
  for _, run in ipairs(after.runs) do
    if not run.script then list[#list + 1] = slowest.of_run(run, after, before) end -- else it has no workers
  end
  return list
end

---@param finding tide.finding
---@return string[] lines for people: the sentence, what to try, the numbers
function slowest.lines(finding)
  local lines = {("%s: %s"):format(finding.run, finding.sentence)}
  if finding.remedy then lines[#lines + 1] = "  try: " .. finding.remedy end
  local parts = {}
  for kind, share in pairs(finding.split) do
    if share >= 0.01 then parts[#parts + 1] = {kind = kind, share = share} end
  end
  table.sort(parts, function(a, b)
    if a.share ~= b.share then return a.share > b.share end
    return a.kind < b.kind
  end)
  for i, part in ipairs(parts) do parts[i] = ("%s %s"):format(part.kind, percent(part.share)) end
  if #parts > 0 then lines[#lines + 1] = "  the workers' time: " .. table.concat(parts, ", ") end
  for _, evidence in ipairs(finding.evidence) do lines[#lines + 1] = "  " .. evidence end
  return lines
end

return slowest
