#!/bin/bash
# tide.cluster {controllers = 3} on simulated nodes: whoever commands crashes, is cut off or stalls at a moment of
# the seed; the run continues and is exact, a node with rows joins, a table is made, and one seed is one run.
. "$(dirname "$0")/harness.sh"
if [ ! -e "$(dirname "$TIDE")/tide_raft.so" ]; then
    cat >missing.lua <<'END'
local tide = require "tide"
tide.main(function() local cluster <close> = tide.cluster {controllers = 3} end)
END
    run 1 sim missing.lua
    says err.txt 'T1004'
    finish
fi

cat >long.lua <<'END'
local tide = require "tide"
local sim = require "tide.sim"
local opt = tide.options {fault = {"what the controller meets", default = "crash"}}
local KEYS <const> = 200
local job = tide.job {
  name = "long",
  tables = {t = tide.table {keys = tide.dense(KEYS), width = 2, init = tide.zero(), update = "add"}},
  worker = function(w)
    local keys, ones = tide.range(0, KEYS - 1), tide.tensor.zeros("f32", KEYS, 2)
    ones:fill(1)
    for _ = 1, 400 do
      w.tables.t:push(keys, ones)
      w:report {pushes = 1}
      tide.sleep "10ms"
    end
  end,
}
local faults = {
  crash = function(at) sim.fault("crash", {node = "c1", at = at}) end,
  cut = function(at)
    sim.fault("partition", {{"c1"}, {"driver", "c2", "n1", "n2", "s1"}}, {at = at, heal = "+3s"})
  end,
  pause = function(at) sim.fault("pause", {node = "c1", at = at, time = ("%dms"):format(500 + sim.rng:below(1000))}) end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 1, servers = 1, controllers = 3}
  faults[opt.fault](tide.now() + 0.2 + sim.rng:uniform())
  local run, pushes, added = cluster:start(job), 0, nil
  for report in run:events "report" do
    pushes = pushes + report.pushes
    if not added and report.n >= 80 then added = cluster:add_node() end
  end
  run:wait()
  local rows = run.tables.t:pull(tide.range(0, KEYS - 1))
  print("exact", rows:min() == pushes, rows:max() == pushes, pushes == 800)
  for _, m in ipairs(cluster.nodes()) do print(m.name, m.state) end
end)
END
for fault in crash cut pause; do
    for seed in 1 2 3 4 5 6; do
        run 0 sim --seed "$seed" long.lua -- --fault "$fault"
        says out.txt '^exact.true.true.true$'
        says out.txt '^s2.up$'
        says err.txt 'the controller is away|is the controller|no more'
        first=$(hash_of err.txt)
    done
    run 0 sim --seed 6 long.lua -- --fault "$fault"
    same "$first" "$(hash_of err.txt)" "a run whose controller meets a $fault"
done
run 0 sim --seed 1 long.lua -- --fault crash
says out.txt '^c1.dead$'
sed 's/controllers = 3/controllers = 4/' long.lua >four.lua
run 2 sim four.lua
says err.txt 'T0105.*controllers. is 4, not 3 or 5'
# Another controller takes over the runs: a verb waits for the run's controller to say that it is there, and a queued run
# stays in the queue however long that is.
cat >failover.lua <<'END'
local tide = require "tide"
local core = require "tide.core"
local keeper = require "tide.keeper"
local sim = require "tide.sim"
local long = tide.job {name = "long", params = {x = 1}, worker = function(w)
  repeat
    tide.sleep "20ms"
    w:report {reports = 1}
  until w:stopping()
end}
local short = tide.job {name = "short", worker = function(w) w:report {reports = 1} end}
local function row_of(name) return keeper.ask {op = "get", name = name} end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1, workers = 1, controllers = 3}
  sim.fault("crash", {node = "c1", at = tide.now() + 1})
  local first <const>, second = cluster:start(long, nil, {slots = 1}), nil
  local starts <const> = core.fiber(function() second = cluster:start(short, nil, {slots = 1}) end)
  core.sleep(1.2)
  local answer, err
  repeat -- the first request that the next keeper gets
    core.sleep(0.005)
    local address <const> = keeper.find()
    if address then
      answer, err = core.call(address, {op = "verb", name = "long-1", verb = "set", arguments = {params = {x = 2}}}, 30)
    end
  until answer or err and err.code
  print("set", answer and answer.params.x or err)
  core.sleep(15)
  print("queued", row_of("long-1").state, row_of("short-2").state)
  first:stop()
  first:wait()
  first:close()
  core.fiber_wait(starts)
  second:wait()
  print("ended", row_of("long-1").state, (second:state()))
end)
END
run 0 sim --seed 1 failover.lua
says out.txt '^set	2$'
says out.txt '^queued	running	queued$'
says out.txt '^ended	stopped	done$'
finish
