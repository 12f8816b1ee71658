-- What an actor waits for, and what that waits for: `tide why`, and why() at the prompt.
local errors = require "tide.errors"
local text = require "tide.text"

local why = {}

---@type tide.column[]
why.COLUMNS = {
  {key = "node"}, {key = "address"}, {key = "name"}, {key = "type"}, {key = "waits_for", title = "waits for"},
  {key = "waits_s", title = "since", format = "duration"}, {key = "mailbox", title = "mail"},
}

---The actor of "n1/agent", an address "2:17", a name on the node `here`, or "n1/store" for what has only a type.
---@param actors table[] of a cluster view
---@param wanted any
---@param here? string
---@return table? actor
---@return tide.error? err
function why.find(actors, wanted, here)
  if type(wanted) ~= "string" then
    return nil, errors.new("T0113", "an actor is named by a string: \"n1/agent\"")
  end
  local node, name = wanted:match "^([^/]+)/(.+)$"
  local by_type
  for _, row in ipairs(actors) do
    if row.address == wanted then return row end
    if row.node == (node or here) then
      if row.name == (name or wanted) then return row end
      if row.type == name then by_type = by_type or row end
    end
  end
  if by_type then return by_type end
  return nil, errors.new("T0105", {message = ("no actor `%s`"):format(text.clean(wanted)),
    help = "`tide actors`, or top() at the prompt, lists them"})
end

---@param actors table[] of a cluster view
---@param wanted any see why.find
---@param here? string
---@return table[]? rows {node, address, name, type, waits_for, waits_s, mailbox}: the actor, then what it waits for
---@return tide.error? err
function why.chain(actors, wanted, here)
  local by_address, rows, seen = {}, {}, {}
  for _, row in ipairs(actors) do by_address[row.address] = row end
  local found, err = why.find(actors, wanted, here)
  if not found then return nil, err end
  while found and not seen[found.address] do
    seen[found.address] = true
    rows[#rows + 1] = {node = found.node, address = found.address, name = found.name or "-", type = found.type or "-",
      waits_for = found.waits_for or "runs", waits_s = tonumber(("%.3f"):format(found.waits_s or 0)),
      mailbox = found.mailbox_messages or 0}
    found = by_address[(found.waits_for or ""):match "(%d+:%d+)"]
  end
  return rows
end

return why
