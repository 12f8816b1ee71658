#!/bin/bash
# Logs with dates, as JSON, rotated, merged; `tide doctor`, line by line; the timeline of decisions.
. "$(dirname "$0")/harness.sh"

cat >talk.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "talk", batch = 40, policies = {batching = "batching/equal"},
  worker = function(w)
    for i = 1, 6 do
      if i == 3 then tide.log("warn", "half", "way") end
      print("step", i)
      tide.sleep "5ms"
      w:report {examples = w.batch, loss = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA
run 0 run talk.lua
run 0 runs logs last --all
says out.txt '^20[0-9-]{8} [0-9:.]{12}  warn   n1: .*half way$'
says out.txt '^20[0-9-]{8} [0-9:.]{12}  info   run: \[n2 #[12]\] step'
says out.txt 'run: job talk finished'
LC_ALL=C sort -c -s -k1,2 out.txt || fail "the lines are not in the order of time"
run 0 runs logs last --level warn --node n1
says out.txt 'half way'
says_not out.txt 'step'
run 0 runs logs last --level warn --json
says out.txt '"level":"warn".*"schema":"tide.log/1"'
run 0 runs logs last --all --since 1us
[ -s out.txt ] && fail "nothing is so new"
run 0 runs logs last --all --rank 1 --search STEP
[ "$(grep -c 'info   run: \[n[12] #1\] step' out.txt)" = 6 ] || fail "the lines of worker 1: $(cat out.txt)"
[ "$(wc -l <out.txt)" = 6 ] || fail "other lines too"
run 0 runs logs last --last 2
[ "$(wc -l <out.txt)" = 2 ] || fail "not the last two lines: $(cat out.txt)"
run 1 runs logs nosuch --all
run 2 runs logs last --level loud
run 2 runs tag last draft --dry-run
says err.txt 'it is for gc'
run 2 log --level loud
run 2 log --run last
says err.txt 'printed by `tide runs logs RUN`'

# Followed until the run ends, in both forms.
cat >slow.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "slow", worker = function(w)
  print "has begun"
  while not io.open "go" do tide.sleep "10ms" end
  print "has ended"
  w:report {examples = 1}
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
LUA
"$TIDE" run -q slow.lua >/dev/null 2>slow.txt </dev/null &
slow=$!
started+=("$slow")
begun() { "$TIDE" runs logs slow 2>/dev/null </dev/null | grep -q 'has begun'; }
wait_for 30 begun
"$TIDE" runs logs slow -f >plain.txt 2>&1 </dev/null &
plain=$!
"$TIDE" runs logs slow -f --all --last 1 >all.txt 2>&1 </dev/null &
all=$!
started+=("$plain" "$all")
wait_for 30 grep -q 'has begun' plain.txt
wait_for 30 test -s all.txt
touch go
wait "$plain" || fail "the follower ended with $?"
wait "$all" || fail "the follower of all ended with $?"
wait "$slow" || fail "slow.lua ended with $?: $(cat slow.txt)"
for file in plain.txt all.txt; do
    says "$file" 'has ended$'
    [ "$(grep -c 'has ended$' "$file")" = 1 ] || fail "a line twice: $(cat $file)"
done

# JSON on request, which is read as well.
export TIDE_LOG=json
run 0 run talk.lua
unset TIDE_LOG
cp ".tide/runs/$(sed -n 's/^tide: run \([^ ]*\) took.*/\1/p' err.txt)/node-n1.log" node.log
says node.log '^\{"time":"20[0-9-]{8}T[0-9:.]{12}Z","level":"warn","node":"n1","text":".*half way"\}$'
run 0 runs logs last --level warn --node n1
says out.txt 'half way$'
TIDE_LOG=loud "$TIDE" nodes 2>err.txt && fail "a form of logs that there is not"
says err.txt 'TIDE_LOG'

# Files are moved on by size; texts of any bytes are one line of valid JSON.
cat >rotate.lua <<'LUA'
local tide, core = require "tide", require "tide.core"
tide.main(function()
  assert(core.log_rotate(1, 2) == false) -- nothing is there yet
  for i = 1, 4 do
    tide.log("warn", ("file %d \"quoted\" back\\slash \xff\xe2\x82\xac \1"):format(i))
    assert(core.log_rotate(10, 2) == true)
    assert(core.log_rotate(1 << 20, 2) == false)
  end
  tide.log("warn", "the last")
end)
LUA
TIDE_LOG=json "$TIDE" run -q rotate.lua 2>kept.log || fail "rotate.lua ended with $?"
says kept.log 'the last'
says kept.log.1 'file 4 '
says kept.log.2 'file 3 '
[ -e kept.log.3 ] && fail "two older files are kept"
python3 -c 'import json; [print(json.loads(l)["text"]) for l in open("kept.log.1")]' >text.txt || fail "no JSON"
says text.txt 'file 4 "quoted" back.slash \?€ \?$'

# A cluster's, followed.
run 0 up --cluster lab -n 1
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
run 0 log --cluster lab
run 124 log --cluster lab -f --level error --timeout 1s

# Doctor.
run 0 doctor
says out.txt '^ok +version +tide '
says out.txt '^(ok|warn) +BLAS '
says out.txt '^ok +run directory +'
says out.txt '^(ok|warn) +free space +[0-9.]+ [KMGT]iB in '
(ulimit -l 64 && "$TIDE" doctor --plain >locked.txt)
says locked.txt '^warn.locked memory.64 KiB.ulimit -l'
run 0 doctor --json
says out.txt '"check":"open files","schema":"tide.check/1","status":"ok"'
run 0 doctor --cluster lab
says out.txt '^ok +node n1 +round trip .*, clock [+-]'
(ulimit -n 100 && "$TIDE" doctor --plain >few.txt) && fail "so few files are a failure"
says few.txt '^fail.open files.100.ulimit -n'
mkdir open && chmod 0777 open
XDG_RUNTIME_DIR=$work/open "$TIDE" doctor --plain >shared.txt
/usr/bin/python3 -c '
import socket, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print(s.getsockname()[1], flush=True)
time.sleep(60)' >port.txt &
busy=$!
started+=("$busy")
wait_for 5 test -s port.txt
run 1 doctor --listen "tcp:127.0.0.1:$(cat port.txt)"
says out.txt '^FAIL +address +.*(in use|EADDRINUSE)'
kill "$busy"
wait "$busy" 2>/dev/null
run 2 doctor --listen tcp:127.0.0.1:1 --cluster lab
"$TIDE" down lab -y >/dev/null 2>&1

# What policies decided.
run 0 policy timeline --run last
says out.txt 'batching of talk  equal v[0-9]+: load'
says out.txt '^ +observed +.*clock [0-9]+, 2 workers'
says out.txt '^ +proposed +batch=\{'
run 0 policy timeline batching/boa --run last
says out.txt '^ +observed '
run 0 policy timeline batching/boa --run last --json
says out.txt '"differs":(true|false),.*"schema":"tide.decision/1".*"view":\{'
run 1 policy timeline --run nosuch
run 2 policy timeline --run last --journal x
last=$("$TIDE" runs list --last 1 --json </dev/null | grep -oE '"directory": *"[^"]*"' | cut -d'"' -f4)
printf 'x' >>"$last/policies-talk.journal"
run 0 policy timeline --run last
says err.txt 'is cut off'
finish
