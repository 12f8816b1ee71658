-- Slot i lives on node i modulo the number of nodes.
return {
  api = 1, kind = "placement", name = "round-robin", version = 1, every = 60, on = { "join", "leave" },

  init = function() return {} end,

  decide = function(_, view)
    local nodes, seen, moves = {}, {}, {}
    for _, n in ipairs(view.nodes) do
      if n.state == "up" then nodes[#nodes + 1] = n.id end
    end
    for _, s in ipairs(view.table_slots or {}) do
      local i = seen[s.table] or 0
      seen[s.table] = i + 1
      local to = nodes[i % #nodes + 1]
      if to ~= s.home and #moves < 9000 then moves[#moves + 1] = { table = s.table, slot = s.id, to = to } end
    end
    return #moves > 0 and { moves = moves, why = "round robin" } or {}
  end,
}
