#!/bin/bash
# Where things are: run directories that cannot be used or are long, clusters by address, files that cannot be written or
# are pipes, and two that start one cluster.
. "$(dirname "$0")/harness.sh"

cat >count.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "c", tables = {t = tide.table {keys = tide.dense(1), width = 1}},
  worker = function(w) w.tables.t:push({0}, {{1}}) w:report {} end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
  print "COUNTED"
end)
LUA

# ---- run directories ----
XDG_RUNTIME_DIR=$work/missing run 0 run count.lua
says err.txt "XDG_RUNTIME_DIR=.*missing is no directory: /tmp/tide-"
says out.txt COUNTED
for length in 40 62 120; do
    directory=$work/$(printf 'd%.0s' $(seq $((length - ${#work} - 1))))
    [ ${#work} -lt $((length - 1)) ] || continue
    mkdir -p "$directory"
    XDG_RUNTIME_DIR=$directory run 0 run count.lua
    [ -z "$(ls "$directory/tide" 2>/dev/null)" ] || fail "a directory of $length bytes: $(ls "$directory/tide") is left"
done
cluster=$(printf 'c%.0s' $(seq 63))
begin node --controller --cluster "$cluster" --name "$(printf 'n%.0s' $(seq 63))" --workers 0 --no-store
wait_for 10 test -s "$XDG_RUNTIME_DIR/tide/$cluster/endpoint"
run 0 status --cluster "$cluster"
run 0 status --cluster "$(cat "$XDG_RUNTIME_DIR/tide/$cluster/endpoint")"
kill "$driver"
wait "$driver"

all_nodes_ended() { [ -z "$(node_pids)" ]; }
# ---- what killed processes have left goes with the next start; what lives stays ----
sed 's/tide.main(function()/tide.main(function()\n  tide.cluster {nodes = 1}; tide.sleep(60)/' count.lua >sleep.lua
begin run sleep.lua
wait_for 20 grep -q "tide: cluster run-" err.txt
dead=$(ls "$XDG_RUNTIME_DIR/tide" | grep '^run-')
wait_for 10 test -s "$XDG_RUNTIME_DIR/tide/$dead/pids"
kill -KILL "$driver"
wait "$driver" 2>/dev/null
wait_for 10 all_nodes_ended
run 0 up stays -n 1
ls "$XDG_RUNTIME_DIR/tide/$dead" | grep -q sock || fail "the killed run has left no socket, so this tests nothing"
touch -d "2 minutes ago" "$XDG_RUNTIME_DIR/tide/$dead" "$XDG_RUNTIME_DIR/tide/stays"
run 0 run count.lua
[ ! -e "$XDG_RUNTIME_DIR/tide/$dead" ] || fail "a killed run has left $(ls "$XDG_RUNTIME_DIR/tide/$dead")"
run 0 status --cluster stays
run 0 down stays -y

# ---- clusters by address, and first nodes ----
begin node --cluster lab --name first --listen tcp:localhost:0
wait_for 10 test -s "$XDG_RUNTIME_DIR/tide/lab/endpoint"
endpoint=$(cat "$XDG_RUNTIME_DIR/tide/lab/endpoint")
run 0 status --cluster "$endpoint"
run 0 status --cluster "${endpoint/127.0.0.1/localhost}"
run 0 nodes --cluster lab --plain
says out.txt '^first'
run 2 node --cluster lab
says err.txt "cluster .lab. runs already"
says err.txt "--join $endpoint"
kill "$driver"
wait "$driver"
[ ! -e "$XDG_RUNTIME_DIR/tide/lab/endpoint" ] || fail "a node that ended is still published"

# ---- two that start one cluster: one wins ----
"$TIDE" up twice -n 1 >one.txt 2>&1 &
one=$!
"$TIDE" up twice -n 1 >two.txt 2>&1 &
two=$!
wait $one; first=$?
wait $two; second=$?
[ $((first == 0)) != $((second == 0)) ] || fail "tide up twice at once: $first and $second: $(cat one.txt two.txt)"
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/twice/pids"); do started+=("$pid"); done
run 0 nodes --cluster twice --plain
[ "$(grep -c 'up' out.txt)" = 2 ] || fail "both started nodes: $(cat out.txt)"
run 0 down twice -y

# ---- a run's cluster is found by the name it prints, and ends with it ----
cat >long.lua <<'LUA'
local tide = require "tide"
tide.main(function() local cluster <close> = tide.cluster {nodes = 1} print "LONG" tide.sleep(20) end)
LUA
begin run long.lua
began() { grep -q LONG out.txt 2>/dev/null; }
wait_for 15 began
name=$(sed -n 's/^tide: cluster \([^,]*\),.*/\1/p' err.txt)
timeout 20 "$TIDE" nodes --cluster "$name" --plain >nodes.txt 2>&1 || fail "no cluster $name: $(cat nodes.txt)"
timeout 20 "$TIDE" down "$name" -y >down.txt 2>&1 && fail "tide down ended a run"
says down.txt 'belongs to run'
kill -INT "$driver"
sleep 0.3
kill -INT "$driver" # now
wait "$driver"

# ---- output and pipes ----
"$TIDE" run count.lua >/dev/full 2>err.txt && fail "a script's output was lost with exit code 0"
says err.txt 'output could not be written'
timeout 40 "$TIDE" run <(cat count.lua) >out.txt 2>err.txt || fail "a script from a pipe: $(tail -3 err.txt)"
says out.txt COUNTED
run 0 run count.lua
says err.txt 'again: tide run count.lua'

# ---- half a pair of files, and files of others ----
cat >images.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {data = {"directory", type = "string"}}
tide.main(function() print(tide.data.images(opt.data).note) end)
LUA
mkdir half exchanged
printf '\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\1\7\9' >half/train-images-idx3-ubyte
printf '\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\1\7\1' >half/train-images-idx3-ubyte
cp half/train-images-idx3-ubyte exchanged/train-labels-idx1-ubyte
printf '\0\0\10\1\0\0\0\2\1\2' >exchanged/train-images-idx3-ubyte
run 1 run images.lua --data half
says err.txt 'there is no file of labels for it'
run 1 run images.lua --data exchanged
says err.txt 'expected images'
printf 'a b\n' | gzip >words.gz
cat >words.lua <<'LUA'
local tide = require "tide"
tide.main(function() print(tide.data.text("words.gz").note) end)
LUA
run 0 run words.lua
says out.txt '3 tokens, 3 words'
(
    umask 022
    printf 'local tide = require "tide"\ntide.main(function() tide.chart.write("c.svg", {{title = "t", series = {{name = "s", points = {{1, 2}, {2, 3}}}}}}) end)\n' >chart.lua
    run 0 run chart.lua
)
[ "$(stat -c %a c.svg)" = 644 ] || fail "c.svg has mode $(stat -c %a c.svg), the umask says 644"
nothing_left
finish
