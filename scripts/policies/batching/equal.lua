-- Equal shares of the job's batch; the first workers take what is left over. What every other split is compared with.
return {
  api = 1, kind = "batching", name = "equal", version = 1, every = 0.5, on = { "grant", "join", "leave" },

  init = function() return {} end,

  decide = function(_, view)
    local total, n = view.job.batch, #view.workers
    if not total or n == 0 or total < n then return {} end
    local batch = {}
    for i, w in ipairs(view.workers) do
      batch[w.id] = total // n + (i <= total % n and 1 or 0)
    end
    return { batch = batch, why = "equal shares" }
  end,
}
