-- First come, first served: the slots a job asked for, in order of submission; a job that does not fit lets smaller
-- ones pass.
return {
  api = 1, kind = "scheduling", name = "fifo", version = 1, needs = { "job.request" }, every = 60,

  init = function() return {} end,

  decide = function(_, view)
    local alloc, free = {}, view.slots
    for _, job in ipairs(view.jobs) do               -- those that run keep what they have
      if job.slots and job.slots > 0 then alloc[job.id], free = { slots = job.slots }, free - job.slots end
    end
    for _, job in ipairs(view.jobs) do
      if not alloc[job.id] then
        local want = job.request.slots
        local grant = want <= free and want or 0
        alloc[job.id], free = { slots = grant }, free - grant
      end
    end
    return { alloc = alloc }
  end,
}
