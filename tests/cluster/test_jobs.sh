#!/bin/bash
# Runs as things of a shared cluster: submitted, listed, paused, given other slots and params, stopped, lost.
. "$(dirname "$0")/harness.sh"
export TIDE_CLUSTER=lab

cat >count.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {passes = {"passes", default = 1000000}}
local job = tide.job {
  name = "count", data = 40, chunks = 8, params = {eps = 0.5},
  tables = {t = tide.table {keys = tide.dense(10), width = 1}},
  worker = function(w)
    for pass = w.passes + 1, opt.passes do
      for c in w:chunks(pass) do
        w.tables.t:push({1}, {{c.count}})
        tide.sleep(0.01)
        c:report {examples = c.count}
      end
      w:report {loss = 1 / pass, alike = {eps = w.params.eps}}
      if w:stopping() then break end
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run = cluster:start(job)
  local last, examples = nil, 0
  for r in run:events "report" do last, examples = r, examples + (r.examples or 0) end
  run:wait()
  print(("sum %d of %d, eps %g"):format(run.tables.t:pull({1})[1], examples, last.eps))
end)
LUA

run 0 up lab -n 2 -w 2
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done

run 3 submit --cluster nowhere count.lua
run 0 submit count.lua --help
says out.txt '^ +--passes N'
run 2 submit no-such.lua
run 1 submit --slots 9 count.lua
says err.txt '9 slots requested, the cluster has 4'
run 0 jobs
says_not out.txt 'count'

run 0 submit --slots 2 count.lua
says out.txt '^count-[12] is (queued|starting|running) on lab'
name=$(grep -o '^count-[0-9]*' out.txt)
run 0 submit --slots 3 count.lua --passes 3
second=$(grep -o '^count-[0-9]*' out.txt)
is() { "$TIDE" jobs -a --plain </dev/null 2>/dev/null | awk -F'\t' '{print $1, $2}' | grep -qx "$1 $2"; }
wait_for 10 is "$name" running
run 0 jobs
says out.txt "$second +queued +0 of 3"
for follower in wait attach; do
    "$TIDE" job "$follower" "$second" >/dev/null 2>"$follower.txt" </dev/null &
    started+=($!)
    wait_for 30 grep -q "^$second is queued, waits for 3 slots; 2 free, $name has 2" "$follower.txt"
done
run 0 job forecast "$second" # without a scheduling policy
says out.txt "^$second +begins in .*, ends in "
run 0 job set "$name" eps=0.25
run 2 job set "$name" epsilon=0.25 # a param that it does not have
says err.txt 'T0115'
run 2 job set "$name" eps=0,25
says err.txt 'T0113.*param `eps` is a number \(0.25\), not the string "0,25": write 0.25'
kept() { grep -q '"params":{"eps":0.25}' .tide/runs/*/run.json; }
wait_for 10 kept || fail "run.json does not list what was set"
run 1 job pause nobody
says err.txt 'T0513'

# Whose it is, and what people note about it: in the record, and in the run's directory.
run 0 job show "$name"
says out.txt "^person +$(id -un)$"
run 0 job tag "$name" baseline lr=low
says err.txt "$name has the tags baseline lr=low"
run 0 job tag "$name" baseline-
run 0 job note "$name" "the second try"
run 2 job tag "$name" "two words"
says err.txt 'T0113.*`two words` is no tag'
run 0 job show "$name"
says out.txt '^tags +lr=low$'
says out.txt '^note +the second try$'
noted() { grep -q '"note":"the second try".*"tags":\["lr=low"\]' .tide/runs/*/notes.json; }
wait_for 10 noted || fail "notes.json does not list what was noted"
run 0 runs list --where 'tags:find "lr=low"'
says out.txt "$name"
run 1 job resume "$name"
says err.txt 'T0513.*not paused'
run 2 job dance "$name"
run 2 job set "$name" eps
run 2 job workers "$name" 0
"$TIDE" job pause "$name" </dev/null >one.txt 2>&1 & # twice at once
one=$!
run 0 job pause "$name"
wait "$one" || fail "the other pause: $(cat one.txt)"
is "$name" paused || fail "it is not paused"
run 0 job show "$name"
says out.txt 'state +paused'
run 0 job pause "$name" # again: it is so
run 0 attach -e 'runs{state = "paused"}[1].name' # the prompt's
says out.txt "$name"
run 0 attach --role operate -e "r = run '$name' assert(r:resume()) return r.state"
says out.txt running
is "$name" running || fail "it does not go on"
run 4 attach --role read -e "run('$name'):stop()"
says err.txt 'T0801.*role operate'
run 1 attach -e 'run "nobody"'
says err.txt 'T0513'
run 1 attach -e "run('$name'):pause{releas = true}"
says err.txt 'T0115'

