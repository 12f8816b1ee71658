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

local function full(who, job, count, claims, runs_max, memory_max)
  if keeps(job) then return nil end
  if runs_max and count >= runs_max then return ("%s has at most %d runs with slots"):format(who, runs_max) end
  if memory_max and claims + (job.memory or 0) > memory_max then
    return ("the other runs of %s claim the memory that it may have"):format(who)
  end
end

-- Runs in the order of submission; of those of one person the ones of a higher priority take the earlier places.
local function in_order(jobs)
  local order, of, at = { table.unpack(jobs) }, {}, {}
  table.sort(order, function(a, b) return a.id < b.id end)
  for _, job in ipairs(order) do
    of[job.person] = of[job.person] or {}
    table.insert(of[job.person], job)
  end
  for _, own in pairs(of) do
    table.sort(own, function(a, b)
      if (a.slots > 0) ~= (b.slots > 0) then return a.slots > 0 end
      if (a.priority or 0) ~= (b.priority or 0) then return (a.priority or 0) > (b.priority or 0) end
      return a.id < b.id
    end)
  end
  for i, job in ipairs(order) do
    at[job.person] = (at[job.person] or 0) + 1
    order[i] = of[job.person][at[job.person]]
  end
  return order
end

-- Which runs the limits of persons and groups admit: those with slots first.
local function admit(jobs, by, groups, why)
  local order, waiting = {}, {}
  for _, job in ipairs(in_order(jobs)) do table.insert(job.slots > 0 and order or waiting, job) end
  table.move(waiting, 1, #waiting, #order + 1, order)
  for _, job in ipairs(order) do
    local p = by[job.person]
    local g = p.group and groups[p.group] or { runs = 0, memory = 0 }
    local no = full(p.name, job, #p.jobs, p.memory, p.runs_max, p.memory_max)
      or full("group " .. (p.group or ""), job, g.runs, g.memory, p.group_runs_max, p.group_memory_max)
    if no then
      why[job.id] = no
    else
      p.jobs[#p.jobs + 1], p.memory = job, p.memory + (job.memory or 0)
      g.runs, g.memory = g.runs + 1, g.memory + (job.memory or 0)
    end
  end
end

-- Persons with what they hold, what they keep in any case, and the most that they can take.
local function people_of(view, why)
  local list, by, groups = {}, {}, {}
  for i, p in ipairs(view.persons) do
    list[i] = p
    by[p.name], p.all, p.jobs, p.held, p.least, p.most, p.memory = p, {}, {}, 0, 0, 0, 0
    if p.group and not groups[p.group] then
      groups[p.group] = { weight = 0, runs = 0, memory = 0, most = p.group_slots_max or math.huge, given = 0 }
    end
  end
  for _, job in ipairs(view.jobs) do table.insert(by[job.person].all, job) end
  admit(view.jobs, by, groups, why)
  for _, p in ipairs(list) do
    for _, job in ipairs(p.jobs) do
      p.held, p.most = p.held + job.slots, p.most + math.min(job.max or view.slots, view.slots)
      if keeps(job) then p.least = p.least + job.slots end
    end
    p.most = math.max(math.min(p.most, p.slots_max or p.most, view.slots), p.least)
    p.of = p.group and groups[p.group]
    if p.of then
      p.of.weight = p.of.weight + p.weight
      p.most = math.max(math.min(p.most, p.of.most), p.least)
    end
  end
  for _, p in ipairs(list) do
    p.share = p.group and p.group_weight * p.weight / p.of.weight or p.weight
  end
  return list
end

-- Slots of each person at which (used + slots * horizon) / weight is the same for all, as far as limits let it be.
local function level_of(people, slots, horizon, cap_of)
  local function at(l)
    local sum = 0
    for _, p in ipairs(people) do
      local own = math.min(l, cap_of and cap_of[p.group] or l)
      p.fair = math.min(math.max((p.share * own - p.used) / horizon, p.least), p.most)
      sum = sum + p.fair
    end
    return sum
  end
  local low, high = 0, 1
  for _, p in ipairs(people) do high = math.max(high, (p.used + p.most * horizon) / p.share) end
  if at(high) <= slots then return high end
  for _ = 1, 60 do
    local l = (low + high) / 2
    if at(l) > slots then high = l else low = l end
  end
  at(low)
  return low
end

-- A group that may not have more stays at the level at which its members fill it.
local function level(people, slots, horizon)
  local members, cap_of = {}, {}
  for _, p in ipairs(people) do
    if p.of and p.of.most < math.huge then
      members[p.group] = members[p.group] or {}
      table.insert(members[p.group], p)
    end
  end
  for name, list in pairs(members) do
    cap_of[name] = level_of(list, math.max(list[1].of.most - list[1].of.given, 0), horizon)
  end
  level_of(people, slots, horizon, cap_of)
end

-- How many more slots a person may get, by its group.
local function room_of(p, given) return p.of and p.of.most - p.of.given - given[p.group] or math.huge end

-- Whole slots near those; a person keeps what it holds where that is less than one off.
local function round(people, slots)
  local sum, room, given = 0, 0, {}
  for _, p in ipairs(people) do
    if p.of then given[p.group] = 0 end
  end
  for _, p in ipairs(people) do
    local near = math.abs(p.fair - p.held) < 1 and p.held or math.floor(p.fair + 0.5)
    p.get = math.max(math.min(near, math.floor(p.most), room_of(p, given)), p.least)
    if p.of then given[p.group] = given[p.group] + p.get end
    sum, room = sum + p.get, room + p.most
  end
  slots = math.min(slots, room)
  while sum ~= slots do
    local step, best = sum < slots and 1 or -1, nil
    for _, p in ipairs(people) do
      local fits = step > 0 and p.get < p.most and room_of(p, given) > 0 or step < 0 and p.get > p.least
      if fits and (not best or step * (p.fair - p.get) > step * (best.fair - best.get)) then best = p end
    end
    if not best then return end
    best.get, sum = best.get + step, sum + step
    if best.of then given[best.group] = given[best.group] + step end
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
  for _, job in ipairs(p.jobs) do                          -- each the least first, in the order of `admit`
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
  local of_group = {}
  for _, p in ipairs(people) do
    if p.of then of_group[p.group] = (of_group[p.group] or 0) + p.given end
  end
  for _, p in ipairs(people) do
    local more = math.min(left, math.floor(p.most) - p.given, room_of(p, of_group))
    if more > 0 then
      local alloc, given = divide(p, p.given + more, sizes, goodput_of)
      if given > p.given then
        if p.of then of_group[p.group] = of_group[p.group] + given - p.given end
        left, p.alloc, p.given = left - (given - p.given), alloc, given
      end
    end
  end
  for _, p in ipairs(people) do
    if p.of then p.of.given = p.of.given + p.given end
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
