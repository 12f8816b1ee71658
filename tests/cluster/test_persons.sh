#!/bin/bash
# Shares of persons on a running cluster: limits without a policy, shares changed live, and slot hours by week and run.
. "$(dirname "$0")/harness.sh"
export TIDE_CLUSTER=lab
me=$(id -un)

cat >long.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "long", worker = function(w)
  while not w:stopping() do tide.sleep(0.05) w:report {examples = 1} end
end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run = cluster:start(job)
  run:wait()
end)
LUA
echo "return {half_life = '1h', persons = {['$me'] = {weight = 2, slots = 2}}}" >shares.lua

run 0 up lab -n 1 -w 3
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
run 0 shares
says err.txt 'no person has had slots yet'
echo "return {persons = {['$me'] = {wieght = 2}}}" >bad.lua
run 2 shares set bad.lua
says err.txt 'T0115.*has no field `wieght`'
says err.txt 'did you mean `weight`'
run 1 shares set missing.lua
run 2 shares set
run 2 shares dance
sed -n '/^```lua/,/^```/p' "$root/docs/guides/shares.md" | sed '1d;$d' >page.lua # the file of the guide
run 0 shares set page.lua
run 0 shares --json
says out.txt '"name":"alice".*"slots_max":16'
run 0 shares set shares.lua

# Without a policy its person's limit keeps a run waiting, though a slot is free; with other shares it starts.
run 0 submit --slots 2 long.lua
run 0 submit --slots 1 long.lua
is() { "$TIDE" jobs -a --json </dev/null 2>/dev/null | grep "\"name\":\"$1\"" | grep -q "\"state\":\"$2\""; }
wait_for 20 is long-1 running
wait_for 10 is long-2 queued
run 0 jobs --json
says out.txt "$me has 2 of at most 2 slots, and this run takes 1"

# Of a person's runs that wait one of a higher priority is served first; the others say behind which they wait.
run 0 submit --slots 3 --priority 5 long.lua
wait_for 10 is long-3 queued
run 0 job priority long-2 2
says err.txt "long-2 has the priority 2 among the runs of its person"
run 2 job priority long-2 high
run 2 job priority long-2 5000
run 0 job show long-2
says out.txt '^priority +2$'
# The limits of a group hold for its members together; what contradicts them is refused.
echo "return {groups = {g = {slots = 2}}, persons = {['$me'] = {group = 'g', slots = 3}}}" >wrong.lua
run 2 shares set wrong.lua
says err.txt "persons.$me: .slots. = 3 contradicts its group, which may have 2"
echo "return {groups = {g = {slots = 2}}, persons = {['$me'] = {group = 'g'}}}" >group.lua
run 0 shares set group.lua
held_by_group() { "$TIDE" job show long-2 </dev/null 2>/dev/null | grep -q 'group g has 2 of at most 2 slots'; }
wait_for 10 held_by_group
echo "return {}" >nobody.lua # a person who is removed keeps the runs that have slots
run 0 shares set nobody.lua
run 0 job show long-1
says out.txt '^state +running'
behind() { "$TIDE" job show long-2 </dev/null 2>/dev/null | grep -q 'waits behind long-3, which is next'; }
wait_for 10 behind
run 0 shares set shares.lua
run 0 job cancel long-3 -y
wait_for 10 is long-2 queued
run 0 shares
says out.txt "^$me +- +2 +0 +2 +2 +1 "
run 0 shares clear
wait_for 20 is long-2 running

# Under the policy: what each has is said with the person's share.
run 0 shares set shares.lua
run 0 policy swap scheduling/fair
run 0 policy history scheduling
says out.txt "^by +$me$"
run 0 shares --json
says out.txt '"half_life_s":3600'
run 0 job stop long-1
run 0 job stop long-2
wait_for 20 is long-2 stopped
run 0 accounts --by run
says out.txt "^[0-9]{4}-W[0-9]{2} +$me +long-1 +1 +0\.0[0-9]*[1-9]"
run 0 accounts
says out.txt "^[0-9]{4}-W[0-9]{2} +$me +- +2 +"

# A run ends with its time, which counts from the moment it has its slots.
run 0 submit --slots 1 --time 2h long.lua
run 2 job time long-4 soon
says err.txt 'T0104.*is no time'
run 2 job time long-4 0 # elsewhere it means no limit; the run would stop at once
says err.txt 'T0104.*is no time'
run 2 submit --time 0 long.lua
run 0 job show long-4
says out.txt '^time +2h 00m at most$'
wait_for 20 is long-4 running
run 0 job time long-4 1s
wait_for 30 is long-4 stopped
run 0 job show long-4
says out.txt '^state +stopped, (stop: )?its time is over$'
run 0 down lab -y
finish
