-- Slots in contiguous ranges, one range a node, in the order of the nodes' ids.
return {
  api = 1, kind = "placement", name = "range", version = 1, every = 60, on = { "join", "leave" },

  init = function() return {} end,

  decide = function(_, view)
    local nodes, counts, moves = {}, {}, {}
    for _, n in ipairs(view.nodes) do
      if n.state == "up" then nodes[#nodes + 1] = n.id end
    end
    for _, s in ipairs(view.table_slots or {}) do counts[s.table] = (counts[s.table] or 0) + 1 end
    local seen = {}
    for _, s in ipairs(view.table_slots or {}) do
      local i = seen[s.table] or 0
      seen[s.table] = i + 1
      local to = nodes[i * #nodes // counts[s.table] + 1]
      if to and to ~= s.home and #moves < 9000 then moves[#moves + 1] = { table = s.table, slot = s.id, to = to } end
    end
    return #moves > 0 and { moves = moves, why = "ranges of slots" } or {}
  end,
}
