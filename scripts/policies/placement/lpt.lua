-- Longest processing time first: slots by their load (requests a second, else bytes) to the node that ends first.
-- k.makespan also gives a lower bound, so a placement that is good enough is left alone.
return {
  api = 1, kind = "placement", name = "lpt", version = 1,
  params = { slack = 1.10, moves = 64 }, -- imbalance over the best that is left alone; moves at a time
  needs = { "slot.rates" }, every = 10, on = { "join", "leave" },

  init = function(params) return params end,

  decide = function(st, view, k)
    local nodes, at, weight, load, moves = {}, {}, {}, {}, {}
    for _, n in ipairs(view.nodes) do
      if n.state == "up" then
        nodes[#nodes + 1] = n.id
        at[n.id], load[#nodes] = #nodes, 0
      end
    end
    local slots = view.table_slots or {}
    for i, s in ipairs(slots) do
      weight[i] = s.ops_per_s or 0
      if at[s.home] then load[at[s.home]] = load[at[s.home]] + weight[i] end
    end
    if #slots == 0 or #nodes < 2 then return {} end
    local capacity, most, heaviest = {}, 0, {}
    for j = 1, #nodes do capacity[j], most = 1, math.max(most, load[j]) end
    local home, span, bound = k.makespan(weight, capacity)
    local strayed = false
    for _, s in ipairs(slots) do strayed = strayed or not at[s.home] end
    if not strayed and most <= st.slack * math.max(bound, span) then return {} end
    for i, s in ipairs(slots) do
      if nodes[home[i]] ~= s.home then heaviest[#heaviest + 1] = i end
    end
    table.sort(heaviest, function(a, b) return weight[a] > weight[b] end)
    for j = 1, math.min(st.moves, #heaviest) do
      local s = slots[heaviest[j]]
      moves[j] = { table = s.table, slot = s.id, to = nodes[home[heaviest[j]]] }
    end
    return { moves = moves, why = ("busiest node %.3g/s, would be %.3g/s"):format(most, span) }
  end,
}
