#!/bin/bash
# A scheduling policy on a running cluster: runs shrink, grow, are suspended and come back while every example counts
# once; policies are swapped, guarded by validation and rolled back; what cannot be is refused; a node and a host die.
. "$(dirname "$0")/harness.sh"
export TIDE_CLUSTER=lab

cat >count.lua <<'END'
local tide = require "tide"
local opt = tide.options {passes = {"passes", default = 1000}, name = {"of the job", default = "count"},
  lies = {"tells of speeds that cannot be", default = false}}
local job = tide.job {
  name = opt.name, data = 40, chunks = 20, stop = {epochs = opt.passes},
  tables = {t = tide.table {keys = tide.dense(10), width = 1, replicas = 1}},
  worker = function(w)
    for pass = w.passes + 1, opt.passes do
      for c in w:chunks(pass) do
        w.tables.t:push({1}, {{c.count}})
        tide.sleep(0.005)
        c:report {examples = c.count}
      end
      w:report {loss = 1 / pass, compute_s = opt.lies and -1e300 or nil}
      if w:stopping() then break end
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run = cluster:start(job)
  local examples, reports = 0, 0
  for r in run:events "report" do
    local count <const> = r.examples or 0 -- the report with which a run stops is of a part of a pass
    examples, reports = examples + count, reports + 1
    if not r.stop and count ~= 40 or count > 40 then error(("report %d has %d examples"):format(r.n, count)) end
  end
  run:wait()
  print(("sum %d of %d"):format(run.tables.t:pull({1})[1], examples))
end)
END
cat >fixed.lua <<'END'
local tide = require "tide"
local job = tide.job {name = "fixed", worker = function(w)
  while not w:stopping() do
    tide.sleep(0.02)
    w:report {examples = 1}
  end
end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  cluster:start(job):wait()
end)
END
# Equal shares; all to the newest; more than there is.
policy() {
    printf 'return {api = 1, kind = "scheduling", name = "%s", version = 1, needs = {}, every = 0.3, min_gap = 0.05,
      init = function() return {} end,
      decide = function(_, view)
        local alloc, free, n = {}, view.slots, #view.jobs
        %s
        return {alloc = alloc, why = "by %s"}
      end}\n' "$1" "$2" "$1" >"$1.lua"
}
policy equal 'for i, j in ipairs(view.jobs) do
  local s = j.preemptible == false and j.slots or math.max(math.min(view.slots // n, j.max), j.min)
  if s > free then s = 0 end
  alloc[j.id], free = {slots = s}, free - s
end'
policy newest 'for i, j in ipairs(view.jobs) do alloc[j.id] = {slots = i == n and math.min(free, j.max) or 0} end'
policy greedy 'for i, j in ipairs(view.jobs) do alloc[j.id] = {slots = 3} end'

row() { "$TIDE" jobs -a --plain </dev/null 2>/dev/null | awk -F'\t' -v n="$1" '$1 == n {print $2, $3}'; }
is() { row "$1" | grep -qE "^$2"; }
submit() { # ARGUMENTS: the run's name in $name
    run 0 submit "$@"
    name=$(grep -oE '^[a-z]+-[0-9]+' out.txt)
}
dir_of() { "$TIDE" job show "$1" </dev/null | sed -n 's/^directory[[:space:]]*//p'; }
host_of() { "$TIDE" job show "$1" --json </dev/null | grep -oE '"pid": *[0-9]+' | grep -oE '[0-9]+$'; }

run 0 up lab -n 2 -w 2
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done

# Without a policy there are no limits and no seat.
run 2 submit --min 1 --max 2 count.lua
says err.txt 'limits of slots .* are for a cluster with a scheduling policy'
run 2 policy history scheduling
says err.txt 'T0303.*no scheduling policy decides here'
run 0 policy swap equal.lua

submit count.lua
a=$name
wait_for 20 is "$a" 'running 4'
submit count.lua --name other --passes 120
b=$name
wait_for 20 is "$a" 'running 2'
wait_for 20 is "$b" 'running 2'
run 0 policy why "alloc ${a#count-}"
says out.txt 'why +by equal'

# Everything to the newest: the other one is suspended, and comes back behind it.
run 0 policy swap newest.lua
wait_for 20 is "$a" 'suspended 0'
run 0 job show "$a"
says out.txt 'newest gave its slots to others'
wait_for 30 is "$b" 'done'
wait_for 20 is "$a" 'running 4'

# A plan that gives too much is refused, and whoever had the seat before takes over.
run 0 policy swap greedy.lua
submit --min 1 --max 3 count.lua --name third --lies
c=$name
took_over() { "$TIDE" policy list </dev/null 2>/dev/null | grep -qE 'name +newest'; }
wait_for 20 took_over
run 6 policy swap greedy.lua
says err.txt 'PLAN_CAPACITY.*4 slots'
run 0 policy swap scheduling/goodput --set p=-2
run 0 policy rollback scheduling
run 0 policy list
says out.txt 'name +newest'
run 0 policy swap equal.lua
wait_for 20 is "$c" 'running 2'

# What cannot be is said at once; a run that says how many slots it takes gets so many.
run 2 submit --min 3 --max 2 count.lua
says err.txt 'min.*above.*max'
run 2 submit --sizes 7,8 count.lua
says err.txt 'no grant of the 4 slots'
run 2 submit --min 1 --max 2 fixed.lua
says err.txt 'bound to ranks'
run 0 job workers "$a" 1
wait_for 20 is "$a" 'running 1'
run 0 job stop "$c"
wait_for 20 is "$c" stopped
submit --slots 2 fixed.lua
f=$name
wait_for 20 is "$f" 'running 2'
run 1 job workers "$f" 1
says err.txt 'workers cannot change'

# A host dies, and a node in the middle of a resize: slots go to those that are left, no example is lost.
kill -KILL "$(host_of "$f")"
wait_for 20 is "$f" lost
run 0 job workers "$a" 4
pid=$(node_pid n2)
kill -KILL "$pid"
wait_for 20 is "$a" 'running [12]'
run 0 job stop "$a"
wait_for 20 is "$a" stopped
# What a lost worker pushed of an unfinished chunk comes again with it.
none_lost() { awk '/^sum / {found = $2 >= $4} END {exit !found}' "$(dir_of "$a")/out.log"; }
wait_for 10 none_lost
run 0 policy swap scheduling/fifo
submit --slots 1 fixed.lua
wait_for 60 is "$name" 'running 1'
hosts=$(host_of "$name")
sed 's/, replicas = 1//' count.lua >alone.lua # one node is left
submit --slots 1 alone.lua
wait_for 60 is "$name" 'running 1'
hosts="$hosts $(host_of "$name")"

# The end of the cluster is the end of its runs' hosts, also of one that would wait for other slots.
run 0 down lab -y
nothing_left
# shellcheck disable=SC2086 # a list
hosts_gone() { ! kill -0 $hosts 2>/dev/null; }
wait_for 20 hosts_gone
finish
