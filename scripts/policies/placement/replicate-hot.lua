-- Keys that are accessed far more than the mean get copies on all nodes, as long as they are (NuPS, SIGMOD 2022,
-- section 3.3: 100 times the mean); what has cooled down goes back to its table's technique.
return {
  api = 1, kind = "placement", name = "replicate-hot", version = 1,
  params = { over = 100, under = 50, least = 2, keys = 4096 }, -- times the mean; nodes that access it; keys at most
  needs = { "key.hot" }, every = 1,

  init = function(params, saved)
    local st = { params = params, copied = {}, count = 0 }
    for _, k in ipairs(saved and saved.copied or {}) do
      st.copied[k[1]] = st.copied[k[1]] or {}
      st.copied[k[1]][k[2]], st.count = true, st.count + 1
    end
    return st
  end,

  decide = function(st, view)
    local p, plan, warm = st.params, {}, {}
    for i, t in ipairs(view.tables) do
      st.copied[i], warm[i] = st.copied[i] or {}, {}
      plan[i] = { up = {}, down = {}, mean = t.keys and 1 / t.keys or nil }
    end
    for _, k in ipairs(view.hot or {}) do
      local own, nodes = plan[k.table], 0
      for _ in pairs(k.by_node) do nodes = nodes + 1 end
      local times = own.mean and k.share / own.mean or 0 -- a hashed table has no mean
      warm[k.table][k.key] = times >= p.under
      if times >= p.over and nodes >= p.least and not st.copied[k.table][k.key] and st.count < p.keys then
        st.copied[k.table][k.key], st.count = true, st.count + 1
        table.insert(own.up, k.key)
      end
    end
    local technique, copies = {}, 0
    for i, t in ipairs(view.tables) do
      for key in pairs(st.copied[i]) do
        if view.age["key.hot"] and not warm[i][key] then table.insert(plan[i].down, key) end
      end
      for _, key in ipairs(plan[i].down) do st.copied[i][key], st.count = nil, st.count - 1 end
      if #plan[i].up > 0 then technique[#technique + 1] = { table = i, keys = plan[i].up, use = "replicate" } end
      if #plan[i].down > 0 then
        technique[#technique + 1] = { table = i, keys = plan[i].down, use = t.technique or "static" }
      end
      copies = copies + #plan[i].up
    end
    return #technique > 0 and { technique = technique, why = ("%d keys more have copies, %d in all"):format(copies,
      st.count) } or {}
  end,

  export = function(st)
    local copied = {}
    for i, keys in pairs(st.copied) do
      for key in pairs(keys) do copied[#copied + 1] = { i, key } end
    end
    return { copied = copied }
  end,
}
