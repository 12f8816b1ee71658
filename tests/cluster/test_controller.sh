#!/bin/bash
# kill -9 of a controller that keeps its decisions, under load: training goes on while it is away, and it goes on where
# it was when it is started again: members, tables, a node that leaves, a node that joins, a new table. Once a
# controller started again, it is another node than before; what a second one finds of its state is refused.
# ROUNDS=n repeats the loss n times and says how long the cluster was without a controller's answer.
. "$(dirname "$0")/harness.sh"
. "$(dirname "$0")/controlled.sh"
rounds=${ROUNDS:-2}
socket=$work/c.sock

cat >long.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "long", on_worker_loss = "replay",
  tables = {t = tide.table {keys = tide.dense(400), width = 2, init = tide.zero(), update = "add"}},
  worker = function(w)
    local keys, ones = tide.range(0, 399), tide.tensor.zeros("f32", 400, 2)
    ones:fill(1)
    while not w:stopping() do
      w.tables.t:push(keys, ones)
      w:report {pushes = 1}
    end
    w:report {pushes = 0}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run, pushes = cluster:start(job), 0
  local progress = assert(io.open("progress", "w"))
  for report in run:events "report" do
    pushes = pushes + report.pushes
    progress:write(report.n, "\n")
    progress:flush()
    tide.sleep "5ms"
    local stop = io.open "stop"
    if stop then
      stop:close()
      run:stop()
    end
  end
  run:wait()
  local rows = run.tables.t:pull(tide.range(0, 399))
  -- The worker of the node that leaves may have ended within a push, or before it reported one.
  print("exact", rows:min() >= pushes and rows:max() <= pushes + 1, pushes > 100)
end)
LUA

start_controller() {
    "$TIDE" node --controller --cluster lab --name c --state state --listen "unix:$socket" --workers 0 --no-store \
        >>controller.log 2>&1 </dev/null &
    controller=$!
    started+=("$controller")
}
start_node() { # NAME
    "$TIDE" node --join "unix:$socket" --cluster lab --name "$1" >>"$1.log" 2>&1 </dev/null &
    started+=("$!")
    declare -g "pid_$1=$!"
}

start_controller
wait_for 10 test -S "$socket"
for name in n1 n2 n3; do start_node $name; done
for name in n1 n2 n3; do wait_for 10 member_is $name up; done
"$TIDE" run --cluster lab long.lua >out.txt 2>err.txt </dev/null &
driver=$!
started+=("$driver")
goes_on 30
for ((round = 1; round <= rounds; round++)); do
    kill -KILL "$controller"
    wait "$controller" 2>/dev/null
    goes_on 30 # without any controller
    began=$(date +%s%N)
    start_controller
    wait_for 10 member_is n1 up
    echo "round $round: answers $((($(date +%s%N) - began) / 1000000)) ms after its start"
    for name in n2 n3; do member_is $name up || fail "$name is not up after the restart"; done
    goes_on 30
done

timeout 60 "$TIDE" node --controller --cluster lab --name d --state state --listen "unix:$work/d.sock" --workers 0 \
    --no-store >second.txt 2>&1 </dev/null && fail "a second controller runs with the same state"
says second.txt 'another controller runs with this state'

# A restarted controller moves the rows of a node that leaves; nothing of them is lost under the load.
kill -TERM "$pid_n3"
gone() { ! kill -0 "$pid_n3" 2>/dev/null; }
wait_for 20 gone
start_node n4
wait_for 10 member_is n4 up
goes_on 30
touch stop
wait "$driver" || { fail "the run ended with $?"; tail -5 err.txt; }
says out.txt 'exact.true.true'
timeout 60 "$TIDE" run --cluster lab table.lua >made.txt 2>&1 </dev/null
says made.txt '^made$'

# A member that died while there was no controller is declared dead by the next one; a table asked for meanwhile waits.
kill -KILL "$controller" "$pid_n4"
wait "$controller" "$pid_n4" 2>/dev/null
start_controller
wait_for 15 member_is n4 dead
member_is n1 up || fail "n1 is not up at the end"

# In order: the controller goes alone, the nodes wait for it.
kill -TERM "$controller"
wait "$controller"
sleep 0.3
kill -0 "$pid_n1" || fail "n1 ended with its controller"
sed -n '1,$p' state/control.journal | head -c 8 | grep -q tidejnl || fail "the journal does not begin with its mark"

# A torn end is dropped with a note; another version and another cluster are refused.
printf 'TJNL\377\377' >>state/control.journal
start_controller
wait_for 10 member_is n1 up
says controller.log 'the last 6 bytes are a decision that was not finished'
kill -TERM "$controller"
wait "$controller"
timeout 60 "$TIDE" node --controller --cluster other --state state --workers 0 --no-store >other.txt 2>&1 </dev/null
says other.txt "has the state of cluster 'lab', not 'other'"
printf '\011' | dd of=state/control.journal bs=1 seek=8 conv=notrunc 2>/dev/null
timeout 60 "$TIDE" node --controller --cluster lab --state state --workers 0 --no-store >version.txt 2>&1 </dev/null
says version.txt 'it is of version 9, this program reads version 1'
for pid in "$pid_n1" "$pid_n2"; do kill -KILL "$pid"; done
finish
