-- Assigns each pending chunk to the worker that would finish it first, by the times of its former chunks. Near
-- the end of a pass a slow worker gets none that a fast one would finish sooner, even if the fast one is still busy.
-- Until a chunk is complete, chunks go in order to the workers that request one.
return {
  api = 1, kind = "dispatch", name = "earliest-finish", version = 1,
  params = { window = 8 }, -- chunks that tell how fast a worker is
  needs = { "chunk.times" },

  init = function(params) return params end,

  decide = function(st, view, k)
    local per, known = {}, {}
    for _, w in ipairs(view.workers) do
      local list, n = {}, #w.chunk.examples
      for i = math.max(1, n - st.window + 1), n do list[#list + 1] = w.chunk.seconds[i] / w.chunk.examples[i] end
      per[w.id] = k.quantile(list, 0.5)
      known[#known + 1] = per[w.id]
    end
    if #known == 0 then return {} end
    local typical, free_at, queue = k.quantile(known, 0.5), {}, {}
    for _, w in ipairs(view.workers) do
      per[w.id], free_at[w.id], queue[w.id] = per[w.id] or typical, view.now, {}
    end
    for _, c in ipairs(view.chunks) do
      local id = c.taken_by
      if id and per[id] then free_at[id] = math.max(view.now, (c.since or view.now) + per[id] * c.examples) end
    end
    for _, c in ipairs(view.chunks) do
      if not c.taken_by and c.left > 0 then
        local best, ends
        for _, w in ipairs(view.workers) do
          local at = free_at[w.id] + per[w.id] * c.examples
          if not ends or at < ends then best, ends = w.id, at end
        end
        if best then
          free_at[best] = ends
          table.insert(queue[best], c.id)
        end
      end
    end
    return { queue = queue }
  end,
}