# Its slots go to the one that waits, and it continues when that has ended.
run 0 job pause "$name" --release
is "$name" suspended || fail "it has not released its slots"
wait_for 10 is "$second" done
run 0 job resume "$name" --timeout 20s
run 0 job workers "$name" 4
has_workers() { "$TIDE" job show "$name" --json </dev/null | grep -q '"workers": *4'; }
wait_for 10 has_workers
run 0 job stop "$name"
run 1 job wait "$name"
is "$name" stopped || fail "it has not stopped"
run 1 job pause "$name"
says err.txt 'T0513.*has ended'
run 0 events
says out.txt "$name: stop by $(id -un)"
run 0 job tag "$name" after-the-end
run 0 job show "$name"
says out.txt '^tags +after-the-end lr=low$'
run 0 runs tag "$name" later
run 0 runs show "$name"
says out.txt '^tags +later lr=low$'
printed() { grep -qE "$1" .tide/runs/*/out.log; }
wait_for 8 printed '^sum 120 of 120, eps 0.5'
wait_for 8 printed '^sum ([0-9]+) of \1, eps 0.25' # no example lost, none counted twice
test -s "$(dirname "$(grep -l 'eps 0.25' .tide/runs/*/out.log)")/reports.jsonl" || fail "no learning curve"
run 0 job logs "$name"
says out.txt 'worker [0-9] joins'

# A host that is killed: its run is lost, its slots are free.
begin run --cluster lab count.lua
running() { "$TIDE" jobs --plain </dev/null 2>/dev/null | grep -q running; }
wait_for 10 running
name=$("$TIDE" jobs --plain </dev/null | cut -f1)
kill -KILL "$driver"
wait_for 5 is "$name" lost
run 5 job wait "$name"
run 5 job attach "$name"
run 1 job cancel "$name" -y
says err.txt 'T0513.*lost'
run 0 run --cluster lab --no-wait --slots 4 count.lua --passes 1
says out.txt '^sum 40 of 40'
run 0 jobs
says_not out.txt running

# Tables are a run's own, and go with it.
run 0 tables
[ -s out.txt ] && grep -q count out.txt && fail "tables are left: $(cat out.txt)"
cat >sample.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "sample", tables = {
    own = tide.table {keys = tide.dense(10), width = 1},
    stays = tide.table {keys = tide.dense(10), width = 1, keep = true},
    all = tide.table {name = "everybody", keys = tide.dense(10), width = 1, shared = true},
  },
  worker = function(w)
    for _, t in pairs(w.tables) do t:push({1}, {{1}}) end
    w:report {examples = 1}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run = cluster:start(job)
  run:wait()
  print(("own %d, all %d"):format(run.tables.own:pull({1})[1], run.tables.all:pull({1})[1]))
  run:close()
  print(select(2, pcall(function() return run.tables.own end)).code)
end)
LUA
for i in 1 2 3; do
  run 0 run --cluster lab --slots 2 sample.lua
  says out.txt "^own 2, all $((2 * i))$"
  says out.txt '^T0510$'
done
run 0 tables --plain
[ "$(cut -f1 out.txt | sort | tr '\n' ' ')" = "everybody $(seq -f 'sample-%g.stays' $(($(grep -o 'sample-[0-9]*' out.txt | sort -t- -k2n | head -1 | cut -d- -f2))) 1 $(($(grep -o 'sample-[0-9]*' out.txt | sort -t- -k2n | tail -1 | cut -d- -f2))) | sort | tr '\n' ' ')" ] ||
  fail "tables: $(cat out.txt)"
run 0 table drop everybody -y
run 1 table drop everybody -y
says err.txt 'T0401'
begin run --cluster lab --slots 1 count.lua
wait_for 10 running
run 1 table drop count.t -y
says err.txt 'T0514'
run 0 table drop count.t -y --force
wait "$driver"
says err.txt 'was dropped|no table'

# What a submitted script prints, and the error that ends it, are where its run is looked at.
cat >broken.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "broken", tables = {}, worker = function(w)
  print "\27]0;title\7\27[32mgreen\27[0m"
  w:report {examples = 1}
  local x
  print(x.field)
