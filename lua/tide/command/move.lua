-- `tide move`: gives slots of a table to a node of a running cluster.
local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local errors = require "tide.errors"
local text = require "tide.text"

local SLOTS <const> = 4096

---"0-99,512" -> {0, .., 99, 512}
local function parse_slots(words)
  local list, seen = {}, {}
  for word in (words .. ","):gmatch "([^,]*)," do
    local first, last = word:match "^(%d+)%-(%d+)$"
    first = math.tointeger(tonumber(first or word:match "^%d+$"))
    last = math.tointeger(tonumber(last)) or first
    if not first or last < first or last >= SLOTS then
      return nil, errors.new("T0105", {message = ("`%s` names no slots"):format(text.clean(word)),
        help = "slots are 0 to 4095, as in 0-99,512"})
    end
    for s = first, last do
      if not seen[s] then list[#list + 1] = s end
      seen[s] = true
    end
  end
  return list
end

return {
  name = "move",
  brief = "give slots of a table to a node",
  summary = "Gives slots of a table to a node of a running cluster, while workers continue; waits for their arrival.",
  examples = {
    {"tide move mf.rows 0-1023 n3", "a quarter of the table goes to n3"},
    {"tide move mf.rows 7,9 n1 --dry-run", "prints the request only"},
  },
  arguments = {
    {name = "table", doc = "name of the table, as `tide tables` shows it"},
    {name = "slots", doc = "0 to 4095: numbers and ranges, as in 0-99,512"},
    {name = "node", doc = "name of the node that takes them"},
  },
  options = {arguments.shared.cluster, arguments.shared.dry_run},
  schema = "tide.move/1",
  run = function(context)
    local o <const> = context.options
    local slots, err = parse_slots(o.slots)
    if not slots then return nil, err end
    local result, problem = cluster_view.attached(context, function(client)
      local node
      for _, member in ipairs(context.core.members()) do
        if member.name == o.node and member.state == "up" then node = member end
      end
      if not node then
        return nil, errors.new("T0401", {message = ("no node `%s` is up"):format(text.clean(o.node)),
          help = "`tide nodes` lists them"})
      end
      if o.dry_run then return {moved = #slots, dry_run = true} end
      return client.ask_one {op = "move", table = o.table, slots = slots, node = node.id}
    end)
    if not result then return nil, problem end
    return context:tell({table = o.table, node = o.node, slots = result.moved,
      dry_run = result.dry_run}, ("%s %d slots of %s to %s"):format(
      result.dry_run and "would move" or "moved", result.moved, text.clean(o.table), text.clean(o.node)))
  end,
}
