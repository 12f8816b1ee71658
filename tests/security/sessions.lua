-- In place of `tide version`: opens sessions by one client and asks them by others of each right.
local core = require "tide.core"

local OPEN <const> = [[
local core = require "tide.core"
return (function(a)
  local agent = core.whereis "n1/agent"
  local result = {}
  for _, role in ipairs {"read", "operate", "admin"} do
    local opened, err = core.call(agent, {op = "console.open", session = a.id .. role:byte(1), role = role}, 5)
    result[role] = opened and opened.address or nil
    result[role .. "_refused"] = err and err.code
  end
  if a.others then
    for role, address in pairs(a.others) do
      local answer, err = core.call(address, {op = "console.eval", id = 1, text = "1 + 1"}, 5)
      result["ask_" .. role] = answer and "answered" or err.code or err.name
    end
    local _, err = core.call(agent, {op = "console.drop", session = a.victim .. ("admin"):byte(1)}, 5)
    result.drop = err and err.code or "dropped"
  end
  return result
end)(...)
]]

return {
  name = "version", brief = "a test", summary = "A test.",
  options = {{name = "cluster", type = "string", doc = "of the test"}},
  run = function(context)
    local endpoint = require("tide.cluster.client").resolve(context.options.cluster)
    local function as(right, a)
      assert(core.node_start {client = true, join = endpoint, cluster = "lab", right = right, workers = 0, no_store = true})
      local result = assert(core.node_run(OPEN, "@sessions", a))
      core.node_stop(0)
      return result
    end
    local bad = {}
    local function expect(what, value, wanted)
      if value ~= wanted then bad[#bad + 1] = ("%s: %s, not %s"):format(what, value, wanted) end
    end
    local own <const> = as("admin", {id = "aaaa"})
    expect("the owner's session", type(own.admin), "string")
    local others <const> = {read = own.read, operate = own.operate, admin = own.admin}
    for i, right in ipairs {"read", "operate", "admin"} do
      local seen <const> = as(right, {id = "bbb" .. i, others = others, victim = "aaaa"})
      for j, role in ipairs {"read", "operate", "admin"} do
        expect(("a session of %s for %s"):format(role, right), seen[role .. "_refused"], j > i and "T0801" or nil)
        local answered <const> = seen["ask_" .. role]
        if answered == "answered" then bad[#bad + 1] = ("%s is answered by another's session of %s"):format(right, role) end
      end
      if right ~= "admin" then expect(right .. " drops another's session", seen.drop, "T0801") end
    end
    print(bad[1] and table.concat(bad, "\n") or "sessions obey their owners")
    return bad[1] and 1 or 0
  end,
}
