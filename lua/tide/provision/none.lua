-- Nodes that others start: systemd, Kubernetes, a person. A request prints a command line, and membership
-- shows which nodes have come.
local commands = require "tide.provision.commands"

local kind = {name = "none", poll_s = 1, patient = true}

function kind.check() return true end

function kind.command(o, name) return commands.node(o, name) end

function kind.start(o, names)
  local ids = {}
  for _, name in ipairs(names) do
    ids[name] = "by hand"
    if o.say then o.say("start on one of your machines: " .. commands.quoted(kind.command(o, name))) end
  end
  return ids
end

function kind.list(_, tickets)
  local seen = {}
  for name in pairs(tickets) do seen[name] = {state = "asked"} end
  return seen
end

function kind.stop() end
kind.kill = kind.stop

function kind.id_text(id) return id end

return kind
