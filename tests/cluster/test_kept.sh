#!/bin/bash
# What is kept of a run on a shared cluster: the lines of each worker by rank, time and stream, with the error first;
# files that workers and the script keep with it, models made of them, and runs that are removed by age and size.
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

# ---- artifacts ----
cat >keep.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "keep", workers = 2, params = {eps = 0.1}, worker = function(w)
  local t = tide.tensor.from("f32", {w.rank, 2, 3})
  local kept = w:artifact(("w%d.npy"):format(w.rank), t)
  print("kept", kept.name, kept.bytes)
  w:artifact("both.npz", {a = t, b = t}) -- both workers: the later one stays
  for _, bad in ipairs {"../x.npy", "a\27[2Jb<b>", ("x"):rep(10000), "\xff.npy", "noending", "", ".hidden"} do
    local ok, err = pcall(w.artifact, w, bad, t)
    assert(not ok and err.code == "T0113" and #err.message < 200 and err.state == "nothing was kept")
  end
  local ok, err = pcall(w.artifact, w, "x.txt", "/nonexistent")
  assert(not ok and err.code == "T0403", err)
  if w.rank == 1 then
    ok, err = pcall(w.artifact, w, "large.bin", "large")
    print(not ok and err.message)
  end
  while not w:stopping() do tide.sleep(0.02) w:report {examples = 1, loss = 0.5} end
end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run = cluster:start(job)
  run:artifact("script.lua", "keep.lua")
  run:wait()
end)
LUA
head -c 3000000 /dev/zero >large
"$TIDE" run --quiet --cluster lab --limit run_artifact_bytes=1048576 keep.lua >keep.txt 2>&1 </dev/null &
started+=("$!")
keeps() { "$TIDE" job artifacts keep-2 --plain </dev/null 2>/dev/null | grep -q w2.npy; }
wait_for 20 keeps || cat keep.txt
refused() { "$TIDE" job logs keep-2 --search large </dev/null 2>/dev/null | grep -q 'may keep 1 MiB'; }
wait_for 20 refused
run 0 job artifacts keep-2 --json
[ "$(grep -c '"schema":"tide.artifact/1"' out.txt)" = 4 ] || fail "four files: $(cat out.txt)"
says out.txt '"name":"w2.npy".*"rank":2'
run 0 job fetch keep-2 w2.npy --to here.npy # while the run is active
[ "$(tail -c 12 here.npy | od -An -tf4 | tr -s ' ')" = " 2 2 3" ] || fail "the file is not the tensor"
run 1 job fetch keep-2 nosuch
says err.txt 'has no artifact .nosuch.'
run 2 job fetch keep-2
run 0 job stop keep-2
run 1 job wait keep-2
run 0 job fetch keep-2 script.lua --to again.lua # from the run's directory
cmp keep.lua again.lua || fail "another file came"
run 1 job fetch keep-2 script.lua --to nowhere/x
run 0 runs artifacts last
says out.txt '^both.npz +[0-9]+ B +[12] '
ls -A .tide/runs/*/artifacts | grep -q coming && fail "a file that was refused is there"
printf x >>"$(ls .tide/runs/*/artifacts/both.npz)"
run 1 job fetch keep-2 both.npz
[ -e both.npz ] && fail "a damaged file was fetched"
if unshare -m true 2>/dev/null; then # on a full disk nothing of it stays, and what was there does
    cat >full.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "full", worker = function(w)
  w:artifact("small", "small")
  local ok, err = pcall(w.artifact, w, "small", "../large")
  print(not ok and err.message)
  w:report {examples = 1}
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
LUA
    mkdir disk
    env -u TIDE_CLUSTER unshare -m bash -c 'mount -t tmpfs -o size=1m none disk; cd disk; echo there >small
        timeout 60 "$0" run ../full.lua >../full.txt 2>&1; cat .tide/runs/*/artifacts/small
        ls -A .tide/runs/*/artifacts' "$TIDE" >left.txt
    says full.txt 'small: No space left on device'
    [ "$(cat left.txt)" = $'there\nsmall' ] || fail "a full disk: $(cat left.txt)"
fi

# ---- models ----
run 0 models
run 0 models add ranker last w1.npy --note 'first'
run 0 models add ranker last w2.npy
run 0 models list --plain --where 'eps == 0.1 and version == 2'
[ "$(wc -l <out.txt)" = 1 ] || fail "one model is of that version"
run 0 models show ranker@1
says out.txt '^params +eps=0.1$'
says out.txt '^note +first$'
run 0 models fetch ranker --to m.npy
cmp m.npy here.npy || fail "another model came"
run 1 models add ranker last nosuch
run 2 models add '../up' last w1.npy
run 1 models show rankr
says err.txt 'did you mean .ranker.'
run 2 models remove ranker
run 0 models remove ranker@1 -y
run 1 models show ranker@1
printf x >>.tide/models/ranker/2/w2.npy
run 1 models fetch ranker --to damaged.npy
says err.txt 'its sum differs'

# ---- what goes ----
run 2 runs gc
talk=$("$TIDE" runs list --json --where 'name == "talk-1"' | sed 's/.*"id":"\([^"]*\)".*/\1/')
run 0 runs tag "$talk" keep
run 0 runs gc --older 1ms -n
says err.txt 'would remove 1 of 2 runs'
[ "$(ls .tide/runs | wc -l)" = 2 ] || fail "a dry run removes runs"
artifacts=$(ls -d .tide/runs/*/artifacts) && ln -s /etc "$artifacts/link"
run 0 runs gc --size 1B
says err.txt 'removed 1 of 2 runs'
run 0 runs
says out.txt 'talk-1 +failed'
[ -e /etc/passwd ] || fail "a link was followed"
run 0 models show ranker

# A log of several parts is printed whole; a part of it begins with a whole line, and says that it is a part.
cat >long.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "long", tables = {}, worker = function(w) w:report {examples = 1} end}
tide.main(function()
  for i = 1, 3000 do print(("line %d of a log of several parts"):format(i)) end
  local cluster <close> = tide.cluster {}
  cluster:start(job):wait()
end)
LUA
run 0 submit long.lua
long=$(grep -o '^long-[0-9]*' out.txt)
run 0 job wait "$long"
run 0 job logs "$long"
[ "$(grep -c ' of a log of several parts$' out.txt)" = 3000 ] || fail "$(wc -l <out.txt) lines of the log"
cp out.txt whole.txt
run 0 job logs "$long" --last 2
tail -2 whole.txt | diff - out.txt || fail "not the last two lines"
run 0 job attach "$long"
head -1 out.txt | grep -qE '^20[0-9-]{8} [0-9:.]{12} line [0-9]+ of' || fail "half a line: $(head -1 out.txt)"
says err.txt 'of the log precede'
run 0 down lab -y
finish
