-- LB-BSP (Chen et al., "Semi-Dynamic Load Balancing", SoCC 2020), the form without a model of the device: whoever was
-- slowest in the last clock hands some examples to whoever was fastest, a fixed step at a time, as long as they differ.
return {
  api = 1, kind = "batching", name = "lb-bsp", version = 1,
  params = { step = 0.05, tolerance = 1.10 }, -- of the fair share moved at a time; slowest / fastest that is left alone
  needs = { "worker.times" }, every = 5, on = { "join", "leave" },

  init = function(params) return params end,

  decide = function(st, view)
    local slow, fast
    for _, w in ipairs(view.workers) do
      if not w.compute_s or not w.batch then return {} end
      if not slow or w.compute_s > slow.compute_s then slow = w end
      if not fast or w.compute_s < fast.compute_s then fast = w end
    end
    if not slow or slow == fast or slow.compute_s <= st.tolerance * fast.compute_s then return {} end
    local share = math.max(1, math.floor(st.step * view.job.batch / #view.workers))
    share = math.min(share, slow.batch - math.max(slow.batch_min or 1, 1),
      (fast.batch_max or math.maxinteger) - fast.batch)
    if share < 1 then return {} end
    return { batch = { [slow.id] = slow.batch - share, [fast.id] = fast.batch + share },
             why = ("%d examples from worker %d to worker %d"):format(share, slow.id, fast.id) }
  end,
}
