#!/bin/bash
# Barriers that workers come to without waiting, while nodes crash, stall, or are cut off for a while, at moments
# that the seed draws: who waits for one sees what all had done that came to it, all that pass it are told the same, and
# none passes before all that live have come.
. "$(dirname "$0")/harness.sh"

cat >barriers.lua <<'LUA'
local tide = require "tide"
local sim = require "tide.sim"
local opt = tide.options {fault = {"what happens to two nodes", default = "crash", choices = {"crash", "pause", "cut"}}}
local NODES <const>, ROUNDS <const>, AHEAD <const> = 5, 60, 3
local job = tide.job {
  name = "barriers", on_worker_loss = "replay",
  tables = {t = tide.table {keys = tide.dense(NODES), width = 1, update = "add"}},
  worker = function(w)
    local arrivals, told = {}, {}
    -- Behind the k-th: whoever came to it had pushed k times, and said whom the one before had told of.
    local function pass(k)
      local ready <const> = arrivals[k]:done()
      local values <const>, before = arrivals[k]:wait(), nil
      local rows <const>, ranks = w.tables.t:pull(tide.range(0, NODES - 1)), {}
      for rank = 1, NODES do
        local value <const> = values[rank]
        if value then
          assert(value.k == k and rows[rank] >= k, "what was done before a barrier is not seen behind it")
          assert(not value.told or value.told == (before or value.told), "who passes a barrier is told something else")
          before, ranks[#ranks + 1] = value.told or before, rank
        end
      end
      told[k] = table.concat(ranks, " ")
      assert(values[w.rank], "a barrier passes without one that has come to it")
      return ready
    end
    local early = 0
    for k = 1, ROUNDS do
      w.tables.t:push({w.rank - 1}, {{1}})
      arrivals[k] = w:barrier("round", {k = k, told = told[k - AHEAD - 1]}, {async = true})
      tide.sleep(0.001 + 0.009 * w.rng:uniform())
      if k > AHEAD and pass(k - AHEAD) then early = early + 1 end
      if k % 20 == 0 then w:report {here = 1} end -- behind barriers that it has not waited for
    end
    for k = ROUNDS - AHEAD + 1, ROUNDS do pass(k) end
    w:report {here = 1, early = early}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = NODES, servers = 2}
  local first <const> = sim.rng:below(NODES) + 1
  local second <const> = (first + sim.rng:below(NODES - 1)) % NODES + 1
  for _, i in ipairs {first, second} do
    local at <const> = ("%dms"):format(60 + sim.rng:below(300))
    if opt.fault == "pause" then
      sim.fault("pause", {node = "n" .. i, at = at, time = "9s"})
    elseif opt.fault == "crash" then
      sim.fault("crash", {node = "n" .. i, at = at})
    else
      sim.fault("partition", {{"n" .. i}, {"driver", "s1"}}, {at = at, heal = "+150ms"})
    end
  end
  local run <const> = cluster:start(job)
  local last
  for r in run:events "report" do last = r end
  local s <const> = run:wait()
  print(("lost %d, reports %d, here %d, early %s"):format(s.workers_lost, last.n, last.here, last.early > 0))
end)
LUA
for seed in 1 2 3 4 5 6; do
    run 0 sim --seed $seed barriers.lua
    says out.txt '^lost 2, reports 4, here 3, early true$'
done
first=$(hash_of err.txt)
run 0 sim --seed 6 barriers.lua
same "$first" "$(hash_of err.txt)" "a run that loses workers between barriers"
for seed in 1 2; do # declared dead, and alive: what they come to when they wake counts no more
    run 0 sim --seed $seed barriers.lua --fault pause
    says out.txt '^lost 2, reports 4, here 3, early true$'
done
for seed in 1 2; do
    run 0 sim --seed $seed barriers.lua --fault cut
    says out.txt '^lost 0, reports 4, here 5, early true$'
done
finish
