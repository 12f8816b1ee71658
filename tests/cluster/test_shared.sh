#!/bin/bash
# Hot keys have copies and what workers intend to use is at hand: by the script, by a policy, by intents; every push is
# counted once, and what cannot be is refused. What the policy saw and decided is in its journal.
. "$(dirname "$0")/harness.sh"

cat >shared.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {by = {"who shares: script, policy, intent", default = "script"}, rounds = {"rounds", default = 300}}
local HOT <const>, ALL <const>, EACH <const> = 4, 20000, 16
local technique = opt.by == "intent" and "intent" or "static"
local function keys_of(rank, round)
  local keys = {}
  for i = 1, EACH do
    keys[i] = i <= EACH // 2 and (round + i) % HOT or HOT + (round // 30 * 97 + rank * 1000 + i) % (ALL - HOT)
  end
  return keys
end
local job = tide.job {
  name = "counts",
  policies = opt.by == "policy" and {placement = {policy = "placement/replicate-hot", params = {over = 20, under = 5}}} or nil,
  tables = {counts = tide.table {keys = tide.dense(ALL), width = 2, technique = technique}},
  worker = function(w)
    local ones, counts = {}, w.tables.counts
    for i = 1, 2 * EACH do ones[i] = 1 end
    if opt.by == "script" and w.rank == 1 then
      assert(counts:manage({0, 1, 2, 3}, "replicate", {rate = 200}))
      local ok, err = pcall(counts.manage, counts, {0}, "relocate")
      w:report {refused = not ok and err.name or "no"}
    else
      w:report {loss = 0}
    end
    for round = 1, opt.rounds do
      if opt.by == "intent" then w:intent(counts, keys_of(w.rank, round + 10), round + 10, round + 12) end
      counts:pull(keys_of(w.rank, round))
      counts:push(keys_of(w.rank, round), ones)
      w:clock()
      if round % 20 == 0 then
        tide.sleep(opt.by == "policy" and 0.25 or 0.05)
        w:report {loss = 0}
      end
    end
    assert(counts:flush())
    w:barrier()
    local stats, sum = counts:stats(), 0
    if w.rank == 1 then
      for from = 0, ALL - 1, 1000 do
        local keys = {}
        for i = 1, 1000 do keys[i] = from + i - 1 end
        sum = sum + counts:pull(keys):sum()
      end
    end
    w:report {sum = sum, hits = (stats.shared or {}).hits or 0, moved = stats.relocated_in,
              behind_ms = (stats.shared or {}).behind_mean_ms or 0}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  for r in run:events "report" do
    for _, w in ipairs(r.workers) do
      if w.refused then print("refused", w.refused) end
      if w.hits then
        print(("worker %d sum %d of %d hits %d moved %d"):format(w.rank, w.sum, 3 * opt.rounds * EACH * 2, w.hits, w.moved))
      end
    end
  end
  run:wait()
end)
LUA

journal=''
for by in script policy intent; do
    run 0 run shared.lua --by $by
    says out.txt 'worker 1 sum 28800 of 28800'
    [ "$by" = intent ] || ! grep -q "hits 0 " out.txt || fail "$by: a node has no copies"
    nothing_left
    [ "$by" != policy ] || journal=$(ls -t .tide/runs/*/policies-counts.journal | head -1)
done
says out.txt "moved [1-9]"
run 0 run shared.lua --rounds 20
says out.txt 'refused.*EUNSUPPORTED'

run 0 policy replay --journal "$journal"
says out.txt '^identical +true$'
run 0 policy replay placement/static --journal "$journal"
says out.txt '^first_difference_tick +[0-9]'

finish
