#!/bin/bash
# Workers come and go while a run continues: every pass has every example once and every step its whole batch, also when
# nodes die while they join; what is bound to ranks takes nobody.
. "$(dirname "$0")/harness.sh"

cat >passes.lua <<'END'
local tide = require "tide"
local sim = require "tide.sim"
local opt = tide.options {crash = {"a node that joins dies at that time", default = ""}, who = {"dispatch", default = ""}}
local N <const> = 1000
local job = tide.job {
  name = "sums", data = N, chunks = 25, stop = {epochs = 20},
  policies = opt.who ~= "" and {dispatch = opt.who} or nil,
  tables = {t = tide.table {keys = tide.dense(N), width = 1, init = tide.zero(), update = "add"}},
  evaluate = {workers = function() return 1, 1 end},
  worker = function(w)
    while not w:stopping() do
      for chunk in w:chunks() do
        local ones = tide.tensor.zeros("f32", chunk.count, 1)
        ones:fill(1)
        tide.sleep(chunk.count * 0.001)
        w.tables.t:push(tide.range(chunk.first - 1, chunk.last - 1), ones)
        chunk:report {examples = chunk.count}
      end
      w:barrier "pass"
      w:report {loss = 1, here = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, servers = 1}
  if opt.crash ~= "" then sim.fault("crash", {node = "n3", at = opt.crash}) end
  local run = cluster:start(job)
  local here = {}
  for r in run:events "report" do
    assert(r.examples == N, ("pass %d has %d examples"):format(r.n, r.examples))
    here[#here + 1] = r.here // 1
    if r.n == 2 then run:set_workers(4) end
    if r.n == 8 then print("asked", run:evaluate "workers") end
    if r.n == 10 then run:drop_worker(1) end
    if r.n == 13 then run:set_workers(2) end
  end
  local s = run:wait()
  local rows = run.tables.t:pull(tide.range(0, N - 1))
  print("here", table.concat(here, " "))
  print(("rows from %d, all %s, lost %d"):format(rows:min(), rows:sum() <= 20 * N + s.chunks_redone * N // 25, s.workers_lost))
  for _, m in ipairs(cluster.nodes()) do print(m.name, m.state) end
end)
END
for who in "" dispatch/earliest-finish; do
    run 0 sim --seed 1 passes.lua -- --who "$who"
    says out.txt '^asked.1'
    says out.txt '^here.2 2 2 4 4 4 4 4 4 4 3 3 3 2 2 2 2 2 2 2$'
    says out.txt '^rows from 20, all true, lost 0$'
    says out.txt '^n4.left$'
done
first=$(hash_of err.txt)
run 0 sim --seed 1 passes.lua -- --who dispatch/earliest-finish
same "$first" "$(hash_of err.txt)" "a run that workers join"
for at in 1060 1080 1100 1130 1300 1500 2500; do # starting, joining, loading, waiting, working
    run 0 sim --seed 1 passes.lua -- --crash ${at}ms
    says out.txt '^rows from 20, all true'
done

cat >steps.lua <<'END'
local tide = require "tide"
local opt = tide.options {bound = {"to what", default = ""}}
local WISH <const> = [[return {api = 1, kind = "scaling", name = "wish", version = 1, every = 0.1, min_gap = 0.1,
  init = function() return {} end,
  decide = function(_, view)
    if view.job.clock >= 60 then return {workers = 3, drop = view.worker[2] and {2} or nil} end
    return {workers = view.job.clock >= 10 and 5 or 2}
  end}]]
local job = tide.job {
  name = "steps", batch = {total = 120, min = 5}, stop = {epochs = 100},
  on_worker_loss = opt.bound ~= "rank" and "replay" or nil,
  policies = {batching = "batching/boa", scaling = {text = WISH, path = "wish.lua"}},
  tables = opt.bound == "clock" and {t = {keys = {"dense", 8}, width = 1, consistency = "ssp:1"}} or nil,
  worker = function(w)
    while not w:stopping() do
      local began <const> = tide.now()
      tide.sleep(0.002 + (w.rank == 3 and 0.0008 or 0.0002) * w.batch)
      w:report {loss = 1, examples = w.batch, compute_s = tide.now() - began, here = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  local most, here = 0, 0
  for r in run:events "report" do
    assert(r.examples == 120, ("step %d has %d examples"):format(r.n, r.examples))
    here = r.here // 1
    most = math.max(most, here)
  end
  run:wait()
  print("most", most, "in the end", here, run.policy.list()[1].errors)
end)
END
run 0 sim --seed 2 steps.lua
says out.txt '^most.5.in the end.3.0$'
run 0 sim --seed 2 steps.lua -- --bound rank
says out.txt '^most.2'
says err.txt 'no worker joins: its work is bound to ranks'
run 0 sim --seed 2 steps.lua -- --bound clock
says err.txt 'no worker joins: table `steps-1.t` has clocks'
finish
