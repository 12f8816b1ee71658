#!/bin/bash
# Ctrl-C at random moments, once and twice, as a terminal sends it (to the whole process group): no process is left,
# and the exit code is 130. SIGTERM to one node in mid-run: it leaves in order, the run ends and says why.
. "$(dirname "$0")/harness.sh"

cat >long.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {stubborn = {"stubborn", default = false}, nodes = {"nodes", default = 2}}
local job = tide.job {
  name = "long",
  tables = {t = tide.table {keys = tide.dense(1000), width = 8}},
  worker = function(w)
    for i = 1, 100000 do
      w.tables.t:push({i % 1000}, {{1, 1, 1, 1, 1, 1, 1, 1}})
      if i == 100 then print "under way" end
      if i % 100 == 0 then w:report {examples = 100, wait = i % 300 ~= 0 and false or nil} end
      if not opt.stubborn and w:stopping() then break end
      tide.sleep(0.001)
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  cluster:start(job):wait()
  print "done"
end)
LUA

# A session of its own, so that the signal reaches all of the run and nothing of the test. A background command of a
# script ignores SIGINT from the start; the helper undoes that before it becomes tide.
in_a_session() {
    rm -f out.txt err.txt
    perl -e '$SIG{INT} = "DEFAULT"; use POSIX; POSIX::setsid(); exec @ARGV or die' "$TIDE" "$@" \
        >out.txt 2>err.txt </dev/null &
    driver=$!
    started+=("$driver")
}
has_become_tide() { [ "$(cat "/proc/$driver/comm" 2>/dev/null)" = tide ]; }
ended_by_130() {
    wait "$driver"
    local code=$?
    [ "$code" = 130 ] || { fail "$1: exit code $code, not 130"; tail -5 err.txt; }
    nothing_left
}
seed=$RANDOM
echo "seed $seed"
RANDOM=$seed
for i in 1 2 3 4 5; do
    moment=$((RANDOM % 700 + 30)) # ms; it takes about 150 to start the nodes
    in_a_session run long.lua
    wait_for 15 has_become_tide # until then nothing takes the signal
    sleep "0.$(printf %03d $moment)"
    kill -INT -- "-$driver" 2>/dev/null || kill -INT "$driver"
    ended_by_130 "one Ctrl-C after $moment ms"
    moment=$((RANDOM % 700 + 30))
    in_a_session run long.lua --stubborn
    wait_for 15 has_become_tide
    sleep "0.$(printf %03d $moment)"
    kill -INT -- "-$driver" 2>/dev/null || kill -INT "$driver"
    sleep "0.$(printf %03d $((RANDOM % 300 + 210)))"
    kill -INT -- "-$driver" 2>/dev/null
    ended_by_130 "two Ctrl-C after $moment ms"
done

# ---- while the program begins: its signals are watched for, its script is not there yet ----
cp -r "$root/lua" early
sed -i 's/^local function new_context(a)$/&\
  io.popen("kill -INT " .. io.open("\/proc\/self\/stat"):read "n"):close()\
  while core.interrupted() == 0 do core.sleep(0.001) end/' early/tide/run/driver.lua
export TIDE_LUA_PATH=$PWD/early
in_a_session run long.lua
ended_by_130 "a Ctrl-C before the script is there"
unset TIDE_LUA_PATH

# ---- while a cluster begins that would stay: nothing of it does ----
cp -r "$root/lua" begins
sed -i 's/^  return session$/  starts = (starts or 0) + 1\
  if starts == tonumber(os.getenv "INTERRUPTED_AT") then io.popen("kill -INT $PPID"):close() end\
&/' begins/tide/cluster/detached.lua
for how in "1 -n 4" "1 -n 2 --controllers 3" "$((RANDOM % 3 + 2)) -n 2 --controllers 3" "5 -n 2 --controllers 3"; do
    read -ra words <<<"$how"
    rm -rf "$XDG_RUNTIME_DIR/tide/lab"
    export TIDE_LUA_PATH=$PWD/begins INTERRUPTED_AT=${words[0]}
    in_a_session up lab "${words[@]:1}"
    ended_by_130 "up, a Ctrl-C at process $how"
    unset TIDE_LUA_PATH INTERRUPTED_AT
    says err.txt 'T0210'
    says err.txt 'what had been started was stopped'
done

# ---- one node is told to end ----
begin run long.lua --nodes 3 --stubborn
under_way() { grep -q "under way" err.txt 2>/dev/null; }
wait_for 15 under_way
kill -TERM "$(node_pid n2)"
wait "$driver"
code=$?
[ "$code" = 5 ] || fail "after SIGTERM of a node: exit code $code, not 5"
says err.txt 'T0509.*node n2 received a signal to end and leaves'
says err.txt 'its rows went to the other nodes, but its workers are gone'
nothing_left

# ---- without a run it leaves, its rows stay in the cluster ----
run 0 up --cluster lab -n 3
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
cat >fill.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "fill", tables = {t = tide.table {name = "fill.t", shared = true, keys = tide.dense(1000), width = 1}},
  worker = function(w)
    local keys, rows = {}, {}
    for i = 1, 1000 do keys[i], rows[i] = i - 1, 1 end
    if w.rank == 1 then w.tables.t:push(keys, rows) end
    w:barrier()
    w:report {sum = w.rank == 1 and w.tables.t:pull(keys):sum() or 0}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  for report in cluster:start(job):events "report" do print("sum " .. report.sum) end
end)
LUA
run 0 run --cluster lab fill.lua
says out.txt 'sum 1000\.0'
kill -TERM "$(node_pid n2)"
left() { "$TIDE" nodes --cluster lab --plain </dev/null 2>/dev/null | grep -q 'n2.*left'; }
wait_for 10 left
run 0 run --cluster lab fill.lua
says out.txt 'sum 2000\.0' # the rows of the node that left are still there
run 0 down lab -y
nothing_left
finish
