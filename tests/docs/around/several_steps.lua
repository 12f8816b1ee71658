-- docs/guides/several-machines.md: for chunk in w:chunks() do
local tide = require "tide"
local job = tide.job {
  name = "long", data = 1000, chunks = 2,
  worker = function(w)
    local n = 0
    local function train(first, last) n = n + last - first + 1 end
    @block@
    w:report {examples = n}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  for r in run:events "report" do print("examples", r.examples) end --> examples 1000
end)
