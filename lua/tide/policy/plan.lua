-- Plans: validation against the state of now, and the difference to it in the order in which it may be carried out.
--
-- `now` and `view` are plain snapshots of the same form (docs/guides/policy-contract.md): the one of this moment,
-- and the one that the policy decided on. All errors are collected; one rejects the whole plan.
local shape = require "tide.policy.shape"

local plan = {}
local fail <const> = shape.fail
local integer, number, list, by_id, record, id, choice =
  shape.integer, shape.number, shape.list, shape.by_id, shape.record, shape.id, shape.choice

local text <const> = shape.string(1000)

-- Text, or text by id.
local function why(c, v, path)
  if type(v) == "string" then return text(c, v, path) end
  if type(v) ~= "table" then return fail(c, "PLAN_SHAPE", path, v, "must be a text, or texts by id") end
  local out, keys = {}, {}
  for key in pairs(v) do
    if math.type(key) ~= "integer" then
      return fail(c, "PLAN_SHAPE", path, nil, "must be a text, or texts by id")
    end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  for _, key in ipairs(keys) do out[key] = text(c, v[key], ("%s[%d]"):format(path, key)) end
  return out
end

local function consistency(c, v, path)
  if v == "bsp" or v == "async" then return v end
  local text_ = type(v) == "string" and #v < 40 and v or ""
  local bound = text_:match "^e?ssp:(%d+)$" or text_:gsub(":flat$", ""):match "^vap:(%d[%d.e+-]*)$"
  if tonumber(bound) then return v end
  return fail(c, "PLAN_SHAPE", path, v, "must be bsp, ssp:N, essp:N, vap:X or async")
end

---- fields by kind ------------------------------------------------------------------------------------------------

local move <const> = record({table = id "tables", slot = integer(0), key = integer(0), to = id "nodes"},
  {"table", "to"})

local FIELDS <const> = {
  scheduling = {
    alloc = by_id("jobs", record {slots = integer(0), type = text, servers = integer(0),
                                  nodes = by_id("nodes", integer(1))}),
    order = list(id "jobs"), placer = choice("pack", "emptiest"),
    nodes = record {want = integer(0), pool = text, drop = list(id "nodes")},
  },
  scaling = {workers = integer(1), servers = integer(1), drop = list(id "workers")},
  placement = {
    moves = list(move),
    technique = list(record({table = id "tables", keys = list(integer(0)), range = list(integer(0)),
      use = choice("static", "relocate", "replicate", "intent"), nodes = list(id "nodes")}, {"table", "use"})),
    replicas = by_id("tables", integer(0)), budget_bytes_per_s = number(1),
  },
  batching = {
    batch = by_id("workers", integer(0)), total = integer(1), accum = integer(1),
    lr_rule = choice("adascale", "adamscale", "linear", "sqrt", "legw", "none"),
  },
  comm = {
    path = by_id("tensors", choice("ps", "factor", "ring")),
    format = by_id("tensors", choice("f32", "bf16", "f16", "topk", "onebit", "sparse")),
    fanout = by_id("tensors", integer(0)),
    priority = by_id("tensors", number()), chunk_bytes = integer(1), budget_bytes_per_s = number(1),
  },
  sync = {consistency = consistency, backup = integer(0)},
  dispatch = {
    queue = by_id("workers", list(id "chunks")),
    backup = list(record({chunk = id "chunks", worker = id "workers"}, {"chunk", "worker"})),
    chunk_examples = integer(1),
  },
}
for _, fields in pairs(FIELDS) do
  fields.why, fields.wake, fields.next_every = why, number(0), number(0.001, 86400 * 365)
end

local SHAPES <const> = {}
for kind, fields in pairs(FIELDS) do SHAPES[kind] = record(fields) end

local ID_LISTS <const> = {"jobs", "nodes", "workers", "servers", "tables", "tensors", "chunks"}

local function index(view)
  local ids = {}
  for _, what in ipairs(ID_LISTS) do
    ids[what] = {}
    for _, item in ipairs(view[what] or {}) do ids[what][item.id] = item end
  end
  return ids
end

---- rules by kind -------------------------------------------------------------------------------------------------

local rules = {}

local function size_allowed(sizes, n)
  if sizes == nil or sizes == "any" then return true end
  if sizes == "pow2" then return n & (n - 1) == 0 end
  for _, size in ipairs(sizes) do
    if size == n then return true end
  end
  return false
