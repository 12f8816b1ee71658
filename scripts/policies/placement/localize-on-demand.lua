-- A hot key goes to the node that accesses it most, when that is most of all accesses (Lapse, VLDB 2020, moves it when
-- the program says so; this needs no program that does).
return {
  api = 1, kind = "placement", name = "localize-on-demand", version = 1,
  params = { share = 0.6, keys = 1024 }, -- of a key's accesses that one node makes; moves at a time
  needs = { "key.hot" }, every = 1,

  init = function(params) return params end,

  decide = function(st, view)
    local moves = {}
    for _, k in ipairs(view.hot or {}) do
      local best, most, all = nil, 0, 0
      for node, n in pairs(k.by_node) do
        all = all + n
        if n > most then best, most = node, n end
      end
      local table_moves = view.tables[k.table].technique == "relocate" or view.tables[k.table].technique == "intent"
      local may = table_moves and (k.technique == "relocate" or k.technique == "intent")
      if may and best ~= k.owner and most >= st.share * all and #moves < st.keys then
        moves[#moves + 1] = { table = k.table, key = k.key, to = best }
      end
    end
    return #moves > 0 and { moves = moves, why = ("%d keys to who uses them"):format(#moves) } or {}
  end,
}
