-- The commands of `tide` by their names. A command is loaded when it is asked for.
local cli = require "tide.cli"

local commands = {}

---Names of all commands, in the order of `tide help`.
commands.names = {
  "run", "submit", "sim", "repl", "attach", "up", "down", "node", "jobs", "job", "runs", "models", "shares", "accounts",
  "status", "dashboard", "stat", "metrics", "top", "nodes", "actors", "tables", "table", "links", "why", "stack",
  "tap", "trace", "events", "log", "move", "drain", "launch", "audit", "checkpoint", "policy", "keys", "config",
  "doctor", "new", "version", "help", "completion",
}

---@param name string
---@return table|nil
function commands.find(name)
  for _, known in ipairs(commands.names) do
    if known == name then return require("tide.command." .. name) end
  end
  return nil
end

---@return table[] commands in order
---@return table<string, table> by_name
function commands.all()
  local list, by_name = {}, {}
  for i, name in ipairs(commands.names) do
    list[i] = commands.find(name)
    by_name[name] = list[i]
  end
  return list, by_name
end

---Runs one command line.
---@param words string[] without the program's name
---@param env? table see cli.main
---@return integer exit code
function commands.main(words, env) return cli.main(words, commands, env) end

return commands
