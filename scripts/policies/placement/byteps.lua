-- What BytePS does with tensors, done with tables, to compare with: each is cut into parts of 4,096,000 bytes, and a
-- part goes to the server that the hash of its key names, key = (number of the tensor << 16) + number of the part.
-- `hash` is one of the two that its sources offer and that need no weights: djb2 of the key's digits, or naive.
return {
  api = 1, kind = "placement", name = "byteps", version = 1, params = { hash = "djb2", part_bytes = 4096000 },
  every = 60, on = { "join", "leave" },

  init = function(params) return params end,

  decide = function(st, view)
    local nodes, moves, at = {}, {}, {}
    for _, n in ipairs(view.nodes) do
      if n.state == "up" then nodes[#nodes + 1] = n.id end
    end
    local function server(key)
      if st.hash == "naive" then return ((key >> 16) + key % 65536) * 9973 % #nodes + 1 end
      local hash = 5381
      for c in tostring(key):gmatch "." do hash = hash * 33 + c:byte() & 0xffffffff end
      return hash % #nodes + 1
    end
    for _, s in ipairs(#nodes > 0 and view.table_slots or {}) do
      local first = at[s.table] or 0
      at[s.table] = first + (s.bytes or 0)
      local to = nodes[server((s.table - 1 << 16) + first // st.part_bytes)]
      if to ~= s.home and not s.moving and view.tables[s.table].replicas == 0 and #moves < 9000 then
        moves[#moves + 1] = { table = s.table, slot = s.id, to = to }
      end
    end
    return #moves > 0 and { moves = moves, why = "as BytePS would place them" } or {}
  end,
}
