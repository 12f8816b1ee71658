-- `tide repl`: a local cluster of its own, and a console in it.
local errors = require "tide.errors"

local SCRIPT <const> = [[
local tide = require "tide"
tide.main(function() tide.cluster {} end)
]]

return {
  name = "repl",
  brief = "a local cluster and a console in it",
  summary = "Starts a local cluster, opens a Lua prompt in it, and ends it when you leave.",
  examples = {
    {"tide repl", "two nodes with one worker each"},
    {"tide repl --nodes 4", "four nodes"},
  },
  options = {
    {name = "nodes", config = "nodes", type = "integer", min = 1, max = 256, doc = "node processes (default 2)"},
    {name = "workers", config = "workers", short = "w", type = "integer", min = 1, max = 256,
     doc = "workers of each node (default 1)"},
  },
  run = function(context)
    local o <const> = context.options
    if not (context.terminal.stdin and context.terminal.stdout) then
      return nil, errors.new("T0109", {message = "a console of a cluster of its own requires a terminal",
        state = "nothing was started", help = "`tide run SCRIPT` runs a script on a local cluster"})
    end
    return require("tide.run.driver").run {
      script = "repl.lua", text = SCRIPT, args = {}, nodes = o.nodes, workers = o.workers, interactive = true,
      quiet = true, verbose = context.verbose,
    }
  end,
}
