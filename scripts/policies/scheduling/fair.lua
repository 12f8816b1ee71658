-- Fair shares of persons: weighted max-min over time. What a person has used counts against it and halves every
-- half-life (as the fair share of Slurm); inside a group its members share by their weights. Among the runs of one
-- person slots go where they add most goodput. correct: in how many half-lives a debt is paid back.
local policy = { api = 1, kind = "scheduling", name = "fair", version = 1, params = { correct = 0.1 },
  every = 15, min_gap = 2, on = { "submit", "finish", "join", "leave", "fit" },
  needs = { "job.person", "job.goodput", "job.attained", "job.resize" } }

function policy.init(params)
  assert(params.correct > 0 and params.correct <= 10, "correct must be above 0 and at most 10")
  return params
end

local function keeps(job) return job.preemptible == false and job.slots > 0 end

local function allows(job, size)
  if size < (job.min or 1) or job.max and size > job.max then return false end
  if job.sizes == "pow2" then return size & (size - 1) == 0 end
  if not job.sizes then return true end
  for _, each in ipairs(job.sizes) do if each == size then return true end end
  return false
end

---- persons -------------------------------------------------------------------------------------------------------

-- Which runs a person's limits admit: those with slots first, then in order of submission.
local function admit(p, why)
  table.sort(p.all, function(a, b)
    if (a.slots > 0) ~= (b.slots > 0) then return a.slots > 0 end
    return a.id < b.id
  end)
  local memory = 0
  for _, job in ipairs(p.all) do
    local claims = memory + (job.memory or 0)
    if not keeps(job) and p.runs_max and #p.jobs >= p.runs_max then
      why[job.id] = ("%s has at most %d runs with slots"):format(p.name, p.runs_max)
    elseif not keeps(job) and p.memory_max and claims > p.memory_max then
      why[job.id] = ("the other runs of %s claim the memory that it may have"):format(p.name)
    else
      p.jobs[#p.jobs + 1], memory = job, claims
    end
  end
end

-- Persons with what they hold, what they keep in any case, and the most that they can take.
local function people_of(view, why)
  local list, by, groups = {}, {}, {}
  for i, p in ipairs(view.persons) do
    list[i] = p
    by[p.name], p.all, p.jobs, p.held, p.least, p.most = p, {}, {}, 0, 0, 0
  end
  for _, job in ipairs(view.jobs) do table.insert(by[job.person].all, job) end
  for _, p in ipairs(list) do
    admit(p, why)
    for _, job in ipairs(p.jobs) do
      p.held, p.most = p.held + job.slots, p.most + math.min(job.max or view.slots, view.slots)
      if keeps(job) then p.least = p.least + job.slots end
    end
    p.most = math.max(math.min(p.most, p.slots_max or p.most, view.slots), p.least)
    if p.group then groups[p.group] = (groups[p.group] or 0) + p.weight end
  end
  for _, p in ipairs(list) do
    p.share = p.group and p.group_weight * p.weight / groups[p.group] or p.weight
  end
  return list
end

-- Slots of each person at which (used + slots * horizon) / weight is the same for all, as far as limits let it be.
local function level(people, slots, horizon)
  local function at(l)
    local sum = 0
    for _, p in ipairs(people) do
      p.fair = math.min(math.max((p.share * l - p.used) / horizon, p.least), p.most)
      sum = sum + p.fair
    end
    return sum
  end
  local low, high = 0, 1
  for _, p in ipairs(people) do high = math.max(high, (p.used + p.most * horizon) / p.share) end
  if at(high) <= slots then return end
  for _ = 1, 60 do
    local l = (low + high) / 2
    if at(l) > slots then high = l else low = l end
  end
  at(low)
end

-- Whole slots near those; a person keeps what it holds where that is less than one off.
local function round(people, slots)
  local sum, room = 0, 0
  for _, p in ipairs(people) do
    local near = math.abs(p.fair - p.held) < 1 and p.held or math.floor(p.fair + 0.5)
    p.get = math.max(math.min(near, math.floor(p.most)), p.least)
    sum, room = sum + p.get, room + p.most
  end
  slots = math.min(slots, room)
  while sum ~= slots do
    local step, best = sum < slots and 1 or -1, nil
    for _, p in ipairs(people) do
      local fits = step > 0 and p.get < p.most or step < 0 and p.get > p.least
      if fits and (not best or step * (p.fair - p.get) > step * (best.fair - best.get)) then best = p end
    end
    if not best then return end
    best.get, sum = best.get + step, sum + step
  end
end

---- the runs of one person ----------------------------------------------------------------------------------------

-- The next size of a job above c, which is the number of one or 0; nil: none, or more than `left` more slots.
local function larger(job, sizes, c, left)
  for n = c + 1, #sizes do
    if allows(job, sizes[n]) then return sizes[n] - (sizes[c] or 0) <= left and n or nil end
  end
  return nil
end

-- What a slot more adds to the logarithm of a job's goodput.
local function gain_of(job, sizes, goodput, c, n)
  local before, after = goodput[c], goodput[n]
  if not before or not after or before <= 0 or after <= 0 then return 0 end
  return job.weight * math.log(after / before) / (sizes[n] - sizes[c])
end

-- Divides `slots` among the jobs of a person. Returns the slots by id, and how many were given.
local function divide(p, slots, sizes, goodput_of)
  local alloc, at, left = {}, {}, slots
  for _, job in ipairs(p.jobs) do
    if keeps(job) then alloc[job.id], left = job.slots, left - job.slots end
  end
  for _, job in ipairs(p.jobs) do                          -- each the least first
    local n = not alloc[job.id] and larger(job, sizes, 0, left)
    if n then alloc[job.id], at[job.id], left = sizes[n], n, left - sizes[n] end
  end
  while left > 0 do
    local best, best_gain, best_n
    for _, job in ipairs(p.jobs) do
      local c = at[job.id]
      local n = c and larger(job, sizes, c, left)
      local gain = n and gain_of(job, sizes, goodput_of(job), c, n)
      if gain and (not best or gain > best_gain) then best, best_gain, best_n = job, gain, n end
    end
    if not best then break end
    left = left - (sizes[best_n] - sizes[at[best.id]])
    alloc[best.id], at[best.id] = sizes[best_n], best_n
  end
  return alloc, slots - left
end

-- Nothing has happened to the runs, and the person has as much as before: its runs keep their slots.
local function is_settled(view, p)
  if #view.reason > 0 then return false end
  for _, job in ipairs(p.jobs) do
    if job.slots == 0 or not allows(job, job.slots) then return false end
  end
  return p.get == p.held
end

local function give(view, people, sizes, goodput_of)
  local left = 0
  for _, p in ipairs(people) do
    if is_settled(view, p) then
      p.alloc, p.given = {}, p.held
      for _, job in ipairs(p.jobs) do p.alloc[job.id] = job.slots end
    else
      p.alloc, p.given = divide(p, p.get, sizes, goodput_of)
    end
    left = left + p.get - p.given
  end
  table.sort(people, function(a, b)                        -- what does not fit one person goes to those who lack most
    local x, y = a.fair - a.given, b.fair - b.given
    if x ~= y then return x > y end
    return a.name < b.name
  end)
  for _, p in ipairs(people) do
    if left > 0 and p.given < p.most then
      local alloc, given = divide(p, math.min(p.given + left, math.floor(p.most)), sizes, goodput_of)
      if given > p.given then left, p.alloc, p.given = left - (given - p.given), alloc, given end
    end
  end
end

---- the decision --------------------------------------------------------------------------------------------------

local function sizes_of(view, k)
  local sizes, known = k.sizes(view.nodes), {}
  for _, size in ipairs(sizes) do known[size] = true end
  for _, job in ipairs(view.jobs) do
    local size = job.min or 1
    if not known[size] and size <= view.slots then sizes[#sizes + 1], known[size] = size, true end
  end
  table.sort(sizes)
  return sizes
end

function policy.decide(s, view, k)
  local plan = { alloc = {}, placer = "pack", why = {} }
  local sizes, known = sizes_of(view, k), {}
  local fair = math.ceil(view.slots / math.max(#view.jobs, 1))
  local function goodput_of(job)
    known[job.id] = known[job.id] or k.goodput(job, sizes, fair)
    return known[job.id]
  end
  local people, classes, order = people_of(view, plan.why), {}, {}
  for _, p in ipairs(people) do
    if not classes[p.priority] then classes[p.priority], order[#order + 1] = {}, p.priority end
    table.insert(classes[p.priority], p)
  end
  table.sort(order, function(a, b) return a > b end)
  local kept, slots = 0, view.slots
  for _, p in ipairs(people) do kept = kept + p.least end
  for _, priority in ipairs(order) do                      -- a higher priority is served first
    local class, own = classes[priority], 0
    for _, p in ipairs(class) do own = own + p.least end
    kept = kept - own
    level(class, slots - kept, s.correct * view.half_life_s)
    round(class, slots - kept)
    give(view, class, sizes, goodput_of)
    for _, p in ipairs(class) do slots = slots - p.given end
  end
  for _, p in ipairs(people) do
    for _, job in ipairs(p.all) do
      local n = p.alloc[job.id] or 0
      plan.alloc[job.id] = { slots = n }
      if (n ~= job.slots or n == 0) and not plan.why[job.id] then
        plan.why[job.id] = ("%d slots: %s has %d, fair are %.1f (weight %g, %.1f slot hours used)"):format(n, p.name,
          p.given, p.fair, p.share, p.used / 3600)
      end
    end
  end
  return plan
end

return policy
