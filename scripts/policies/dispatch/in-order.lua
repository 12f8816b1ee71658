-- The next chunk in order to whoever has nothing to do; nobody holds more than `ahead` chunks.
return {
  api = 1, kind = "dispatch", name = "in-order", version = 1,
  params = { ahead = 2 },

  init = function(params) return params end,

  decide = function(st, view)
    local queued, queue, next_chunk = {}, {}, 1
    for _, w in ipairs(view.workers) do
      for _, chunk in ipairs(view.queue and view.queue[w.id] or {}) do queued[chunk] = true end
    end
    for _, w in ipairs(view.workers) do
      local own = { table.unpack(view.queue and view.queue[w.id] or {}) }
      while #own < st.ahead do
        local c = view.chunks[next_chunk]
        while c and (queued[c.id] or c.taken_by or c.left == 0) do
          next_chunk = next_chunk + 1
          c = view.chunks[next_chunk]
        end
        if not c then break end
        own[#own + 1], queued[c.id] = c.id, true
      end
      if #own > 0 then queue[w.id] = own end
    end
    return { queue = queue }
  end,
}
