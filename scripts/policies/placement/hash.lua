-- Each slot on the node that a hash of its table and number names: even for many slots, blind to what they cost.
return {
  api = 1, kind = "placement", name = "hash", version = 1, every = 60, on = { "join", "leave" },

  init = function() return {} end,

  decide = function(_, view)
    local nodes, moves = {}, {}
    for _, n in ipairs(view.nodes) do
      if n.state == "up" then nodes[#nodes + 1] = n.id end
    end
    for _, s in ipairs(#nodes > 0 and view.table_slots or {}) do
      local hash = 2166136261 -- FNV-1a of 32 bits
      for c in (s.table .. "/" .. s.id):gmatch "." do hash = (hash ~ c:byte()) * 16777619 & 0xffffffff end
      local to = nodes[(hash ~ hash >> 16) % #nodes + 1]
      if to ~= s.home and not s.moving and view.tables[s.table].replicas == 0 and #moves < 9000 then
        moves[#moves + 1] = { table = s.table, slot = s.id, to = to }
      end
    end
    return #moves > 0 and { moves = moves, why = "by hash" } or {}
  end,
}