end

local function asked_slots(entry)
  if not entry.nodes then return entry.slots or 0 end
  local sum = 0
  for _, n in pairs(entry.nodes) do sum = sum + n end
  return sum
end

local function check_size(c, job, n, path)
  if n > 0 and (job.min and n < job.min or job.max and n > job.max) then
    fail(c, "PLAN_LIMIT", path, n, ("job %d takes %s to %s slots"):format(job.id, job.min or 1, job.max or "any"))
  elseif n > 0 and not size_allowed(job.sizes, n) then
    fail(c, "PLAN_LIMIT", path, n, ("job %d does not take this number of slots"):format(job.id))
  end
  if job.preemptible == false and n < (job.slots or 0) then
    fail(c, "PLAN_LIMIT", path, n, ("job %d holds %d slots and is not preemptible"):format(job.id, job.slots))
  end
end

local function check_entry(c, job, entry, path, per_node)
  if entry.nodes and (entry.slots or entry.type) then
    fail(c, "PLAN_SHAPE", path, nil, "gives either nodes or slots")
  elseif not entry.nodes and not entry.slots then
    fail(c, "PLAN_SHAPE", path, nil, "gives neither nodes nor slots")
  end
  check_size(c, job, asked_slots(entry), path)
  for node_id, n in pairs(entry.nodes or {}) do
    local node = c.now.nodes[node_id]
    if node.state and node.state ~= "up" then
      fail(c, "PLAN_CAPACITY", ("%s.nodes[%d]"):format(path, node_id), n, ("node %d is %s"):format(node_id, node.state))
    end
    per_node[node_id] = (per_node[node_id] or 0) + n
  end
end

local function check_sharing(c, alloc)
  local spans = {}
  for _, job in pairs(c.now.jobs) do
    local entry = alloc[job.id]
    local nodes = entry and (entry.nodes or asked_slots(entry) == 0 and {}) or job.nodes or {}
    local first = next(nodes)
    if first and next(nodes, first) then
      for node in pairs(nodes) do
        if spans[node] then
          fail(c, "PLAN_SHARED", "plan.alloc", node, ("two jobs that span nodes would share node %d"):format(node))
        end
        spans[node] = true
      end
    end
  end
end

function rules.scheduling(c, p, now)
  local alloc, per_node, total = p.alloc or {}, {}, 0
  local by_type, capacity, capacity_by_type = {}, 0, {}
  for _, node in pairs(c.now.nodes) do
    if node.state == nil or node.state == "up" then
      capacity = capacity + node.slots
      local t = node.type or ""
      capacity_by_type[t] = (capacity_by_type[t] or 0) + node.slots
    end
  end
  for _, job in ipairs(now.jobs or {}) do
    local entry = alloc[job.id]
    if entry then
      local path = ("plan.alloc[%d]"):format(job.id)
      check_entry(c, job, entry, path, per_node)
      total = total + asked_slots(entry)
      if entry.type then
        by_type[entry.type] = (by_type[entry.type] or 0) + asked_slots(entry)
        if not capacity_by_type[entry.type] then
          fail(c, "PLAN_UNKNOWN", path .. ".type", entry.type, "no node that is up has slots of this type")
        elseif by_type[entry.type] > capacity_by_type[entry.type] then
          fail(c, "PLAN_CAPACITY", path .. ".type", by_type[entry.type], ("there are %d slots of type %s"):format(
            capacity_by_type[entry.type], entry.type))
        end
      end
    elseif next(alloc) then
      total = total + (job.slots or 0)
      for node, n in pairs(job.nodes or {}) do per_node[node] = (per_node[node] or 0) + n end
    end
  end
  for _, node in ipairs(now.nodes or {}) do
    local n = per_node[node.id]
    if n and n > node.slots then
      fail(c, "PLAN_CAPACITY", "plan.alloc", n, ("node %d has %d slots"):format(node.id, node.slots))
    end
  end
  if next(alloc) and total > capacity then
    fail(c, "PLAN_CAPACITY", "plan.alloc", total, ("the nodes that are up have %d slots"):format(capacity))
  end
  if now.avoid_sharing and p.alloc then check_sharing(c, alloc) end
end