end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  io.write("from ", "main\n")
  local run <close> = cluster:start(job)
  run:wait()
end)
LUA
run 0 submit broken.lua
name=$(grep -o '^broken-[0-9]*' out.txt)
run 1 job wait "$name"
says err.txt "$name: failed, broken.lua:6: attempt to index a nil value \\(local 'x'\\) \\(on n[12], worker broken/[1-4]\\)"
for words in "job attach $name" 'runs logs last' 'runs logs last --all' 'runs show last'; do
    # shellcheck disable=SC2086
    "$TIDE" $words >out.txt 2>err.txt </dev/null
    [ "$words" = 'runs show last' ] || says out.txt 'from main' # that shows the last lines
    says out.txt '\\x1b\]0;title\\x07'
    says out.txt 'error\[T0609\]'
    says out.txt '> broken.lua:6'
done
run 0 job logs "$name"
says out.txt $'\x1b\\[32mgreen'
says_not out.txt $'\x1b\\]'
run 0 job logs --raw "$name"
says out.txt $'\x1b\\]0;title'
for words in "job show $name" events 'runs show last' 'runs logs last --level error'; do
    # shellcheck disable=SC2086
    run 0 $words --json
    says out.txt 'broken.lua:6'
done
cat >raises.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "raises", tables = {}, worker = function(w)
  while not w:stopping() do tide.sleep(0.02) w:report {examples = 1} end
end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run <close> = cluster:start(job)
  for _ in run:events "report" do error "the script's own" end
end)
LUA
run 0 submit raises.lua
name=$(grep -o '^raises-[0-9]*' out.txt)
run 1 job attach "$name"
says out.txt "error.*the script's own"
says err.txt "failed, raises.lua:8: the script's own"

# A script without a job, here one of actors, is a run too.
cat >Ring.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {ends = {"whether it ends", default = false}}
local Ring = tide.actor {name = "ring", where = function(self) return self.node end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local group <close> = cluster:group(Ring, {}, {on = "n1"})
  print("it is on", group:call("where")[1])
  while not opt.ends do tide.sleep "50ms" end
end)
LUA
run 0 submit Ring.lua
says out.txt '^ring-[0-9]+ is running on lab'
name=$(grep -o '^ring-[0-9]*' out.txt)
run 0 jobs
says out.txt "$name +running"
run 1 job pause "$name"
says err.txt "T0513.*$name is a script without a job"
run 0 why --for 100ms
says_not err.txt error
run 0 job stop "$name"
run 1 job attach "$name"
says out.txt 'it is on.n1'
says err.txt "$name: stopped, on request"
run 0 submit --slots 1 Ring.lua --ends
run 0 job attach "$(grep -o '^ring-[0-9]*' out.txt)"
says out.txt 'warning: --slots 1 has no effect: the script started no run'
says err.txt 'ring-[0-9]+: done'
run 0 runs list --where 'job == "ring"' --plain
[ "$(wc -l <out.txt)" = 2 ] || fail "the history has not both: $(cat out.txt)"

# Drivers that have ended, and the one that was killed, are no members any more; nothing counts as down.
shows_no_driver() { "$TIDE" nodes --plain </dev/null >out.txt 2>&1 && ! grep -q '^driver' out.txt; }
wait_for 5 shows_no_driver || fail "ended drivers are members: $(cat out.txt)"
run 0 metrics --cluster lab
says out.txt 'tide_node_up\{node="n1"\} 1'
says_not out.txt 'tide_node_up.* 0$'

# The end of the cluster stops its runs, waiting ones too, and waits for their hosts.
run 0 submit --slots 4 count.lua
name=$(grep -o '^count-[0-9]*' out.txt)
wait_for 10 is "$name" running
run 0 submit --slots 2 count.lua
second=$(grep -o '^count-[0-9]*' out.txt)
wait_for 10 is "$second" queued
run 0 down lab -y
says err.txt "cluster .lab. is down, stopped $name $second"
run 0 runs list --json
for each in "$name" "$second"; do
    grep "\"$each\"" out.txt | grep -q '"state":"stopped"' || fail "$each: $(grep "\"$each\"" out.txt)"
    grep "\"$each\"" out.txt | grep -q 'the cluster was taken down' || fail "$each: $(grep "\"$each\"" out.txt)"
done
nothing_left
finish
