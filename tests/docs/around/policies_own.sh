# docs/guides/policies.md: -- Give each worker the batch that lets all finish together; change only when it pays.
cp block.lua even.lua
cat >job.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "mf", batch = {total = 60, min = 2}, policies = {batching = {policy = "even.lua", params = {gain = 1.1}}},
  worker = function(w)
    for _ = 1, 60 do
      tide.sleep(0.001 * w.batch * w.rank)
      w:report {examples = w.batch, compute_s = 0.001 * w.batch * w.rank}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  cluster:start(job):wait()
end)
LUA
tide policy check even.lua
tide run job.lua
tide policy timeline --run last | tee said.txt
grep -q 'reason *step .* s -> ' said.txt
