#!/bin/bash
# Policies under tide sim: the same file decides, a swap in mid-run loses nothing, and a seed repeats byte for byte.
. "$(dirname "$0")/harness.sh"
cat >balance.lua <<'EOF'
local tide = require "tide"
local job = tide.job {
  name = "balance", batch = 120, stop = {epochs = 300}, policies = {batching = "batching/boa"},
  worker = function(w)
    while not w:stopping() do
      local began <const> = tide.now()
      tide.sleep(0.02 + (w.rank == 3 and 0.004 or 0.001) * w.batch)
      w:report {loss = 1, examples = w.batch, compute_s = tide.now() - began}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  local kinds = {"batching/equal", "batching/lb-bsp", "batching/even-finish", "batching/boa"}
  for r in run:events "report" do
    assert(r.examples == 120, "a step has " .. r.examples .. " examples")
    local shares = {}
    for _, w in ipairs(r.workers) do shares[w.rank] = w.examples end
    if r.n % 50 == 0 then print(("step %d shares %s"):format(r.n, table.concat(shares, " "))) end
    if r.n % 5 == 0 and r.n > 60 and r.n < 250 then assert(run.policy.swap(kinds[1 + r.n // 5 % 4])) end
  end
  for _, v in ipairs(run.policy.history "batching") do print(v.number, v.name) end
  run:wait()
end)
EOF
run 0 sim --seed 5 balance.lua
first=$(hash_of err.txt)
slow=$(sed -n 's/^step 50 shares [0-9]* [0-9]* \([0-9]*\)$/\1/p' out.txt)
[ "${slow:-99}" -le 20 ] || fail "the slow worker has $slow of 120 examples after 50 steps"
says out.txt '^38'
cp out.txt first.txt
run 0 sim --seed 5 balance.lua
same "$first" "$(hash_of err.txt)" "the run with policies"
cmp -s out.txt first.txt || fail "what the policies did differs between two runs of a seed"

# A worker that returns early leaves its share to the others.
sed -e 's/while not w:stopping() do/while not w:stopping() and (w.rank ~= 2 or w.batch and w.reports < 20) do/' \
    -e 's/assert(r.examples == 120, .*/if r.n < 20 or r.n > 24 then assert(r.examples == 120, r.n .. ": " .. r.examples) end/' \
    -e '/run.policy.swap/d' -e 's/epochs = 300/epochs = 40/' balance.lua >early.lua
run 0 sim --seed 5 early.lua
# A worker that is lost leaves its share to the others, too.
sed -e 's/stop = {epochs = 300},/stop = {epochs = 40}, on_worker_loss = "replay",/' \
    -e 's/assert(r.examples == 120, .*/if r.n == 40 then print("sum", r.examples) end/' \
    -e '/run.policy.swap/d' -e 's/local run = /require("tide.sim").fault("crash", {node = "n2", at = "1500ms"})\n  &/' balance.lua >lost.lua
run 0 sim --seed 5 lost.lua
says out.txt '^sum.120$'

# A straggler that nobody wrote into the job: its share is less from then on, and as before when it has recovered.
cat >straggler.lua <<'END'
local tide = require "tide"
local job = tide.job {
  name = "straggler", batch = 120, stop = {epochs = 100}, policies = {batching = "batching/boa"},
  worker = function(w)
    while not w:stopping() do
      tide.sleep(0.02 + 0.001 * w.batch)
      w:report {loss = 1, examples = w.batch}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  print(select(2, pcall(run.slow_worker, run, 1, 0.5)).code)
  local last = 0
  for r in run:events "report" do
    local shares = {}
    for _, w in ipairs(r.workers) do shares[w.rank] = w.examples end
    if r.n == 9 or r.n == 41 or r.n == 100 then
      print(("step %d %s %.0f ms"):format(r.n, table.concat(shares, " "), 1e3 * (r.elapsed_s - last)))
    end
    if r.n == 8 then run:slow_worker(2, 4) end
    if r.n == 50 then run:slow_worker(2, 1) end
    last = r.elapsed_s
  end
  run:wait()
end)
END
run 0 sim --seed 5 straggler.lua
says out.txt '^T0113$'
says out.txt '^step 9 40 40 40 240 ms$'
says out.txt '^step 41 [56][0-9] [0-9] [56][0-9] [78][0-9] ms$'
says out.txt '^step 100 (39|40|41) (39|40|41) (39|40|41) 6[01] ms$'

# A node with a fiftieth of its processor: what it serves takes longer, and less again when it has all of it.
cat >share.lua <<'END'
local tide = require "tide"
local job = tide.job {
  name = "share", stop = {epochs = 30}, tables = {w = {keys = {"dense", 64}, width = 4}},
  worker = function(w)
    while not w:stopping() do
      local began <const> = tide.now()
      for _ = 1, 20 do w.tables.w:pull {1, 2, 3} end
      w:report {took = tide.now() - began}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {servers = 1, nodes = 1}
  local run = cluster:start(job)
  local took = {}
  for r in run:events "report" do
    took[r.n] = r.took
    if r.n == 9 then cluster:cpu_share("s1", "2%") end
    if r.n == 19 then cluster:cpu_share("s1", 1) end
  end
  run:wait()
  print(took[15] > 1.1 * took[5], math.abs(took[30] - took[5]) < 0.01 * took[5])
  for _, bad in ipairs {{"s1", 0}, {"s1", "x"}, {"s1", 1.5}, {"s2", 0.5}} do
    print(select(2, pcall(cluster.cpu_share, cluster, table.unpack(bad))).code)
  end
end)
END
run 0 sim --seed 5 share.lua
says out.txt '^true.true$'
[ "$(grep -c '^T0113$' out.txt)" = 3 ] && [ "$(grep -c '^T0401$' out.txt)" = 1 ] || fail "bad shares: $(cat out.txt)"

# A worker that is slower with the fewest examples than the others with all of them is let go, and no step lacks any.
cat >hopeless.lua <<'END'
local tide = require "tide"
local job = tide.job {
  name = "hopeless", batch = 120, stop = {epochs = 200}, on_worker_loss = "replay",
  policies = {batching = "batching/boa", scaling = {policy = "scaling/worker-set", params = {patience = 2}}},
  worker = function(w)
    while not w:stopping() do
      tide.sleep((w.rank == 3 and 0.3 or 0.01) + 0.001 * w.batch)
      w:report {loss = 1, examples = w.batch, here = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  local last = 0
  for r in run:events "report" do
    assert(r.examples == 120, ("step %d has %d examples"):format(r.n, r.examples))
    if r.n == 5 or r.n == 200 then
      print(("step %d of %d workers %.0f ms"):format(r.n, r.here, 1e3 * (r.elapsed_s - last)))
    end
    if r.n == 190 then print(run.policy.why("drop 3")[1].why) end
    last = r.elapsed_s
  end
  run:wait()
end)
END
run 0 sim --seed 5 hopeless.lua
says out.txt '^step 5 of 3 workers 3[0-9][0-9] ms$'
says out.txt '^step 200 of 2 workers (70|71) ms$'
says out.txt '^0.3[0-9]* s for the least it may have, the others need 0.07[0-9]* s for all$'

# A canary on two of four nodes: the others keep their shares until the guard gives the new policy all of it.
cat >canary.lua <<'END'
local tide = require "tide"
local job = tide.job {
  name = "canary", batch = 160, stop = {epochs = 120}, policies = {batching = "batching/equal"},
  worker = function(w)
    while not w:stopping() do
      local began <const> = tide.now()
      tide.sleep(0.02 + (w.rank % 2 == 0 and 0.004 or 0.001) * w.batch)
      w:report {loss = 1, examples = w.batch, compute_s = tide.now() - began}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 4}
  local run = cluster:start(job)
  for r in run:events "report" do
    assert(r.examples == 160, "a step has " .. r.examples .. " examples")
    local shares = {}
    for _, w in ipairs(r.workers) do shares[w.rank] = w.examples end
    if r.n == 20 then
      local guard = {metric = "compute_s", rise = 0.1, within = "4s"}
      print("inside", assert(run.policy.swap("batching/boa", {canary = {nodes = "@n1,@n2"}, guard = guard})).inside)
    end
    if r.n == 40 then print("halfway", shares[1] + shares[2], shares[3], shares[4], run.policy.list()[1].canary) end
    if r.n == 120 then print("end", shares[2] < 40 and shares[4] < 40, run.policy.report("batching").outcome) end
  end
  run:wait()
end)
END
run 0 sim --seed 5 canary.lua
says out.txt '^inside.2$'
says out.txt '^halfway.80.40.40.boa v[0-9]+ on nodes n1,n2$'
says out.txt '^end.true.promoted: compute_s of the canary is'
# Who takes which chunk: near the end of a pass a slow worker gets none that a fast one would finish sooner.
cat >chunked.lua <<'END'
local tide = require "tide"
local opt = tide.options {policy = {"who dispatches", default = "dispatch/in-order"}}
local job = tide.job {
  name = "chunked", data = 960, chunks = 24, stop = {epochs = 6}, policies = {dispatch = opt.policy},
  worker = function(w)
    for _ = 1, 6 do
      for chunk in w:chunks() do
        tide.sleep(chunk.count * (w.rank == 4 and 0.012 or 0.002))
        chunk:report {examples = chunk.count}
      end
      w:report {loss = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 4}
  local run = cluster:start(job)
  local last = 0
  for r in run:events "report" do
    assert(r.examples == 960)
    print(("pass %d %.0f ms"):format(r.n, 1e3 * (r.elapsed_s - last)))
    last = r.elapsed_s
    if r.n == 4 then
      local saw = assert(run.policy.swap {text = [[return {api = 1, kind = "dispatch", name = "silent", version = 1,
        init = function() return {} end, decide = function(_, view)
          local queue = {}
          for _, w in ipairs(view.workers) do queue[w.id] = {} end
          for _, c in ipairs(view.chunks) do
            if c.left > 0 and not c.taken_by then table.insert(queue[1], c.id) end
          end
          return {queue = queue}
        end}]], path = "silent.lua"})
      print(saw.new)
    end
  end
  run:wait()
end)
END
run 0 sim --seed 3 chunked.lua
says out.txt '^pass 4 960 ms$'
run 0 sim --seed 3 chunked.lua -- --policy dispatch/earliest-finish
says out.txt '^pass 4 640 ms$'
says out.txt '^silent v1$'
# All that nobody has begun when it first decides, up to 24 chunks of 80 ms, for worker 1: the others wait, nothing is lost.
says out.txt '^pass 6 1[0-9][0-9][0-9] ms$'

# Chunks of another size, from the next pass on; every pass has every example once, whatever their size.
cat >coarse.lua <<'END'
return {api = 1, kind = "dispatch", name = "coarse", version = 1, every = 0.05,
  init = function() return {} end,
  decide = function(_, view)
    if view.job.pass < 2 then return {} end
    return {chunk_examples = view.job.pass < 4 and 130 or 1000000}
  end}
END
cat >sized.lua <<'END'
local tide = require "tide"
local job = tide.job {
  name = "sized", data = 960, chunks = 16, stop = {epochs = 6}, policies = {dispatch = "coarse.lua"},
  worker = function(w)
    for _ = 1, 6 do
      local most, count = 0, 0
      for chunk in w:chunks() do
        tide.sleep(chunk.count * 0.001)
        most, count = math.max(most, chunk.count), count + 1
        chunk:report {examples = chunk.count, chunks = 1, places = chunk.first * chunk.count
          + chunk.count * (chunk.count - 1) // 2}
      end
      w:report {loss = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  for r in run:events "report" do
    assert(r.examples == 960 and (r.places == 960 * 961 // 2 or r.places == 960 * 959 // 2), "examples missing or twice")
    print(("pass %d chunks %d"):format(r.n, r.chunks))
  end
  assert(#run.policy.history "dispatch" == 1 and run.policy.list()[1].errors == 0)
end)
END
run 0 sim --seed 3 sized.lua
says out.txt '^pass 2 chunks 16$'
says out.txt '^pass 3 chunks 8$'
says out.txt '^pass 4 chunks 8$'
says out.txt '^pass 6 chunks 1$'
[ ! -e .tide ] || fail "a simulated run has left something on this disk"
finish
