-- The members of a cluster that people and monitors are shown. The membership keeps the newest 512 departed members,
-- because nodes that were disconnected must learn of them; a listing has those that still matter.
local core = require "tide.core"

local members = {}

local DEPARTED_MAX <const> = 16
local DEPARTED <const> = {left = true, dead = true}

-- The host of a run: it has neither rows nor workers.
local function is_driver(member)
  return not member.store and (member.workers or 0) == 0 and member.name:find "^driver" ~= nil
end

---All living members and the newest departed ones, without drivers that have ended (`tide jobs -a` says how their runs
---ended) and without nodes whose name a newer member has.
---@param all? table[] of core.members()
---@return table[] by id, with the `view` of `all`
function members.listed(all)
  all = all or core.members()
  local sorted, newest, list = table.move(all, 1, #all, 1, {}), {}, {view = all.view}
  table.sort(sorted, function(a, b) return a.id > b.id end)
  local departed = 0
  for _, member in ipairs(sorted) do
    local gone <const> = DEPARTED[member.state]
    if not gone or not newest[member.name] and not is_driver(member) and departed < DEPARTED_MAX then
      departed = departed + (gone and 1 or 0)
      table.insert(list, 1, member)
    end
    newest[member.name] = true
  end
  return list
end

return members
