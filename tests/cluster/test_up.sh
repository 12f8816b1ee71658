#!/bin/bash
# `tide up` leaves a cluster behind, `tide down` ends all of it; taken addresses are refused.
. "$(dirname "$0")/harness.sh"

run 0 up --cluster lab -n 2
wait_for 5 test -s "$XDG_RUNTIME_DIR/tide/lab/endpoint"
[ "$(stat -c %a "$XDG_RUNTIME_DIR/tide/lab")" = 700 ] || fail "the run directory is open to others"
[ "$(wc -l <"$XDG_RUNTIME_DIR/tide/lab/pids")" = 3 ] || fail "not three processes"
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done

run 1 up --cluster lab
says err.txt 'T1002'

run 0 nodes --cluster lab
says out.txt 'n1'
says out.txt 'n2'

run 0 status --cluster lab # also what the controller takes, which has no agent
says out.txt '^c0 +up +0 +[0-9.]+ MiB'
run 0 log --cluster lab
says out.txt 'c0: node n1 .*joined'
"$TIDE" attach lab --role read -e '
    local ok, err = core.call(core.whereis "c0/control", {op = "quit"}, 5)
    return ok, err' >out.txt 2>&1 # of a session: its right counts
says out.txt 'T0801'
run 0 status --cluster lab

run 0 down lab -y
nothing_left
[ -e "$XDG_RUNTIME_DIR/tide/lab/endpoint" ] && fail "the endpoint is still there"

run 3 down lab -y
run 3 status --cluster lab

# SIGTERM: a node leaves in order, exit 0.
"$TIDE" node --controller --cluster solo --nodes 1 >out.txt 2>err.txt </dev/null &
controller=$!
started+=("$controller")
wait_for 10 test -s "$XDG_RUNTIME_DIR/tide/solo/endpoint"
endpoint=$(cat "$XDG_RUNTIME_DIR/tide/solo/endpoint")
"$TIDE" node --join "$endpoint" --cluster solo --name extra --no-store >node.txt 2>&1 </dev/null &
node=$!
started+=("$node")
joined() { "$TIDE" nodes --cluster solo --plain </dev/null 2>/dev/null | grep -q '^extra'; }
wait_for 10 joined
"$TIDE" node --join "$endpoint" --cluster solo --name extra </dev/null >twin.txt 2>&1
[ $? = 1 ] || fail "a second node of the same name joins"
"$TIDE" node --join "$endpoint" --cluster other --name x </dev/null >other.txt 2>&1
[ $? = 1 ] || fail "a node of another cluster joins"
kill -TERM "$node"
wait "$node"
code=$?
[ "$code" = 0 ] || { fail "after SIGTERM the node ends with $code"; cat node.txt; }
kill -TERM "$controller"
wait "$controller"
code=$?
[ "$code" = 0 ] || { fail "after SIGTERM the controller ends with $code"; cat err.txt; }
nothing_left

run 1 node --cluster a --listen "unix:$work/no/such/directory/socket"
touch plain
"$TIDE" node --cluster b --controller --listen tcp:127.0.0.1:0 >out.txt 2>err.txt </dev/null &
first=$!
started+=("$first")
wait_for 10 test -s "$XDG_RUNTIME_DIR/tide/b/endpoint"
run 1 node --cluster c --controller --listen "$(cat "$XDG_RUNTIME_DIR/tide/b/endpoint")"
says err.txt 'T0502'
kill -TERM "$first"
wait "$first"
nothing_left

run 3 node --join "unix:$work/nobody"
finish
