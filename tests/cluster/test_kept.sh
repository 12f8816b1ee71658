#!/bin/bash
# What is kept of a run on a shared cluster: the lines of each worker by rank, time and stream, with the error first.
. "$(dirname "$0")/harness.sh"
export TIDE_CLUSTER=lab

cat >talk.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "talk", workers = 2, worker = function(w)
  print("step of", w.rank)
  io.write("in two ", "pieces\nand a second line\n")
  io.stderr:write("warning of ", w.rank, "\n")
  w:report {examples = 1}
  if w.rank == 2 then io.write "without an end" end
  if w.rank == 1 then return end
  error "boom"
end}
tide.main(function()
  print "said by the script"
  io.stderr:write "warned by the script\n"
  local cluster <close> = tide.cluster {}
  cluster:start(job):wait()
end)
LUA

run 0 up lab -n 2
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
run 0 submit talk.lua
run 1 job wait talk-1

# What was printed, by rank, stream and text; of the script itself as rank 0.
lines() { # ARGUMENTS..: the lines without times and nodes in lines.txt
    run 0 "$@"
    sed -E 's/^[0-9-]+ [0-9:.]+ //; s/^\[n[12] /[n /' out.txt >lines.txt
}
lines job logs talk-1 --rank 1
printf '%s\n' '[n #1] step of	1' '[n #1] in two pieces' 'and a second line' '[n #1 err] warning of 1' >expected.txt
diff expected.txt lines.txt || fail "the lines of worker 1"
lines job logs talk-1 --rank 0
says lines.txt '^said by the script$'
says lines.txt '^\[err\] warned by the script$'
grep -q 'step of' lines.txt && fail "a worker's line is said to be the script's"
lines job logs talk-1 --stderr --rank 2
says lines.txt '^\[n #2 err\] warning of 2$'
says lines.txt '^\[n #2 err\] error\[T0609\]: on n[12]'
says lines.txt '^  --> talk.lua:9$'
grep -q 'pieces' lines.txt && fail "standard output is said to be standard error"
lines job logs talk-1 --rank 2
says lines.txt '^\[n #2\] without an end$'
lines job logs talk-1 --search 'A SECOND'
[ "$(grep -c 'in two pieces' lines.txt)" = 2 ] || fail "a line that is found says whose it is"
[ "$(wc -l <lines.txt)" = 4 ] || fail "other lines are found too"
run 0 job logs talk-1 --since 1h --search boom
[ -s out.txt ] || fail "nothing since an hour"
run 1 job logs talk-1 -f --search boom # follows to the end, whose exit code it has
run 2 job logs talk-1 --rank -1
lines runs logs last --rank 1
diff expected.txt lines.txt || fail "the lines of worker 1 from the run's directory"
run 1 runs logs nosuch
run 2 runs logs last last

# Why a run failed comes first.
run 0 jobs -a
says out.txt 'talk-1 +failed .*talk.lua:9: boom'
run 0 job show talk-1
[ "$(sed -n 2p out.txt | cut -c1-29)" = "error      talk.lua:9: boom (" ] || fail "the error is not first: $(cat out.txt)"
run 0 runs show last
[ "$(sed -n 2p out.txt)" = "error      T0609 talk.lua:9: boom" ] || fail "the error is not first: $(cat out.txt)"
run 0 down lab -y
finish
