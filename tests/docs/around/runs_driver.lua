-- docs/guides/runs.md: local run <close> = cluster:start(job, {eps = 0.1}, {slots = 2})
local tide = require "tide"
local job = tide.job {
  name = "mf", params = {eps = 1}, on_worker_loss = "replay",
  worker = function(w)
    while not w:stopping() do
      tide.sleep(0.01)
      w:report {examples = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 4}
  do
    @block@
  end
  print "closed"                                     --> closed
end)
