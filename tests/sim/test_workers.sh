#!/bin/bash
# Runs lose the nodes of workers at moments that the seed draws, and every pass still has every example once: in the
# sums, by the leases of chunks, and in the table, but for what a lost worker had pushed of a chunk that is done again.
. "$(dirname "$0")/harness.sh"

cat >chunks.lua <<'LUA'
local tide = require "tide"
local sim = require "tide.sim"
local opt = tide.options {who = {"who dispatches", default = ""}, pause = {"one node stands still too long, instead of crashing", default = false}}
local PASSES <const>, N <const> = 6, 1000
local job = tide.job {
  name = "sums", data = N, chunks = 25, stop = {epochs = PASSES},
  policies = opt.who ~= "" and {dispatch = opt.who} or nil,
  tables = {t = tide.table {keys = tide.dense(N), width = 1, init = tide.zero(), update = "add"}},
  evaluate = {workers = function() return 1, 1 end},
  worker = function(w)
    for _ = 1, PASSES do
      for chunk in w:chunks() do
        local ones = tide.tensor.zeros("f32", chunk.count, 1)
        ones:fill(1)
        tide.sleep "15ms"
        w.tables.t:push(tide.range(chunk.first - 1, chunk.last - 1), ones)
        tide.sleep "5ms"
        chunk:report {examples = chunk.count}
      end
      w:report {loss = 1}
      w:barrier "pass"
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 5, servers = 2}
  local first = sim.rng:below(5) + 1
  local second = (first + sim.rng:below(4)) % 5 + 1
  for _, i in ipairs {first, second} do
    local at = ("%dms"):format(150 + sim.rng:below(300))
    if opt.pause then
      sim.fault("pause", {node = "n" .. i, at = at, time = "9s"})
    else
      sim.fault("crash", {node = "n" .. i, at = at})
    end
  end
  local run = cluster:start(job)
  for report in run:events "report" do
    if report.examples ~= N then error(("report %d has %d examples"):format(report.n, report.examples)) end
  end
  local s = run:wait()
  local rows = run.tables.t:pull(tide.range(0, N - 1))
  local most = PASSES * N + s.chunks_redone * (N // 25)
  print(("lost %d redone %s rows %s %s examples %d workers %s"):format(s.workers_lost, s.chunks_redone > 0,
    rows:min() == PASSES, rows:sum() <= most, s.examples, run:evaluate "workers"))
end)
LUA
for seed in 1 2 3 4 5 6 7 8; do
    run 0 sim --seed $seed chunks.lua
    says out.txt 'lost 2 redone true rows true true examples 6000 workers 1'
done
first=$(hash_of err.txt)
run 0 sim --seed 8 chunks.lua
same "$first" "$(hash_of err.txt)" "a run that loses workers"
for seed in 1 2 3 4; do # what was queued for a lost worker others do
    run 0 sim --seed $seed chunks.lua -- --who dispatch/earliest-finish
    says out.txt 'lost 2 redone true rows true true examples 6000 workers 1'
done
for seed in 1 2; do # declared dead, and alive: what they say when they wake counts no more
    run 0 sim --seed $seed chunks.lua --pause
    says out.txt 'lost 2 redone true rows true true examples 6000 workers 1'
done
# Workers come and go, again and again: each wish is met soon, and ranks are those of at most four workers. A number that
# is asked for while others are in flight is the one that counts.
cat >again.lua <<'LUA'
local tide = require "tide"
local PASSES <const> = 132
local job = tide.job {name = "again", data = 40, chunks = 20, stop = {epochs = PASSES},
  worker = function(w)
    for pass = w.passes + 1, PASSES do
      for c in w:chunks(pass) do
        tide.sleep(0.001)
        c:report {examples = c.count}
      end
      w:report {told = w.workers}
      if w:stopping() then break end
    end
  end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, servers = 1}
  local run = cluster:start(job)
  local examples, highest, told, slowest, asked, last = 0, 0, 0, 0, nil, 0
  for r in run:events "report" do
    examples, last = examples + r.examples, #r.workers
    for _, w in ipairs(r.workers) do highest, told = math.max(highest, w.rank), math.max(told, w.told) end
    if r.n % 16 == 2 and r.n < 110 then
      run:set_workers(4)
      asked = r.n
    elseif r.n % 16 == 10 then
      run:set_workers(2)
    elseif r.n == 116 then
      run:set_workers(4)
      run:set_workers(2)
    end
    if asked and #r.workers == 4 then slowest, asked = math.max(slowest, r.n - asked), nil end
  end
  print(examples, highest, told, slowest, last)
end)
LUA
run 0 sim --seed 1 again.lua
says out.txt '^5280	4	4	[2-7]	2$'
finish
