-- docs/guides/actors.md: for c in g:changes(60) do
local tide, sim = require "tide", require "tide.sim"
local Probe = tide.actor {name = "probe", where = function(self) return self.node end}
sim.fault("crash", {node = "n2", at = "1s"})
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local g <close> = cluster:group(Probe, {}, {on = "@all", each = 1})
  @block@
  print "looked"                                     --> looked
end)
