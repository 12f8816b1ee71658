-- `tide repl`: a local cluster of its own, and a console in it.
local declared = require "tide.declared"
local driver = require "tide.run.driver"
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
  options = declared.joined {
    declared.flags(declared.cluster, {"nodes", "workers"}, {nodes = {short = false, max = 256}, workers = {max = 256}}),
  },
  run = function(context)
    local o <const> = context.options
    if not (context.terminal.stdin and context.terminal.stdout) then
      return nil, errors.new("T0109", {message = "a console of a cluster of its own requires a terminal",
        state = "nothing was started", help = "`tide run SCRIPT` runs a script on a local cluster"})
    end
    return driver.run {
      script = "repl.lua", text = SCRIPT, args = {}, nodes = o.nodes, workers = o.workers,
      interactive = "tide.console.attach", quiet = true, verbose = context.verbose,
    }
  end,
}
