-- Nodes as processes of this machine, which end with the one that started them.
local commands = require "tide.provision.commands"
local core = require "tide.core"

local kind = {name = "local", poll_s = 0.2}

function kind.check() return true end

function kind.command(o, name) return commands.node(o, name) end

---@return table<string, any> ids by name
function kind.start(o, names)
  local ids = {}
  for _, name in ipairs(names) do
    local process, err = core.process(kind.command(o, name), {output = ("%s/%s.log"):format(o.directory, name)})
    ids[name] = process and {process = process, pid = process:pid()} or nil
    if not process then return ids, err end
  end
  return ids
end

function kind.list(_, tickets)
  local seen = {}
  for name, ticket in pairs(tickets) do
    local ended <const> = ticket.id.process:ended()
    local how = ended and ((ended.signal or 0) ~= 0 and ("ended by signal %d"):format(ended.signal)
      or ("ended with exit code %d"):format(ended.status or -1))
    seen[name] = ended and {state = "gone", reason = how} or {state = "starting"}
  end
  return seen
end

function kind.stop(_, tickets)
  for _, ticket in ipairs(tickets) do ticket.id.process:signal(15) end
end

function kind.kill(_, tickets)
  for _, ticket in ipairs(tickets) do ticket.id.process:signal(9) end
end

function kind.id_text(id) return "pid " .. id.pid end

function kind.log(o, name) return ("%s/%s.log"):format(o.directory, name) end

return kind
