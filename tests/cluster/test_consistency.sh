#!/bin/bash
# Consistency models on real processes: what workers see, what the summary says of it, bounds that change, charts.
. "$(dirname "$0")/harness.sh"

cat > clocks.lua <<'EOF'
local tide = require "tide"
local job = tide.job {
  name = "clocks",
  tables = {
    exact = tide.table {keys = tide.dense(64), width = 4, consistency = "bsp"},
    eager = tide.table {keys = tide.dense(64), width = 4, consistency = "essp:1", send_order = "magnitude", bandwidth = 1e7},
  },
  worker = function(w)
    local keys, one = tide.range(0, 63), {0, 0, 0, 0}
    one[w.rank] = 1
    local rows = {}
    for i = 1, 64 do rows[i] = one end
    local wrong = 0
    for clock = 1, 6 do
      local exact, eager = w.tables.exact:pull(keys), w.tables.eager:pull(keys)
      for i = 1, #exact do
        local own <const> = (i - 1) % 4 + 1 == w.rank
        if exact[i] ~= clock - 1 then wrong = wrong + 1 end
        if eager[i] < clock - 2 or own and eager[i] ~= clock - 1 then wrong = wrong + 1 end
      end
      if clock == 3 and w.rank == 1 then assert(w.tables.eager:consistency("ssp:0")) end
      w.tables.exact:push(keys, rows)
      w.tables.eager:push(keys, rows)
      assert(w:clock() == clock)
    end
    w:barrier "all"
    local all = w.tables.eager:pull(keys)
    for i = 1, #all do wrong = wrong + (all[i] == 6 and 0 or 1) end
    assert(w.tables.eager:consistency() == "ssp:0")
    assert(not pcall(w.tables.eager.consistency, w.tables.eager, "bsp"))
    local seen <const> = w.tables.eager:stats().staleness
    assert(seen.early_bytes + seen.forced_bytes == seen.value_bytes + seen.delta_bytes)
    assert(w.tables.eager.spec.send_order == "magnitude" and w.tables.eager.spec.bandwidth == 10000000)
    w:report {loss = wrong, examples = 1}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 2}
  local s = cluster:start(job):wait()
  print("wrong", s.loss, "mean", s.staleness.exact.mean)
  print("sent", s.staleness.eager.early_bytes + s.staleness.eager.forced_bytes > 0)
end)
EOF
run 0 run clocks.lua
says out.txt 'wrong	0.0	mean	-1.0'
says out.txt 'sent	true'
nothing_left

sed 's/"magnitude"/"size"/' clocks.lua > wrong.lua
run 1 run wrong.lua
says err.txt 'T0204.*send_order.*size'
sed 's/"essp:1"/"bsp"/' clocks.lua > bsp.lua
run 2 run bsp.lua
says err.txt 'with ssp and essp only'
nothing_left

run 0 run "$root/examples/mf_ssp.lua" --epochs 2 --models "bsp essp:2" --work 1ms --chart new/chart.svg
says out.txt '^bsp +[0-9.]+ +[0-9.]+ +[0-9.]+ +1\.00 +-1\.00 +0\.00 '
says new/chart.svg '<svg'
says new/chart.svg 'essp:2'
nothing_left

# Simulated, so that nothing else takes time: a straggler that moves costs bsp half as much again, at least; one that
# stays costs all the same; copies that are pushed to are younger than those that are fetched.
column() { awk -v model="$1" -v n="$2" '$1 == model {print $n}' out.txt; }
for straggler in moves stays; do
    run 0 sim --seed 1 "$root/examples/mf_ssp.lua" --models "bsp ssp:3 essp:3" --rank 4 --epochs 8 --straggler $straggler
    times=$(column ssp:3 5) fetched=$(column ssp:3 6) pushed=$(column essp:3 6)
    awk -v s=$straggler -v t="$times" -v f="$fetched" -v p="$pushed" \
        'BEGIN {exit !((s == "moves" ? t >= 1.5 : t > 0.9 && t < 1.1) && p > f + 0.1)}' ||
        fail "straggler $straggler: ssp:3 is $times times as fast as bsp; means $fetched (ssp) and $pushed (essp)"
done

# The lasso: from a LibSVM file, and in the simulator, where a straggler costs bsp more of the virtual time than essp.
lasso=$root/examples/lasso_ssp.lua
for i in $(seq 60); do
    echo "$((i % 7 - 3)) $((i % 5 + 1)):$((i % 3 + 1)) $((i % 4 + 6)):$((i % 7 - 3))"
done >small.txt
run 0 run "$lasso" --data small.txt --epochs 3 --clocks 2 --work 1ms --models "bsp vap:0.5" --chart lasso.svg
says out.txt '^data: small.txt: 60 examples'
says out.txt '^vap:0.5 +[0-9.]+ +[0-9]+ '
says lasso.svg 'Objective by epoch'
echo "1 3:x" >bad.txt
run 1 run "$lasso" --data bad.txt --models bsp
says err.txt 'bad.txt:1'
nothing_left
run 0 sim --seed 1 "$lasso" --train 200 --columns 120 --entries 20 --models "bsp essp:3"
bsp=$(awk '$1 == "bsp" {print $6}' out.txt) essp=$(awk '$1 == "essp:3" {print $6}' out.txt)
awk -v b="$bsp" -v e="$essp" 'BEGIN {exit !(e > 0.1 && b + 0 > 1.2 * e)}' ||
    fail "bsp took $bsp s, essp:3 $essp s"

finish