function rules.scaling(c, p, now)
  local job = now.job or {}
  local servers = p.servers or #(now.servers or {})
  if p.workers and job.slots and p.workers > job.slots then
    fail(c, "PLAN_CAPACITY", "plan.workers", p.workers, ("the job's grant is %d slots"):format(job.slots))
  end
  if p.workers and (job.min and p.workers < job.min or job.max and p.workers > job.max) then
    fail(c, "PLAN_LIMIT", "plan.workers", p.workers, ("the job takes %s to %s workers"):format(job.min or 1,
      job.max or "any"))
  end
  local most = now.servers_max or now.nodes and #now.nodes
  if p.servers and most and servers > most then
    fail(c, "PLAN_CAPACITY", "plan.servers", servers, ("the grant has %d nodes"):format(most))
  end
  if p.drop and #p.drop >= #(now.workers or {}) then
    fail(c, "PLAN_LIMIT", "plan.drop", #p.drop, "no worker would be left")
  end
end

local function check_moves(c, p, now, every)
  local homes, seen, bytes = {}, {}, 0
  for _, slot in ipairs(now.table_slots or {}) do homes[slot.table .. "/" .. slot.id] = slot end
  for i, m in ipairs(p.moves or {}) do
    local path = ("plan.moves[%d]"):format(i)
    if (m.slot == nil) == (m.key == nil) then
      fail(c, "PLAN_SHAPE", path, nil, "names either a slot or a key")
    else
      local name = m.table .. (m.slot and "/" or "#") .. (m.slot or m.key)
      local slot = m.slot and homes[name]
      if m.slot and not slot then
        fail(c, "PLAN_UNKNOWN", path .. ".slot", m.slot, ("table %d has no such slot"):format(m.table))
      elseif slot and slot.moving then
        c.dropped = c.dropped + 1
      elseif slot and slot.home == m.to then
        fail(c, "PLAN_MOVE", path .. ".to", m.to, "it is at home there already")
      end
      if seen[name] then fail(c, "PLAN_MOVE", path, m.slot or m.key, "it is moved twice") end
      if c.now.nodes[m.to].state and c.now.nodes[m.to].state ~= "up" then
        fail(c, "PLAN_CAPACITY", path .. ".to", m.to, "this node is " .. c.now.nodes[m.to].state)
      end
      seen[name] = true
      bytes = bytes + (slot and slot.bytes or 0)
    end
  end
  if p.budget_bytes_per_s and bytes > p.budget_bytes_per_s * every then
    fail(c, "PLAN_MOVE", "plan.moves", bytes, ("the budget allows %d bytes until the next decision"):format(
      math.floor(p.budget_bytes_per_s * every)))
  end
end

function rules.placement(c, p, now, every)
  check_moves(c, p, now, every)
  for table_id, r in pairs(p.replicas or {}) do
    if r > #(now.nodes or {}) - 1 then
      fail(c, "PLAN_MOVE", ("plan.replicas[%d]"):format(table_id), r, ("%d nodes hold at most %d replicas"):format(
        #(now.nodes or {}), #(now.nodes or {}) - 1))
    end
  end
  for i, t in ipairs(p.technique or {}) do
    if (t.keys == nil) == (t.range == nil) then
      fail(c, "PLAN_SHAPE", ("plan.technique[%d]"):format(i), nil, "names either keys or a range")
    elseif t.range and (#t.range ~= 2 or t.range[1] > t.range[2]) then
      fail(c, "PLAN_SHAPE", ("plan.technique[%d].range"):format(i), nil, "must be {first, last}")
    end
    local own = (c.now.tables[t.table] or {}).technique
    if (t.use == "relocate" or t.use == "intent") and (own == "static" or own == "replicate") then
      fail(c, "PLAN_LIMIT", ("plan.technique[%d].use"):format(i), t.use, "the rows of this table do not move")
    end
  end
end

-- Of a job whose batch changes.
local function check_limits(c, p, now, limits)
  local workers <const> = math.max(#(now.workers or {}), 1)
  local total <const>, accum <const> = p.total or now.job.batch, p.accum or now.job.accum
  if p.batch or p.lr_rule then
    fail(c, "PLAN_LIMIT", "plan", nil, "this job divides its batch evenly and keeps its rule for the rate")
  elseif total < limits.start or total > math.max(limits.max, limits.lo * workers) then
    fail(c, "PLAN_BATCH", "plan.total", total, ("the job takes %d to %d examples a step"):format(limits.start,
      limits.max))
  elseif total / workers / accum > limits.hi then
    fail(c, "PLAN_BATCH", "plan.accum", accum, ("a worker holds %d examples a pass"):format(limits.hi))
  end
end

function rules.batching(c, p, now)
  local limits <const> = (now.job or {}).limits
  if limits and (p.total or p.accum or p.batch or p.lr_rule) then return check_limits(c, p, now, limits) end
  if not p.batch then return end
  local sum, total = 0, p.total or (now.job or {}).batch
  for _, w in ipairs(now.workers or {}) do
    local b, path = p.batch[w.id], ("plan.batch[%d]"):format(w.id)
    if b == 0 and w.state ~= "leaving" then
      fail(c, "PLAN_BATCH", path, b, "an active worker needs at least one example")
    elseif b and w.batch_max and b > w.batch_max then
      fail(c, "PLAN_BATCH", path, b, ("the worker's memory holds %d examples"):format(w.batch_max))
    elseif b and w.batch_min and b < w.batch_min then
      fail(c, "PLAN_BATCH", path, b, ("the worker takes at least %d examples"):format(w.batch_min))
    end
    sum = sum + (b or w.batch or 0)
  end
  -- The part of a lost worker is no fault of the plan: the next decision spreads it.
  if total and sum ~= total and c.dropped == 0 then
    fail(c, "PLAN_BATCH", "plan.batch", sum, ("the sum must be %d"):format(total))
  end
end

local FANOUT_MOST <const> = 255
local CARRIED_BY <const> = {topk = "ps", onebit = "ps", sparse = "factor"} -- the others by every path

function rules.comm(c, p, now)
  for _, t in ipairs(now.tensors or {}) do
    local path, format = p.path and p.path[t.id] or t.path, p.format and p.format[t.id] or t.format
    local fanout <const> = p.fanout and p.fanout[t.id] or 0
    if path == "factor" and t.row_values == 0 then
      fail(c, "PLAN_LIMIT", ("plan.path[%d]"):format(t.id), "factor", ("%s has no factors"):format(t.name or "it"))
    elseif path and CARRIED_BY[format] and path ~= CARRIED_BY[format] then
      fail(c, "PLAN_LIMIT", ("plan.format[%d]"):format(t.id), format, ("the path `%s` does not carry it"):format(path))
    elseif fanout > FANOUT_MOST then
      fail(c, "PLAN_LIMIT", ("plan.fanout[%d]"):format(t.id), fanout, ("%d or less"):format(FANOUT_MOST))
    end
  end
end

function rules.sync(c, p, now)
  local bound = p.consistency and tonumber(p.consistency:match "^e?ssp:(%d+)$" or p.consistency == "bsp" and 0)
  local ahead = now.staleness and now.staleness.max
  if bound and ahead and bound < ahead then
    c.notes[#c.notes + 1] = {code = "PLAN_SYNC", field = "plan.consistency", value = p.consistency,
      reason = ("workers are %d clocks ahead: it takes effect at the next clock"):format(ahead)}
  end
  if p.backup and now.workers and p.backup >= #now.workers then
    fail(c, "PLAN_LIMIT", "plan.backup", p.backup, ("there are %d workers"):format(#now.workers))
  end
end

local CHUNKS_MOST <const> = 65536 -- of a pass

function rules.dispatch(c, p, now)
  local seen = {}
  local examples <const> = (now.job or {}).examples
  if p.chunk_examples and examples and examples > CHUNKS_MOST * p.chunk_examples then
    fail(c, "PLAN_LIMIT", "plan.chunk_examples", p.chunk_examples,
      ("a pass of %d examples has %d chunks at most"):format(examples, CHUNKS_MOST))
  end
  local workers = {}
  for worker in pairs(p.queue or {}) do workers[#workers + 1] = worker end
  table.sort(workers)
  for _, worker in ipairs(workers) do
    for i, chunk in ipairs(p.queue[worker]) do
      local path = ("plan.queue[%d][%d]"):format(worker, i)
      if seen[chunk] then fail(c, "PLAN_LIMIT", path, chunk, "this chunk is queued twice") end
      if (c.now.chunks[chunk].left or 1) == 0 then fail(c, "PLAN_UNKNOWN", path, chunk, "this chunk is done") end
      seen[chunk] = true
    end
  end
  for i, b in ipairs(p.backup or {}) do
    if c.now.chunks[b.chunk].taken_by == b.worker then
      fail(c, "PLAN_LIMIT", ("plan.backup[%d]"):format(i), b.chunk, "that worker works on it already")
    end
  end
end

---Checks a plan.
---@param kind string
---@param p any what decide returned, decoded; nil = no change
---@param now table snapshot of this moment
---@param view table snapshot the policy saw
---@param every number seconds until the next decision
---@return table verdict {plan = checked copy | nil, errors, notes, dropped}
function plan.validate(kind, p, now, view, every)
  local c = {errors = {}, notes = {}, dropped = 0, entries = 0, now = index(now), was = index(view)}
  local checked = p == nil and {} or SHAPES[kind](c, p, "plan")
  if #c.errors == 0 then rules[kind](c, checked, now, every) end
  return {plan = #c.errors == 0 and checked or nil, errors = c.errors, notes = c.notes, dropped = c.dropped}
end

---- what changes --------------------------------------------------------------------------------------------------

-- What the snapshot says of a field now; nil: unknown to the host, so it counts as changed.
local current = {}

function current.alloc(now)
  local out = {}
  for _, job in ipairs(now.jobs or {}) do out[job.id] = {slots = job.slots, nodes = job.nodes} end
  return out
end
function current.workers(now) return #(now.workers or {}) end
function current.servers(now) return #(now.servers or {}) end
function current.total(now) return (now.job or {}).batch end
function current.accum(now) return (now.job or {}).accum end
function current.batch(now)
  local out = {}
  for _, w in ipairs(now.workers or {}) do out[w.id] = w.batch end
  return out
end
function current.replicas(now)
  local out = {}
  for _, t in ipairs(now.tables or {}) do out[t.id] = t.replicas end
  return out
end
local function of_tensors(field)
  return function(now)
    local out = {}
    for _, t in ipairs(now.tensors or {}) do out[t.id] = t[field] end
    return out
  end
end
current.path, current.format = of_tensors "path", of_tensors "format"
function current.chunk_examples(now) return (now.job or {}).chunk_examples end
function current.queue(now) return now.queue end
function current.consistency(now) return (now.table or {}).consistency end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for k, v in pairs(a) do
    if not same(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

-- A job's share has more fields than a plan for it needs.
local function same_grant(new, old)
  for k, v in pairs(new) do
    if not same(v, old and old[k]) then return false end
  end
  return true
end

local KEYED <const> = {alloc = true, batch = true, replicas = true, path = true, format = true, fanout = true,
                       priority = true, queue = true}
local TALK <const> = {why = true, wake = true, next_every = true} -- words to the host, not to what runs

local function weight_of(field, id_, new, old)
  if field == "alloc" then return asked_slots(new) - (old and old.slots or 0) end
  if field == "batch" then return new - (old or 0) end
  if field == "workers" or field == "servers" then return new - (old or 0) end
  return id_ and 0 or 1
end

---The actions that lead from `now` to the plan: shrinks first, then the rest, each group in the order of field and id.
---@param checked table plan of validate
---@param now table
---@return table[] actions {field, id, value, old}
function plan.diff(checked, now)
  local actions = {}
  local function add(field, id_, value, old)
    actions[#actions + 1] = {field = field, id = id_, value = value, old = old,
                             shrink = weight_of(field, id_, value, old) < 0 or field == "drop"}
  end
  for field, value in pairs(checked) do
    local was = current[field] and current[field](now)
    if KEYED[field] then
      for id_, v in pairs(value) do
        local old = was and was[id_]
        if not (field == "alloc" and same_grant or same)(v, old) then add(field, id_, v, old) end
      end
    elseif not TALK[field] and (was == nil or not same(value, was)) then
      add(field, nil, value, was)
    end
  end
  table.sort(actions, function(a, b)
    if a.shrink ~= b.shrink then return a.shrink end
    if a.field ~= b.field then return a.field < b.field end
    return (a.id or 0) < (b.id or 0)
  end)
  return actions
end

---One line per error, for people.
---@param errors table[]
---@return string
function plan.describe(errors)
  local lines = {}
  for i, e in ipairs(errors) do
    if i > 5 then
      lines[i] = ("and %d more"):format(#errors - 5)
      break
    end
    lines[i] = ("%s: %s%s %s"):format(e.code, e.field, e.value ~= nil and " = " .. tostring(e.value) or "", e.reason)
  end
  return table.concat(lines, "; ")
end

return plan
