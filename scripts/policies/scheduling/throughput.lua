-- Autoscaling by throughput (Or et al., Resource Elasticity in Distributed Deep Learning, MLSys 2020), to compare
-- scheduling/goodput with: slots go where they add most examples per second, whatever an example of a large batch is
-- worth. autoscale: as many nodes as keep a slot at `least` of the examples per second that it has alone.
local policy = { api = 1, kind = "scheduling", name = "throughput", version = 1,
  params = { least = 1 / 2, autoscale = false }, every = 15, min_gap = 2,
  on = { "submit", "finish", "join", "leave", "fit" }, needs = { "job.throughput" } }

function policy.init(params)
  assert(params.least > 0 and params.least < 1, "least must be between 0 and 1")
  return params
end

local function keeps(job) return job.preemptible == false and job.slots > 0 end

-- Nodes as they would be if all that may come were there.
local function nodes_at_most(view)
  local nodes = table.move(view.nodes, 1, #view.nodes, 1, {})
  for i = #nodes + 1, view.nodes_max do nodes[i] = { slots = nodes[1].slots, machine = "later " .. i } end
  return nodes
end

-- Speed-ups of each job over one slot, at each size. A job whose speed is not known counts its slots.
local function rows_of(jobs, sizes, k)
  local rows = {}
  for i, job in ipairs(jobs) do
    local speed, alone = k.goodput(job, sizes, 1)
    for c, x in ipairs(speed) do speed[c] = x and job.weight * x / alone or -math.huge end
    rows[i] = speed
  end
  return rows
end

local function nodes_wanted(s, view, rows, sizes, taken, k)
  local want = view.nodes_min
  for n = math.max(view.nodes_min, 1), view.nodes_max do
    local slots, sum = n * sizes.per_machine, taken
    for i, c in ipairs(#rows > 0 and k.knapsack(rows, sizes, math.max(slots - taken, 0)) or {}) do
      sum = sum + (c > 0 and rows[i][c] or 0)
    end
    if sum / slots >= s.least then want = n end
  end
  return want
end

function policy.decide(s, view, k)
  local scales = s.autoscale and view.nodes_max and #view.nodes > 0
  local sizes = k.sizes(scales and nodes_at_most(view) or view.nodes)
  local alloc, moving, taken = {}, {}, 0
  for _, job in ipairs(view.jobs) do
    if keeps(job) then
      alloc[job.id], taken = { slots = job.slots }, taken + job.slots
    else
      moving[#moving + 1] = job
    end
  end
  local rows = rows_of(moving, sizes, k)
  local pick = #rows > 0 and k.knapsack(rows, sizes, view.slots - taken) or {}
  for i, job in ipairs(moving) do alloc[job.id] = { slots = sizes[pick[i]] or 0 } end
  local plan = { alloc = alloc, placer = "pack" }
  if scales then plan.nodes = { want = nodes_wanted(s, view, rows, sizes, taken, k) } end
  return plan
end

return policy
