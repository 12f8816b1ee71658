#!/bin/bash
# Whatever a script or command waits for or computes, --timeout, Ctrl-C and the end of its cluster's controller end it,
# with the exit codes that the documentation names. Nothing here would end by itself within the test's time, so an end
# with the right code and message is the proof, however long a busy machine takes for it.
. "$(dirname "$0")/harness.sh"

cat >main.lua <<'END'
local tide = require "tide"
local what <const> = tide.options({what = {"what it does", default = "loop"}}).what
if what == "load" then while true do end end
local job = tide.job {name = "j", on_report = function() while what == "report" do end end,
                      worker = function(w) while what == "worker" do end w:report {a = 1} end}
tide.main(function()
  if what == "read" then io.read "a" elseif what == "exec" then os.execute "sleep 9" end
  while what == "loop" do end
  if what == "sleep" then tide.sleep "1h" end
  local c <close> = tide.cluster {nodes = 1}
  c:start(job):wait()
end)
END
mkfifo input
sleep 60 >input & # holds it open: who reads waits
started+=($!)
for what in load loop sleep exec read report worker; do
    (timeout -k 5 100 "$TIDE" --timeout 1s run main.lua --what $what >out.$what 2>err.$what <input; echo $? >rc.$what) &
    pids+=($!)
done
for what in load loop sleep report worker; do
    (timeout -k 5 100 "$TIDE" --timeout 1s sim --seed 1 main.lua --what $what >out.sim.$what 2>err.sim.$what; echo $? >rc.sim.$what) &
    pids+=($!)
done
wait "${pids[@]}"
for file in rc.*; do
    [ "$(cat $file)" = 124 ] || fail "$file: exit code $(cat $file), not 124"
    says "err.${file#rc.}" 'T0507.*--timeout'
done
[ -z "$(node_pids)" ] || fail "nodes are left: $(node_pids)"

# Ctrl-C.
run 0 up lab -n 2
interrupt() { # interrupt CODE COUNT COMMAND...
    local expected=$1 count=$2
    shift 2
    "$TIDE" "$@" >out.txt 2>err.txt <input &
    driver=$!
    started+=("$driver")
    sleep 1
    for _ in $(seq "$count"); do
        kill -INT "$driver"
        sleep 0.2
    done
    wait "$driver"
    local code=$?
    [ $code = "$expected" ] || fail "tide $*: Ctrl-C ended it with $code, not $expected"
}
interrupt 130 1 stat --cluster lab --every 100s
interrupt 130 1 links --cluster lab --watch 100s
interrupt 130 1 trace out.json --cluster lab --for 100s
[ -s out.json ] || fail "what was recorded until Ctrl-C is not there"
interrupt 130 2 run main.lua --what read
run 124 --timeout 1s trace out.json --cluster lab --for 100s

# The controller of the cluster is killed.
cat >long.lua <<'END'
local tide = require "tide"
local what <const> = tide.options({what = {"what main does", default = "wait"}}).what
local job = tide.job {name = "j", tables = {t = tide.table {keys = tide.dense(9), width = 1}},
  worker = function(w) while not w:stopping() do tide.sleep "20ms" w.tables.t:push({1}, {{1}}) w:report {a = 1} end end}
tide.main(function()
  local c <close> = tide.cluster {}
  local run = c:start(job)
  for r in run:events "report" do if r.n == 2 then break end end
  print "begun"
  if what == "wait" then run:wait() elseif what == "sleep" then tide.sleep "1h" else while true do end end
end)
END
for what in wait sleep loop; do
    begin run --cluster lab long.lua --what $what
    for _ in $(seq 100); do grep -q begun out.txt && break; sleep 0.05; done
    kill -KILL "$(sed -n 1p "$XDG_RUNTIME_DIR/tide/lab/pids" | cut -d' ' -f1)"
    wait "$driver"
    code=$?
    [ $code = 5 ] || fail "main in $what: the run of a cluster whose controller is killed ends with $code"
    says err.txt 'T0509.*controller is gone'
    "$TIDE" down lab -y >/dev/null 2>&1
    [ $what = loop ] || run 0 up lab -n 2
done
finish
