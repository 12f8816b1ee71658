# docs/guides/exchange.md: return {
cp block.lua own.lua
tide policy check own.lua
cat >job.lua <<'LUA'
local tide = require "tide"
local job = tide.factors.job {
  name = "news", model = tide.factors.mlr {lr = 1, l2 = 1e-4}, batch = 16, epochs = 1,
  data = tide.data.libsvm("news20.scale", {labels = "class"}),
  comm = {policy = "own.lua"},
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA
tide run job.lua
tide policy timeline --run last | tee said.txt
grep -q 'wide-as-factors' said.txt
