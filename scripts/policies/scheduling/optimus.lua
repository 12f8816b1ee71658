-- Optimus (Peng et al., EuroSys 2018): every job one slot, then one more to the job whose remaining time shrinks most.
local policy = { api = 1, kind = "scheduling", name = "optimus", version = 1, needs = { "job.oracle" }, every = 60 }

function policy.init() return {} end

-- Seconds that one slot more saves over the rest of the job.
local function gain_of(job, slots)
  local step = job.oracle.step_s
  local more = slots < job.max and step[slots + 1]
  return more and (step[slots] - more) * job.oracle.remaining or 0
end

function policy.decide(_, view)
  local slots, gain, free = {}, {}, view.slots
  for _, job in ipairs(view.jobs) do                 -- who may not be changed
    if job.preemptible == false and job.slots > 0 then free = free - job.slots end
  end
  for i, job in ipairs(view.jobs) do                 -- in order of submission
    if job.preemptible == false and job.slots > 0 then
      slots[i], gain[i] = job.slots, 0
    else
      local least = job.min or 1
      slots[i] = free >= least and least or 0
      free = free - slots[i]
      gain[i] = free > 0 and slots[i] > 0 and gain_of(job, slots[i]) or 0
    end
  end
  while free > 0 do
    local best
    for i, g in ipairs(gain) do
      if g > 0 and (not best or g > gain[best]) then best = i end
    end
    if not best then break end
    slots[best], free = slots[best] + 1, free - 1
    gain[best] = free > 0 and gain_of(view.jobs[best], slots[best]) or 0
  end
  local alloc, order = {}, {}
  for i, job in ipairs(view.jobs) do
    alloc[job.id], order[i] = { slots = slots[i] }, i
  end
  table.sort(order, function(a, b)                   -- small ones are placed first
    if slots[a] ~= slots[b] then return slots[a] < slots[b] end
    return a < b
  end)
  for i, index in ipairs(order) do order[i] = view.jobs[index].id end
  return { alloc = alloc, order = order, placer = "emptiest" }
end

return policy
