#!/bin/bash
# kill -9 of the controller of a cluster with three, under load: the run goes on, another one commands, a table is made,
# a node joins and one leaves; nothing is left running. ROUNDS=n repeats it with a cluster each and says how long there
# was no controller (median, p99).
. "$(dirname "$0")/harness.sh"
. "$(dirname "$0")/controlled.sh"
rounds=${ROUNDS:-2}
if [ ! -e "$(dirname "$TIDE")/tide_raft.so" ]; then
    timeout 30 "$TIDE" node --controllers 3 >missing.txt 2>&1 </dev/null && fail "controllers without the plugin"
    says missing.txt 'T1004'
    finish
fi

cat >long.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "long",
  tables = {t = tide.table {keys = tide.dense(400), width = 2, init = tide.zero(), update = "add"}},
  worker = function(w)
    local keys, ones = tide.range(0, 399), tide.tensor.zeros("f32", 400, 2)
    ones:fill(1)
    while not w:stopping() do
      w.tables.t:push(keys, ones)
      w:report {pushes = 1}
    end
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
  print("exact", rows:min() == rows:max(), rows:min() >= pushes, pushes > 30)
end)
LUA

logs=$XDG_RUNTIME_DIR/tide/lab
leader_of() { grep -l "this node is the controller now" "$logs"/node-c[0-9].log 2>/dev/null; }
has_leader() { [ -n "$(leader_of)" ]; }
# Milliseconds of the day, of a line of a log; and of now.
day_ms() { awk -F'[-:. ]' '{print (($4 * 60 + $5) * 60 + $6) * 1000 + $7}'; }

for ((round = 1; round <= rounds; round++)); do
    rm -f progress stop
    run 0 up -n 4 --controllers 3 --cluster lab
    outlives() { grep -q "the cluster outlives it" "$logs/node-c1.log"; }
    wait_for 10 outlives
    "$TIDE" run --cluster lab --slots 2 long.lua >run.txt 2>run-err.txt </dev/null &
    driver=$!
    started+=("$driver")
    goes_on 20
    c1=$(pids_of c1)
    began=$(TZ=UTC date "+%F %H:%M:%S.%3N" | day_ms)
    kill -KILL "$c1"
    wait_for 10 has_leader
    took=$(TZ=UTC grep -h "this node is the controller now" "$(leader_of | head -1)" | head -1 | day_ms)
    took=$((took - began))
    echo "$took" >>times
    goes_on 20
    wait_for 10 member_is c1 dead
    if [ "$round" = 1 ]; then
        timeout 60 "$TIDE" run --cluster lab table.lua >made.txt 2>&1 </dev/null
        says made.txt '^made$'
        timeout 60 "$TIDE" node --cluster lab --name n5 --join "unix:$logs/n2.sock" >n5.log 2>&1 </dev/null &
        n5=$!
        started+=("$n5")
        wait_for 10 member_is n5 up
        kill -TERM "$n5"
        wait "$n5" || fail "n5 ended with $?"
        goes_on 20
    fi
    touch stop
    wait "$driver" || { fail "the run ended with $?"; tail -5 run-err.txt; }
    says run.txt 'exact.true.true.true'
    run 0 down lab -y
    nothing_left
done
sort -n times | awk '{t[NR] = $1} END {
    printf "no controller for %d ms (median), %d ms (p99) in %d rounds\n", t[int((NR + 1) / 2)], t[int(NR * 0.99 + 0.999)], NR}'

# The same in a cluster that a script starts for itself.
cat >own.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "own",
  tables = {t = tide.table {keys = tide.dense(100), width = 1, init = tide.zero(), update = "add"}},
  worker = function(w)
    local keys, ones = tide.range(0, 99), tide.tensor.zeros("f32", 100, 1)
    ones:fill(1)
    while not w:stopping() do
      w.tables.t:push(keys, ones)
      w:report {pushes = 1}
      tide.sleep "5ms"
    end
  end,
}
local function state_of(cluster, name)
  for _, node in ipairs(cluster.nodes()) do
    if node.name == name then return node.state, node.pid end
  end
