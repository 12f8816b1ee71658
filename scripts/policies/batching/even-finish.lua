-- Give each worker the batch that lets all finish together; change only when it pays.
return {
  api = 1, kind = "batching", name = "even-finish", version = 1,
  params = { gain = 1.05 }, needs = { "worker.speed" }, every = 10, on = { "join", "leave" },
  init = function(params) return { gain = params.gain } end,
  decide = function(st, view, k)
    local cost, now_s = {}, 0
    for i, w in ipairs(view.workers) do
      cost[i] = k.line(w.speed.examples, w.speed.seconds)   -- seconds = at + per * examples
      cost[i].min, cost[i].max = w.batch_min, w.batch_max
      now_s = math.max(now_s, cost[i].at + cost[i].per * w.batch)
    end
    local best = k.minmax_split(view.job.batch, cost)
    if #view.reason == 0 and now_s < st.gain * best.seconds then return {} end
    local batch = {}
    for i, w in ipairs(view.workers) do batch[w.id] = best.share[i] end
    return { batch = batch, why = ("step %.3f s -> %.3f s"):format(now_s, best.seconds) }
  end,
}
