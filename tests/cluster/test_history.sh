#!/bin/bash
# What is left of runs: listed, shown, compared and exported; drivers that are killed at any moment, and several at once.
# Trials: what is done is kept, and a sweep continues where it was.
. "$(dirname "$0")/harness.sh"

echo 'return {least = 0}' >beside.lua
cat >learn.lua <<'LUA'
local tide = require "tide"
local beside = require "beside"
local o = tide.options {rate = {"of learning", default = 0.5}, steps = {"reports", default = 20}, seed = {"seed", default = 1}}
local job = tide.job {
  name = "learn", params = {rate = o.rate}, tables = {t = tide.table {keys = tide.dense(40), width = 2}},
  worker = function(w)
    for i = 1, o.steps do
      w.tables.t:pull(tide.range(0, 39))
      if i % 5 == 0 then print("step", i) end
      if o.steps > 100 then tide.sleep "2ms" end
      w:report {examples = 100, loss = math.max(beside.least, 100 * w.params.rate / i)}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA

run 0 run learn.lua
run 0 run learn.lua --rate 0.25 --seed 3
[ "$(cat .tide/runs/*/modules/*.lua | sort -u)" = 'return {least = 0}' ] || fail "the module is not kept"
run 0 runs
says out.txt '^2.*learn-1 +done .* 20 +0.025 '
says out.txt '^2.*learn-1 +done .* 20 +0.0125 .*--rate 0.25'
mkdir twice && cd twice && cp ../beside.lua . && sed 's/^tide.main(/local function once/; s/once *function()/once()/; s/^end)$/end/' ../learn.lua >twice.lua
echo 'tide.main(function() once() once() end)' >>twice.lua
run 0 run twice.lua
[ "$(wc -l .tide/runs/*/reports.jsonl | grep -c ' 20 ')" = 2 ] || fail "runs of two clusters of a script share a directory"
cd ..
run 0 runs list --where 'rate < 0.3' --plain
[ "$(wc -l <out.txt)" = 1 ] || fail "one run has such a rate"
run 0 runs list --json --last 1
says out.txt '"rate":0.25,.*"schema":"tide.pastrun/1"'
run 0 runs show last
says out.txt '^state +done$'
says out.txt '^again +tide run learn.lua --rate 0.25 --seed 3$'
says out.txt '^loss +0.25 +0.0125 +0.25 +0.0125$'
says out.txt 'job learn finished'
last=$("$TIDE" runs list --json --last 1 | sed 's/.*"id":"\([^"]*\)".*/\1/') # names of one second are in no order
first=$(ls .tide/runs | grep -v "^$last$")
run 0 runs compare "$first" last --to loss.svg
says out.txt 'params.rate +0.5 +0.25'
says loss.svg '^<svg '
[ "$(grep -c '<polyline' loss.svg)" = 2 ] || fail "two curves are to be seen"
run 0 runs export last
says out.txt '^run,n,time,elapsed_s,examples,loss'
[ "$(wc -l <out.txt)" = 21 ] || fail "20 reports, and a line of names"
run 0 runs export last --format json
says out.txt '"reports_list":\['
run 0 runs export last --format tensorboard --to board
python3 "$root/tests/cluster/tfevents.py" board/"$last"/events.out.tfevents.* >events.txt || fail "no events"
says events.txt '^20 loss 0.0125$'
[ "$(grep -c ' loss ' events.txt)" = 20 ] || fail "20 losses"

# Bad input.
run 1 runs show nosuch
says err.txt 'there is no run `nosuch`'
run 1 runs show ../x
run 1 runs show 2
says err.txt 'matches 2 runs'
run 2 runs compare last
run 2 runs sweep
run 1 runs compare "$first" last --metric lose
says err.txt 'there are: examples, loss'
run 2 runs export last --format tensorboard
mkdir .tide/runs/damaged .tide/runs/newer
printf '{"schema":"tide.run/1","id":"da' >.tide/runs/damaged/run.json
echo '{"schema":"tide.run/9"}' >.tide/runs/newer/run.json
ln -s /etc .tide/runs/link
run 0 runs
says out.txt '^damaged +- +unreadable'
says out.txt '^newer +- +unreadable'
rm -r .tide/runs/damaged .tide/runs/newer .tide/runs/link

# Records and lines whose fields have other types or are out of range: one run is unreadable, the others are listed.
mkdir -p .tide/runs/odd/artifacts .tide/models/m/1
for field in '"started_at":1e300' '"started_at":"noon"' '"ended_at":-1' '"name":[1]' '"args":[{}]' '"error":{"where":1}'; do
    echo "{\"schema\":\"tide.run/1\",\"state\":\"done\",$field}" >.tide/runs/odd/run.json
    run 0 runs
    says out.txt '^odd +- +unreadable'
    run 0 runs show odd
    says out.txt 'run.json is damaged: `(started_at|ended_at|name|args|error)`'
done
echo '{"schema":"tide.run/1","state":"done","started_at":1e9}' >.tide/runs/odd/run.json
echo '{"schema":"tide.notes/1","tags":[1]}' >.tide/runs/odd/notes.json
printf '{"time":%s,"kind":"run","text":"begun"}\n' '"noon"' 1e300 1e9 >.tide/runs/odd/events.jsonl
printf '{"n":%s,"loss":0.5,"examples":2}\n' '"one"' 2 >.tide/runs/odd/reports.jsonl
touch .tide/runs/odd/artifacts/a .tide/models/m/1/a
echo '{"name":"a","bytes":0,"sha256":"","time":1e300}' >.tide/runs/odd/artifacts.jsonl
echo '{"schema":"tide.model/1","file":"a","bytes":0,"added_at":1e300}' >.tide/models/m/1/model.json
run 0 runs show odd
says out.txt '^reports +1$'
[ "$(grep -c 'begun$' out.txt)" = 1 ] || fail "one event of three can be read"
run 0 runs logs odd --all
run 0 runs compare odd "$first"
run 0 runs artifacts odd
run 0 models list
rm -r .tide/runs/odd .tide/models

# Three drivers at once; each is killed at some moment. All are lost, and what they reported can be read.
pids=()
for rate in 0.1 0.2 0.3; do
    "$TIDE" run learn.lua --rate $rate --steps 100000 >/dev/null 2>&1 </dev/null &
    pids+=($!)
    started+=($!)
done
going() {
    "$TIDE" runs list --where 'state == "running"' --plain 2>/dev/null </dev/null | cut -f1 >going.txt
    [ "$(wc -l <going.txt)" = 3 ]
}
wait_for 60 going
reported() {
    local id
    while read -r id; do [ -s ".tide/runs/$id/reports.jsonl" ] || return 1; done <going.txt
}
wait_for 60 reported
for pid in "${pids[@]}"; do
    kill -KILL "$pid"
    sleep "0.0$((RANDOM % 10))"
done
wait "${pids[@]}" 2>/dev/null # they were killed
run 0 runs list --where 'state == "lost"' --plain
[ "$(wc -l <out.txt)" = 3 ] || fail "three runs are lost"
for id in $(cut -f1 out.txt); do
    printf '{"n":7' >>".tide/runs/$id/reports.jsonl" # as cut off by the kill
    run 0 runs show "$id"
    says out.txt '^state +lost: its driver is gone$'
    says out.txt '^reports +[1-9]'
    run 0 runs logs "$id" --all --last 3
done

# Trials.
cat >sweep.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "t", params = {a = 1, b = 1}, tables = {},
  worker = function(w)
    if w.params.a == 3 and w.params.b == 2 then error "this one fails" end
    for i = 1, 9 do w:report {examples = 1, loss = w.params.a * w.params.b / i} end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local bad, err = pcall(tide.trials, {cluster = cluster, job = job, space = {c = {1}}})
  print(bad, err.message)
  bad, err = pcall(tide.trials, {cluster = cluster, job = job, space = {a = tide.trials.uniform(1, 2)}})
  print(bad, err.message)
  print(tide.trials {cluster = cluster, job = job, space = {a = {3, 1, 2}, b = {2, 1}}, record = "t.jsonl"})
  local h = tide.trials {cluster = cluster, job = job, space = {a = tide.trials.whole(1, 9)}, search = "halving",
                         count = 9, reports = 9, parallel = 1, seed = 4}
  local whole, stopped = 0, 0
  for _, row in ipairs(h.rows) do
    if row.state == "stopped" then stopped = stopped + 1 end
    if row.reports == 9 then whole = whole + 1 end
    assert(h.best.score <= row.score)
  end
  print("halving", whole + stopped, stopped > 2)
end)
LUA
run 0 run sweep.lua
says out.txt '^false.tide.trials: job `t` has no param `c`$'
says out.txt '^false.tide.trials: a grid has lists of values: `space.a` is a range$'
says out.txt '^ +1 +3 +2 +failed '
says out.txt '^ +4 +1 +1 +done +9 +0.111111 +<- best$'
says out.txt '^halving.9.true$'
[ "$(wc -l <t.jsonl)" = 6 ] || fail "six trials are kept"
sed -i 3q t.jsonl # it was interrupted after three
run 0 run sweep.lua
says err.txt 'trials are done already \(t.jsonl\)'
[ "$(grep -c '"state":"done"' t.jsonl)" = 5 ] || fail "five trials are done in the end"
run 0 sim --seed 4 sweep.lua
says out.txt '<- best$'

# The example.
run 0 sim "$root/examples/sweep.lua" --seed 1
says out.txt '^best: rate 0.1204, batch 10, loss 0.1010$'
run 0 run "$root/examples/sweep.lua" --search grid
says out.txt '^best: rate 1, batch 40, loss 0.0'
nothing_left
finish
