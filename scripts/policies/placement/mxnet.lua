-- What MXNet does with tensors, done with tables, to compare with: one of fewer than `bound` values is whole on the
-- server that its number times 9973 names; a larger one is cut into as many equal ranges as there are servers.
return {
  api = 1, kind = "placement", name = "mxnet", version = 1, params = { bound = 1000000 },
  every = 60, on = { "join", "leave" },

  init = function(params) return params end,

  decide = function(st, view)
    local nodes, moves, count, seen = {}, {}, {}, {}
    for _, n in ipairs(view.nodes) do
      if n.state == "up" then nodes[#nodes + 1] = n.id end
    end
    local slots = #nodes > 0 and view.table_slots or {}
    for _, s in ipairs(slots) do count[s.table] = (count[s.table] or 0) + 1 end
    for _, s in ipairs(slots) do
      local t = view.tables[s.table]
      local i = seen[s.table] or 0
      seen[s.table] = i + 1
      local whole = t.keys and t.keys * t.width < st.bound -- a table of unknown size is cut, as sparse rows are there
      local to = nodes[whole and (s.table - 1) * 9973 % #nodes + 1 or i * #nodes // count[s.table] + 1]
      if to ~= s.home and not s.moving and t.replicas == 0 and #moves < 9000 then
        moves[#moves + 1] = { table = s.table, slot = s.id, to = to }
      end
    end
    return #moves > 0 and { moves = moves, why = "as MXNet would place them" } or {}
  end,
}
