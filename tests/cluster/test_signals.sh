#!/bin/bash
# Signals are heard whatever the threads of a driver do: in native operations, in a loop of the script, in the queue for
# slots, behind a worker that never reports. What can be saved is saved, and no process is left.
. "$(dirname "$0")/harness.sh"

# A background command of a script ignores SIGINT; in a group of its own, as a terminal or `timeout` has it.
in_a_group() {
    rm -f out.txt err.txt
    perl -e '$SIG{INT} = "DEFAULT"; use POSIX; POSIX::setsid(); exec @ARGV or die' "$TIDE" "$@" \
        >out.txt 2>err.txt </dev/null &
    driver=$!
    started+=("$driver")
}
is_up() { grep -q "UP" out.txt err.txt 2>/dev/null; }
is_gone() { ! kill -0 "$driver" 2>/dev/null; }
ends_with() { # CODE WHAT
    wait_for 20 is_gone
    wait "$driver"
    local code=$?
    [ "$code" = "$1" ] || { fail "$2: exit code $code, not $1"; tail -5 err.txt; }
    nothing_left
}

cat >busy.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {how = {"what the driver does", default = "lua"}}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local T = tide.tensor
  local a, c = T.zeros("f32", 3000, 3000):fill(1), T.zeros("f32", 3000, 3000)
  local b = T.zeros("f64", 100000, 1)
  print "UP"
  while opt.how == "lua" do a = a end
  while opt.how == "long" do c:matmul(a, a) end
  while opt.how == "many" do b:map "exp(tanh(x)) + 1" end
end)
LUA
for how in long many; do
    in_a_group run busy.lua --how $how
    wait_for 15 is_up
    kill -INT -- "-$driver"
    sleep 0.3
    kill -INT -- "-$driver"
    ends_with 130 "Ctrl-C twice in native operations ($how)"
    says err.txt 'interrupted twice: killed'
done
in_a_group run busy.lua
wait_for 15 is_up
kill -TERM "$driver"
ends_with 130 "SIGTERM in a loop of the script"
says err.txt 'SIGTERM: the script did not end by itself'

# ---- a run: as Ctrl-C once, by SIGHUP too, and a signal to process and group is one ----
cat >train.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "train", checkpoint = {dir = "ckpt", every = "1h"},
  tables = {t = tide.table {keys = tide.dense(10), width = 1, update = "add"}},
  worker = function(w)
    print "UP"
    while not w:stopping() do
      w.tables.t:push({1}, {{1}})
      tide.sleep(0.02)
      w:report {examples = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
LUA
for signal in TERM HUP; do
    rm -rf ckpt .tide
    in_a_group run train.lua
    wait_for 15 is_up
    kill -$signal "$driver"
    kill -$signal -- "-$driver" # as `timeout` does
    ends_with 130 "SIG$signal in a run"
    says err.txt "SIG$signal: stopping at the next report"
    says_not err.txt 'twice'
    [ -n "$(ls ckpt 2>/dev/null)" ] || fail "SIG$signal: nothing was saved"
    run 0 runs list --plain
    says out.txt 'stopped'
done

# ---- a worker that never reports is named, and ended when the grace is over ----
cat >stuck.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "stuck", worker = function(w)
  for i = 1, 100 do
    if w.rank == 2 and i == 2 then
      print "UP"
      while true do w = w end
    end
    w:report {}
  end
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA
in_a_group run --grace 1s stuck.lua
wait_for 15 is_up
kill -INT "$driver"
ends_with 130 "Ctrl-C in a run with a worker that loops"
says err.txt 'it did not stop in time: worker 2 on n[12]'

# ---- a run that waits for slots ----
run 0 up lab -n 1 -w 1
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
run 0 submit --cluster lab train.lua
in_a_group run --cluster lab train.lua
queued() { grep -q "waits" err.txt 2>/dev/null; }
wait_for 15 queued
kill -TERM "$driver"
wait_for 20 is_gone
wait "$driver"
[ $? = 130 ] || fail "SIGTERM of a queued run: another exit code than 130"
says err.txt 'interrupted while run train-2 waited for slots'
says_not err.txt 'bad argument'
run 0 job stop train-1 --cluster lab
run 0 down lab -y
nothing_left
finish
