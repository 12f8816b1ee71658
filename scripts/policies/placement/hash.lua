-- Each slot on the node that draws the highest number for it (rendezvous hashing; Thaler and Ravishankar, 1998): even
-- for many slots, blind to what they cost; a node that comes or goes moves its own share of the slots and no others.
local function draw(slot, owner, node)
  local x = (slot * 0x9e3779b1 + owner * 0xc2b2ae35 + node * 0x85ebca6b) & 0xffffffff
  x = ((x ~ x >> 16) * 0x7feb352d) & 0xffffffff
  x = ((x ~ x >> 15) * 0x846ca68b) & 0xffffffff
  return x ~ x >> 16
end

return {
  api = 1, kind = "placement", name = "hash", version = 1, every = 60, on = { "join", "leave" },

  init = function() return {} end,

  decide = function(_, view)
    local moves = {}
    for _, s in ipairs(view.table_slots or {}) do
      local to, most
      for _, n in ipairs(view.nodes) do
        local drawn = n.state == "up" and draw(s.id, s.table, n.id)
        if drawn and (not most or drawn > most) then to, most = n.id, drawn end
      end
      if to and to ~= s.home and not s.moving and view.tables[s.table].replicas == 0 and #moves < 9000 then
        moves[#moves + 1] = { table = s.table, slot = s.id, to = to }
      end
    end
    return #moves > 0 and { moves = moves, why = "by hash" } or {}
  end,
}