end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 1, controllers = 3}
  local run = cluster:start(job)
  for report in run:events "report" do
    if report.n == 10 then
      local _, pid = state_of(cluster, "c1")
      os.execute(("kill -KILL %d"):format(pid))
    elseif report.n > 10 and state_of(cluster, "c1") == "dead" then -- which the next controller has decided
      print("added", cluster:add_node())
      run:stop()
      break
    end
  end
  run:wait()
  local rows = run.tables.t:pull(tide.range(0, 99))
  print("exact", rows:min() == rows:max(), rows:min() > 10)
end)
LUA
run 0 run own.lua
says out.txt 'added.s1'
says out.txt 'exact.true.true'

# A stopped first controller: the kernel accepts connections to it, and it answers none. Commands enter by another one.
run 0 up -n 1 --controllers 3 --cluster lab
wait_for 10 outlives
c1=$(pids_of c1)
kill -STOP "$c1"
run 0 nodes --cluster lab
timeout 60 "$TIDE" run --cluster lab --slots 1 table.lua >made.txt 2>&1 </dev/null
says made.txt '^made$'
kill -CONT "$c1"
run 0 down lab -y
nothing_left

# Two of three at once: decisions wait, whoever asks is told so, and the rest can be ended.
run 0 up -n 1 --controllers 3 --cluster lab
wait_for 10 outlives
pids_of 'c[12]' | xargs kill -KILL
sleep 1
run 1 status --cluster lab
says err.txt 'controller is away'
run 0 down lab -y
nothing_left

# All of them: nodes with rows continue, and so do the controllers from what they had on disk.
began_with() { "$TIDE" node --cluster lab --name "$1" --listen "unix:$logs/$1.sock" --workers 0 --no-store --state "$work/state" "${@:2}"; }
run 0 up -n 2 --controllers 3 --cluster lab --state "$work/state"
wait_for 10 outlives
"$TIDE" run --cluster lab --slots 1 long.lua >run.txt 2>run-err.txt </dev/null &
driver=$!
started+=("$driver")
rm -f progress stop
goes_on 20
pids_of 'c.*' | xargs kill -KILL
sleep 1
goes_on 20
rm -f "$logs"/c[123].sock
began_with c1 --controllers 3 >c1.log 2>&1 </dev/null &
started+=("$!")
listens() { [ -S "$logs/c1.sock" ]; }
wait_for 10 listens
for c in c2 c3; do
    began_with $c --join "unix:$logs/c1.sock" >$c.log 2>&1 </dev/null &
    started+=("$!")
done
holders_are_back() { [ "$(ls "$work/state"/holder-*.log | wc -l)" -ge 2 ]; } # the third may be the run's driver
wait_for 20 holders_are_back
goes_on 20
timeout 60 "$TIDE" run --cluster "unix:$logs/n1.sock" table.lua >made.txt 2>&1 </dev/null
says made.txt '^made$'
touch stop
wait "$driver" || { fail "the run ended with $?"; tail -5 run-err.txt; }
says run.txt 'exact.true.true.true'
rm -f progress stop
run 0 submit --cluster lab --slots 1 long.lua
goes_on 20
run 0 down lab -y # ends runs, then controllers
says err.txt 'cluster .lab. is down, stopped [a-z]+-[0-9]+$'
run 0 runs show last
says out.txt 'state +stopped: the cluster was taken down'
nothing_left

# A node that cannot start ends those that could.
rm -f "$logs/n1.sock"
mkdir -p "$logs/n1.sock/occupied"
run 1 up -n 1 --controllers 3 --cluster lab
says err.txt 'node n1 ended with exit code'
nothing_left

run 2 up --controllers 4 --cluster lab
says err.txt 'T0105.*`4` is not one of 3, 5'
run 2 node --controllers 3 --join tcp:127.0.0.1:1
says err.txt 'leave out --join and --controller'
run 2 up --state state
says err.txt 'add --controllers 3'
finish
