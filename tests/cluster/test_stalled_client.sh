#!/bin/bash
# Clients that stall until the cluster has ended their sessions (Ctrl-Z, a laptop that sleeps) attach anew when they run
# again: what they watch continues, and what changed meanwhile is seen.
. "$(dirname "$0")/harness.sh"
export TIDE_SILENCE=1 # so that members end the sessions soon
STALL_S=5

cat >long.lua <<'E2'
local tide = require "tide"
local job = tide.job {name = "long", workers = 1, worker = function(w)
  while not w:stopping() do
    tide.sleep(0.05)
    w:report {examples = 1}
  end
end}
tide.main(function()
  local c <close> = tide.cluster {}
  local r <close> = c:start(job)
  r:wait()
end)
E2
run 0 up --cluster stall -n 2
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/stall/pids"); do started+=("$pid"); done
export TIDE_CLUSTER=stall
run 0 submit long.lua

watch() { # watch NAME COMMAND...: in the background, its pid in $watcher
    local name=$1
    shift
    "$TIDE" "$@" >"$name.out" 2>"$name.txt" </dev/null &
    watcher=$!
    started+=("$watcher")
}
watch metrics metrics --file m.prom --watch 200ms
metrics=$watcher
watch wait job wait long-1
waiter=$watcher
watch page dashboard --file url
page=$watcher
watch launch launch local -n 1
launcher=$watcher
wait_for 20 test -s m.prom
wait_for 20 grep -q 'tide_node_up{node="local-1"} 1' m.prom
wait_for 20 test -s url
kill -STOP "$metrics" "$waiter" "$page" "$launcher"
sleep $STALL_S
before=$(stat -c %Y m.prom)
kill -CONT "$metrics" "$waiter" "$page" "$launcher"

is_new() { [ "$(stat -c %Y m.prom)" -gt "$before" ] && grep -q 'tide_node_up{node="c0"} 1' m.prom; }
wait_for 20 is_new || fail "the metrics are of before: $(cat metrics.txt)"
says m.prom '^tide_run_reports_total.*long'
shows_the_run() {
    curl -s -m 5 -H "Authorization: Bearer $(sed 's/.*token=//' url)" \
        "$(sed 's|/#.*|/api/state|' url)" | grep -q '"runs":\[{'
}
wait_for 20 shows_the_run || fail "the dashboard shows no run"
victim=$("$TIDE" nodes --json | grep '"local-1"' | grep -o '"pid":[0-9]*' | cut -d: -f2)
kill -KILL "$victim"
wait_for 20 grep -q 'local-2  joined' launch.txt || fail "the launcher replaces no node: $(cat launch.txt)"
kill -0 "$waiter" 2>/dev/null || fail "job wait has ended: $(cat wait.txt)"
run 0 job stop long-1
wait "$waiter"
code=$?
[ "$code" = 1 ] || fail "job wait ended with $code: $(cat wait.txt)"
says wait.txt 'long-1: stopped'
kill -TERM "$metrics" "$page" "$launcher"
wait "$launcher" || fail "the launcher ended with an error: $(cat launch.txt)"

# A cluster that has ended is told, at once.
watch metrics metrics --file m.prom --watch 200ms
sleep 1
run 0 down stall -y
has_ended() { ! kill -0 "$watcher" 2>/dev/null; }
wait_for 20 has_ended
wait "$watcher" && fail "the metrics of a cluster that has ended"
says metrics.txt 'no cluster `stall` runs here'
nothing_left
finish
