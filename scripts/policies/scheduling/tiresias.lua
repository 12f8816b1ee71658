-- Least attained service in two queues: after 16 GPU-hours a job drops to the second;
-- first come, first served inside each.
local policy = { api = 1, kind = "scheduling", name = "tiresias", version = 1,
  params = { threshold_s = 16 * 3600 }, needs = { "job.request", "job.attained" }, every = 60 }

function policy.init(params, saved)
  return { params = params, dropped = saved and saved.dropped or {} }
end

local function keeps(job) return job.preemptible == false and job.slots > 0 end

function policy.decide(st, view)
  local dropped, is_dropped = {}, {}
  for _, id in ipairs(st.dropped) do
    local job = view.job[id]
    if job and not keeps(job) then dropped[#dropped + 1] = id; is_dropped[id] = true end
  end
  local order = {}
  local alloc, free = {}, view.slots
  for _, job in ipairs(view.jobs) do               -- in order of submission
    if keeps(job) then
      alloc[job.id], free = {slots = job.slots}, free - job.slots
      goto next
    end
    if is_dropped[job.id] then goto next end
    local list = job.attained >= st.params.threshold_s and dropped or order
    list[#list + 1] = job.id
    ::next::
  end
  st.dropped = dropped
  table.move(dropped, 1, #dropped, #order + 1, order)

  for _, id in ipairs(order) do                    -- a job that does not fit lets smaller ones pass
    local want = view.job[id].request.slots
    local grant = want <= free and want or 0
    alloc[id], free = { slots = grant }, free - grant
  end
  return { alloc = alloc, order = order, placer = "emptiest" }
end

function policy.export(st) return { dropped = st.dropped } end

return policy
