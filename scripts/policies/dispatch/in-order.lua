-- Queues no chunks: the next one in order goes to the worker that requests one.
return {
  api = 1, kind = "dispatch", name = "in-order", version = 2,

  init = function() return {} end,

  decide = function(_, view)
    local queue = {}
    for _, w in ipairs(view.workers) do queue[w.id] = {} end
    return { queue = queue }
  end,
}
