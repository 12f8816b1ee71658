#!/bin/bash
# Sync policies in a real run: the bound of a table follows what its workers wait for, policies see staleness and waits,
# they are swapped while training continues, and what cannot be is refused.
. "$(dirname "$0")/harness.sh"

cat > mine.lua <<'EOF'
-- Larger bounds while the others wait for the straggler, and a model that the table has not, to be refused.
return {
  api = 1, kind = "sync", name = "mine", version = 1, needs = {"table.staleness"}, every = 0.2, min_gap = 0.05,
  init = function() return {looks = 0} end,
  decide = function(st, view)
    st.looks = st.looks + 1
    local bound = math.tointeger(tonumber(view.table.consistency:match "%d+"))
    local most = 0
    for _, w in ipairs(view.workers) do most = math.max(most, view.waits[w.id] or 0) end
    if most < 0.05 or bound >= 4 then return {} end
    local s = view.staleness
    assert(s.mean >= 1 and s.p99 >= 1 and s.max <= bound + 2 and s.pulls > 0, "a view of what was read")
    assert(view.table.name == "eager", "this seat's table")
    return {consistency = "essp:" .. bound + 1, why = ("wait %.2f"):format(most)}
  end,
}
EOF
cat > other.lua <<'EOF'
return {api = 1, kind = "sync", name = "other", version = 1, every = 0.2, min_gap = 0.05,
  init = function() return {} end, decide = function() return {consistency = "bsp"} end}
EOF
sed 's/"bsp"/"ssp:3"/' other.lua > pulls.lua
cat > sync.lua <<'EOF'
local tide = require "tide"
local opt = tide.options {policy = {"of the table", default = "mine.lua"}, table = {"it is of", default = "eager"},
                          bound = {"of the table", default = "essp:0"}, clocks = {"clocks", default = 240}}
local keys = tide.range(0, 31)
local job = tide.job {
  name = "sync", policies = {sync = {[opt.table] = opt.policy}},
  tables = {
    eager = tide.table {keys = tide.dense(32), width = 2, consistency = opt.bound},
    exact = tide.table {keys = tide.dense(32), width = 2, consistency = "bsp"},
    plain = tide.table {keys = tide.dense(32), width = 2},
  },
  worker = function(w)
    local ones = {}
    for i = 1, 32 do ones[i] = {1, 1} end
    for _ = 1, opt.clocks do
      w.tables.eager:pull(keys)
      w.tables.eager:push(keys, ones)
      tide.sleep(w.rank == 1 and w.rng:uniform() < 0.5 and 0.02 or 0.003)
      w:clock()
      if w:stopping() then break end
    end
    w:report {loss = 0, examples = 1}
    if w.rank == 1 then w.tables.eager:show {chart = "eager.svg"} end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 2}
  local run = cluster:start(job)
  if opt.policy == "mine.lua" then
    local entry
    for _ = 1, 400 do
      entry = (run.policy.why "consistency" or {})[1]
      if entry then break end
      tide.sleep(0.02)
    end
    print("why", entry.seat, entry.why:match "^wait" or entry.why)
    print(select(2, run.policy.swap "batching/equal").message)
    assert(run.policy.swap("other.lua", {scope = "eager"}))
    tide.sleep(0.4)
    print("refused", run.policy.list()[1].last_errors)
    assert(run.policy.swap("pulls.lua", {scope = "eager"}))
    for _ = 1, 400 do
      if run.tables.eager:consistency() == "ssp:3" then break end
      tide.sleep(0.02)
    end
    print("now", run.tables.eager:consistency())
    assert(run.policy.swap("sync/dynamic", {params = {most = 3}}))
  end
  local s = run:wait().staleness.eager
  print("bound", s.consistency, "workers", #s.workers, "clocks", s.clocks, "waited", s.wait_s_per_clock > 0,
        "pushed", s.bytes.pushed > 0)
end)
EOF
run 0 run sync.lua
says out.txt '^why	sync@eager	wait$'
says out.txt 'there is no seat for batching policies here; there are: sync@eager'
says out.txt '^refused	table `eager` keeps its model: essp:[0-9] cannot become bsp$'
says out.txt '^now	ssp:3$'
says out.txt '^bound	ssp:[1-4]	workers	4	clocks	960	waited	true	pushed	true$'
says err.txt 'table sync-1\.eager, width 2'
says err.txt 'worker +pulls +mean +var +share of pulls by age'
says eager.svg 'How old the oldest row'
nothing_left

# A bound of values follows too; what cannot be is said before anything starts.
run 0 run sync.lua --policy sync/adaptive --bound vap:2 --clocks 10
says out.txt '^bound	vap:2	workers	4	clocks	40	waited	true	pushed	true$'
says err.txt 'the bound of values stopped pushes [0-9]+ times'
run 2 run sync.lua --policy sync/adaptive --table plain
says err.txt 'T0303.*a sync policy for `plain`: it is sequential and has no bound'
run 2 run sync.lua --policy sync/adaptive --table nobody
says err.txt 'a sync policy for `nobody`: the job has no such table'
run 1 run sync.lua --bound vap:-1
says err.txt 'T0204.*"vap:0.01:flat"'
nothing_left

# One table of a run that continues, from the command line.
begin run sync.lua --policy sync/adaptive --clocks 100000
for _ in $(seq 200); do
    socket=$(find "$XDG_RUNTIME_DIR" -path '*run-*' -name '*.sock' | head -1)
    [ -n "$socket" ] && timeout 20 "$TIDE" table show sync.eager --cluster "unix:$socket" >shown.txt 2>shown.err &&
        grep -Eq '^ +4 +[0-9]' shown.txt && break
    sleep 0.1
done
says shown.txt '^table sync-1.eager, width 2$'
says shown.txt '^consistency essp:[0-9]+$'
says shown.txt '^ +all +[0-9.k]+ +-[0-9.]+ '
run 0 table show sync.eager --json --chart shown.svg --cluster "unix:$socket"
says out.txt '"schema":"tide.staleness/1"'
says out.txt '"hist":\[[0-9]'
says shown.svg '<svg'
run 1 table show sync.eagre --cluster "unix:$socket"
says err.txt 'T0401.*no table `sync.eagre`'
says err.txt 'sync-1.eager'
run 2 table show sync.plain --chart none.svg --cluster "unix:$socket"
says err.txt 'sequential'
run 2 table draw sync.eager --cluster "unix:$socket"
kill -INT "$driver"
wait "$driver"

# Under the simulator the same run is the same to the bit.
run 0 sim --seed 3 sync.lua
cp out.txt first.txt
run 0 sim --seed 3 sync.lua
cmp -s out.txt first.txt || fail "two simulations of one seed differ"
finish
