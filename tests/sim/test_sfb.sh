#!/bin/bash
# Factors among simulated nodes: a slow node, slow links and resets of connections change no bit of what is learned; at
# 1 Gbit/s factors of wide layers are quicker than dense sums, and quicker still without their zeros; without a node that
# dies a run ends nearly where it would have ended; dual variables and parameters fit each other whoever dies or comes.
. "$(dirname "$0")/harness.sh"

cat >factors.lua <<'LUA'
local tide = require "tide"
local sim = require "tide.sim"
local factors = tide.factors
local opt = tide.options {fault = {"", default = "none", choices = {"none", "slow", "reset", "crash"}}}
local data = tide.data.libsvm({generate = {train = 256, columns = 2000, nonzeros = 20, classes = 200, seed = 5}},
  {labels = "class"})
local ways, jobs = {"always-ps f32 0", "always-sfb f32 0", "always-sfb f32 2", "always-sfb sparse 1"}, {}
for i, way in ipairs(ways) do
  local policy, format, fanout = way:match "(%S+) (%S+) (%S+)"
  jobs[i] = factors.job {name = "factors-" .. i, model = factors.mlr {lr = 4}, data = data, batch = 64, epochs = 3,
    comm = {policy = "comm/" .. policy,
            params = {format = format, fanout = policy == "always-sfb" and math.tointeger(fanout) or nil}}}
end

local function disturb()
  local soon = ("%dus"):format(1e6 * require "tide.core".now() // 1 + 1000)
  if opt.fault == "slow" then
    sim.fault("slow", {node = "n2", factor = 50, at = soon, heal = "+100ms"})
    sim.fault("nic", {node = "n3", bandwidth = "50Mbit", at = soon, heal = "+100ms"})
  elseif opt.fault == "reset" then
    sim.fault("reset", {{"n1", "n2"}, {"n3", "n4"}}, {at = soon})
  elseif opt.fault == "crash" then
    sim.fault("crash", {node = "n2", at = soon})
  end
end

local function train(cluster, job)
  local run = cluster:start(job)
  local objective, first, last
  for r in run:events "report" do
    objective, first, last = factors.objective(r), first or r.elapsed_s, r.elapsed_s
    assert(r.resyncs == 0, "the replicas differ")
    if r.n == 1 then disturb() end
  end
  run:wait()
  return objective, last - first
end

tide.main(function()
  sim.compute {flops = 1e15, memory = 1e15} -- what travels is compared
  local cluster <close> = tide.cluster {nodes = 4}
  local seconds, sums = {}, {}
  for i, job in ipairs(jobs) do
    sums[i], seconds[i] = train(cluster, job)
    print(("%s: %.17g"):format(ways[i], sums[i]))
    if opt.fault == "crash" then return end -- the next run would want all nodes
  end
  assert(sums[2] == sums[3] and sums[3] == sums[4] and math.abs(sums[1] - sums[2]) < 1e-5)
  if opt.fault == "none" then
    assert(seconds[2] < seconds[1] / 2 and seconds[3] < seconds[1] / 2, "factors are slow")
    assert(seconds[4] < seconds[2] / 2, "factors without zeros are slow")
    print "quicker"
  end
end)
LUA

run 0 sim --seed 3 --nic 1Gbit factors.lua
says out.txt quicker
grep ': ' out.txt | grep always >none.txt
run 0 sim --seed 4 --nic 1Gbit --check-determinism factors.lua
for fault in slow reset; do
    run 0 sim --seed 3 --nic 1Gbit factors.lua --fault $fault
    grep always out.txt >$fault.txt
    cmp none.txt $fault.txt || fail "$fault: other parameters"
done
run 0 sim --seed 3 factors.lua --fault crash
says err.txt 'node n2 is gone .*, the run continues without its workers'
grep -h '^always-ps' none.txt out.txt | awk '{ d = $4 - was; was = $4 } END { exit !(NR == 2 && d < 0.1 && d > -0.1) }' ||
    fail "without n2 it learns something else: $(grep -h '^always-ps' none.txt out.txt | tr '\n' ';')"
run 0 sim --seed 3 --check-determinism factors.lua --fault crash

cat >dual.lua <<'LUA'
local tide = require "tide"
local sim = require "tide.sim"
local factors = tide.factors
local opt = tide.options {change = {"", default = "none", choices = {"none", "crashes", "joins"}}, policy = {"", default = "always-sfb"}}
local N <const> = 200
local data = tide.data.libsvm({generate = {train = N, columns = 150, nonzeros = 10, classes = 12, seed = 5}}, {labels = "class"})
local job = factors.job {name = "dual", model = factors.sdca {l2 = 1e-2}, data = data, batch = 24, epochs = 40,
  comm = {policy = "comm/" .. opt.policy}}

-- At any moment of the next epoch, its figures included.
local function crash(node)
  local us <const> = 1e6 * require "tide.core".now() // 1 + sim.rng:below(20000)
  sim.fault("crash", {node = node, at = ("%dus"):format(us)})
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.change == "joins" and 2 or 4, servers = 1}
  local run = cluster:start(job)
  local last, widened = nil, 0
  for r in run:events "report" do
    local _, gap = factors.objective(r)
    assert(r.resyncs == 0, "the replicas differ")
    if r.examples == N then -- nobody has died between evaluating and reporting
      assert(gap > -1e-6, ("report %d: the gap is %g"):format(r.n, gap))
      if last and gap > last + 1e-6 then widened = widened + 1 end
      last = gap
    end
    if opt.change == "crashes" and (r.n == 6 or r.n == 12) then crash("n" .. r.n // 6 + 1) end
    if opt.change == "joins" and r.n == 5 then run:set_workers(4) end
    if opt.change == "joins" and r.n == 12 then run:drop_worker(1) end
  end
  local s = run:wait()
  assert(math.abs(last) < 1e-6, ("the gap is %g at the end"):format(last))
  print(("widened %d lost %d"):format(widened, s.workers_lost))
end)
LUA
run 0 sim --seed 1 dual.lua
says out.txt 'widened 0 lost 0'
for seed in 1 2 3 4 5 6 7 8; do
    policy=$([ $((seed % 2)) = 0 ] && echo always-ps || echo always-sfb)
    run 0 sim --seed $seed dual.lua --change crashes --policy $policy
    says out.txt 'widened [1-9] lost 2'
done
run 0 sim --seed 1 --check-determinism dual.lua --change crashes
run 0 sim --seed 2 dual.lua --change joins
says out.txt 'widened 1 lost 0'
finish
