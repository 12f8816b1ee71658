#!/usr/bin/env bash
# Network namespaces as machines. The cable of one of them is drawn for two seconds, and for five: the run waits, counts
# exactly, and the node stays. With a shorter --silence the node is declared dead, and the error names the option.
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/netns.sh"
netns_begin "$(readlink -f "${TIDE:-$here/../build/tide}")" 2
unset TIDE_SILENCE
pass=0
ok() { pass=$((pass + 1)); echo "ok - $*"; }
fail() { echo "not ok - $*"; tail -n 30 ./*.log; exit 1; }
wait_for() { local k n=$1; shift; for ((k = 0; k < n * 10; k++)); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
at=tcp:10.77.0.1:7700
"$tide" keys init lab >/dev/null 2>&1 || fail "tide keys init"
export TIDE_KEYS=$PWD/keys/lab/admin TIDE_CLUSTER=$at

# begin OPTIONS...: a cluster of three machines
begin() {
    inside 0 "$tide" node --keys keys/lab/node --workers 0 --listen $at "$@" >c0.log 2>&1 &
    controller=$!
    wait_for 10 inside 0 "$tide" status || fail "the first node"
    for k in 1 2; do inside $k "$tide" node --keys keys/lab/node --join $at >"n$k.log" 2>&1 & done
    wait_for 15 three || fail "three machines in one cluster"
}
three() { [ "$(inside 0 "$tide" nodes --plain | grep -c '	up	')" = 3 ]; }
cut() { # cut SECONDS: the cable of machine 2
    inside hub ip link set hub2 down
    sleep "$1"
    inside hub ip link set hub2 up
}

cat >count.lua <<'L'
local tide = require "tide"
local job = tide.job {name = "count", tables = {hits = tide.table {keys = tide.dense(64), width = 1, update = "add"}},
  worker = function(w)
    local rng <const> = w.rng
    for i = 1, 600 do
      w.tables.hits:push({rng:below(64), rng:below(64)}, {{1}, {1}})
      if i % 20 == 0 then w:report {examples = 20} end
      tide.sleep(0.01)
    end
  end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run <close> = cluster:start(job)
  run:wait()
  local sum = 0
  local rows <const> = run.tables.hits:pull(tide.range(0, 63))
  for i = 1, 64 do sum = sum + rows[i] end
  print("SUM", sum, run.workers)
end)
L

begin
for seconds in 2 5; do
    inside 0 "$tide" run count.lua >"run$seconds.log" 2>&1 &
    run=$!
    sleep 2
    cut $seconds
    wait $run || fail "the run ended with $?, after a cut of $seconds s"
    grep -q '^SUM	2400' "run$seconds.log" || fail "it does not count exactly after a cut of $seconds s"
    three || fail "a node is gone after a cut of $seconds s"
    ok "a run counts exactly over a cut of $seconds s"
done
netns_stop

begin --silence 1s
inside 0 "$tide" run count.lua >short.log 2>&1 &
run=$!
sleep 2
cut 5 &
wait $run && fail "a run goes on without its rows"
grep -q 'no heartbeat for' short.log || fail "the error does not say why"
grep -q -- '--silence' short.log || fail "the error does not name --silence"
ok "--silence is the cluster's, and its nodes are told"
echo "1..$pass"
