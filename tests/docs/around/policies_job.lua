-- docs/guides/policies.md: local job = tide.job {
local tide = require "tide"
local compute
@block@
local steps = 0
function compute(batch)
  tide.sleep(0.001 * batch)
  steps = steps + 1
  return {loss = 1 / steps}
end
job.stop = {epochs = 4}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  run:wait()
  print(run:summary().reports)                       --> 4
end)
