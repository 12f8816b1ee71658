-- Goodput scheduling (Qiao et al., Pollux, OSDI 2021): the sizes that maximise the sum of weight * u(speedup), exactly.
-- Waiting is worth 0. p: how much of the sum goes to who is far behind; kappa: how much service used up counts against.
-- autoscale: as many nodes as keep the utility of a slot between `low` and `high` (section 4.2.2).
local policy = { api = 1, kind = "scheduling", name = "goodput", version = 1,
  params = { p = -1, kappa = 0, eps = 1e-3, autoscale = false, low = 1 / 2, high = 2 / 3, patience_s = 300,
             price_per_s_max = 0 },
  every = 15, min_gap = 2, on = { "submit", "finish", "join", "leave", "fit" },
  needs = { "job.goodput", "job.attained", "job.resize" } }

local SAMPLES <const> = 15                                 -- of utility, before nodes come or go

function policy.init(params)
  assert(params.p >= -4 and params.p <= 1, "p must be between -4 and 1")
  assert(params.kappa >= 0 and params.eps > 0, "kappa must be 0 or more, eps above 0")
  assert(0 < params.low and params.low < params.high and params.high < 1, "0 < low < high < 1")
  params.samples = {}
  return params
end

local function utility(x, s)
  x = x + s.eps
  return s.p == 0 and math.log(x) or (s.p > 0 and 1 or -1) * x ^ s.p
end

local function row_of(s, job, sizes, fair, k)
  local goodput, base = k.goodput(job, sizes, fair)        -- false: not a size of this job
  local keep = math.max(job.age - job.resizes * job.resize_s, 0) / (job.age + job.resize_s)
  local weight = job.weight * (1 + job.attained / 3600) ^ -s.kappa
  local row = {}
  for c, g in ipairs(goodput) do
    local stay = (job.slots == 0 or sizes[c] == job.slots) and 1 or keep
    row[c] = g and weight * (utility(g / base * stay, s) - utility(0, s)) or -math.huge
  end
  return row, goodput
end

-- Jobs that may be changed, a row of values each; slots of those that may not be are taken off.
local function rows_of(s, view, sizes, k)
  local out = { alloc = {}, taken = 0, rows = {}, goodput = {}, jobs = {} }
  local fair = math.ceil(view.slots / math.max(#view.jobs, 1))
  for _, job in ipairs(view.jobs) do
    if job.preemptible == false and job.slots > 0 then
      out.alloc[job.id], out.taken = { slots = job.slots }, out.taken + job.slots
    else
      local i = #out.jobs + 1
      out.jobs[i], out.rows[i], out.goodput[i] = job, row_of(s, job, sizes, fair, k)
    end
  end
  return out
end

---- how many nodes ------------------------------------------------------------------------------------------------

-- What a slot of `n` nodes brings, of what it would alone.
local function utility_of(n, work, sizes, k)
  local slots = n * sizes.per_machine
  local pick = #work.rows > 0 and k.knapsack(work.rows, sizes, math.max(slots - work.taken, 0)) or {}
  local sum = work.taken
  for i, job in ipairs(work.jobs) do
    local _, alone = k.goodput(job, sizes, 1)
    sum = sum + (pick[i] > 0 and work.goodput[i][pick[i]] / alone or 0)
  end
  return sum / slots
end

local function nodes_wanted(s, view, work, sizes, k, waits)
  local here = 0
  for _, node in ipairs(view.nodes) do here = here + (node.state == "up" and 1 or 0) end
  local samples = s.samples
  samples[#samples + 1] = utility_of(here, work, sizes, k)
  if #samples > SAMPLES then table.remove(samples, 1) end
  local mean = 0
  for _, u in ipairs(samples) do mean = mean + u / #samples end
  if not waits and mean >= s.low and mean <= s.high then
    s.low_since = nil
    return here
  end
  local most = view.nodes_max
  local price = view.nodes[1] and view.nodes[1].price
  if s.price_per_s_max > 0 and price then most = math.min(most, s.price_per_s_max // price) end
  local best, distance = here, math.huge
  for n = math.max(view.nodes_min, math.ceil(work.taken / sizes.per_machine), 1), most do
    local off = math.abs(utility_of(n, work, sizes, k) - (s.low + s.high) / 2)
    if off < distance then best, distance = n, off end
  end
  if best >= here then s.low_since = nil end
  if best > here then return (waits or #samples == SAMPLES) and best or here end
  s.low_since = s.low_since or view.now
  return view.now - s.low_since >= s.patience_s and best or here
end

-- Nodes as they would be if all that may come were there.
local function nodes_at_most(view)
  local nodes = table.move(view.nodes, 1, #view.nodes, 1, {})
  for i = #nodes + 1, view.nodes_max do nodes[i] = { slots = nodes[1].slots, machine = "later " .. i } end
  return nodes
end

-- Sizes that can always be placed, and what jobs need at least.
local function sizes_of(view, nodes, k)
  local sizes, known = k.sizes(nodes), {}
  for _, size in ipairs(sizes) do known[size] = true end
  for _, job in ipairs(view.jobs) do
    local least = job.min or 1
    if not known[least] and least <= view.slots then sizes[#sizes + 1], known[least] = least, true end
  end
  table.sort(sizes)
  return sizes
end

local function reason(job, slots, base, goodput, sizes)
  if slots == job.slots then return nil end
  if not job.perf then return ("%d slots: nothing is known of its speed yet"):format(slots) end
  if slots == 0 then return "0 slots: others make more of them" end
  local before
  for c, size in ipairs(sizes) do before = size == job.slots and goodput[c] or before end
  return ("%d -> %d slots: goodput %.3g times that of %s"):format(job.slots, slots, base / (before or base),
    before and job.slots .. " slots" or "now")
end

function policy.decide(s, view, k)
  local scales = s.autoscale and view.nodes_max and #view.nodes > 0
  local sizes = sizes_of(view, scales and nodes_at_most(view) or view.nodes, k)
  local work = rows_of(s, view, sizes, k)
  local pick = #work.rows > 0 and k.knapsack(work.rows, sizes, view.slots - work.taken) or {}
  local waits, why = false, {}
  for i, job in ipairs(work.jobs) do
    local slots = sizes[pick[i]] or 0
    work.alloc[job.id] = { slots = slots }
    waits = waits or pick[i] == 0
    why[job.id] = reason(job, slots, work.goodput[i][pick[i]], work.goodput[i], sizes)
  end
  local plan = { alloc = work.alloc, placer = "pack", why = why }
  if scales then plan.nodes = { want = nodes_wanted(s, view, work, sizes, k, waits) } end
  return plan
end

return policy
