#!/bin/bash
# A run that has ended is resumed by its name, from its newest checkpoint; what cannot be is refused with what to do.
. "$(dirname "$0")/harness.sh"
export PWD

cat >count.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {by = {"what is added", default = 2}}
local job = tide.job {
  name = "count", checkpoint = {dir = "ckpt", every = "60s"},
  tables = {t = tide.table {keys = tide.dense(10), width = 1}}, params = {until_at = 1000000},
  worker = function(w)
    w.state.at = w.state.at or 0
    print(("begins at %d, t is %d, until %d"):format(w.state.at, w.tables.t:pull({1})[1], w.params.until_at))
    while not w:stopping() and w.state.at < w.params.until_at do
      w.state.at = w.state.at + opt.by
      w.tables.t:push({1}, {{opt.by}})
      tide.sleep(0.01)
      w:report {examples = 1}
    end
  end,
}
local plain = tide.job {name = "plain", worker = function(w) while not w:stopping() do w:report {} end end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  cluster:start(opt.by == 1 and plain or job):wait()
end)
LUA
run 0 up lab -n 1 --workers 1
run 0 submit --cluster lab --slots 1 --memory 16MiB count.lua --by 3
reports() { "$TIDE" job show "$1" --cluster lab 2>/dev/null | grep -q '^report *[1-9][0-9]'; }
wait_for 15 reports count-1
run 0 job set count-1 until_at=1000001 --cluster lab
run 0 job stop count-1 --cluster lab
run 1 job wait count-1 --cluster lab --timeout 20s
run 0 job resume count-1 --cluster lab
says err.txt '^count-1 resumes as count-2 from .*/ckpt$'
wait_for 15 reports count-2
run 0 job logs count-2 --cluster lab
says out.txt 'begins at ([1-9][0-9]*), t is \1, until 1000001'
run 0 job show count-2 --cluster lab
says out.txt '^memory +16 MiB'
says out.txt '^slots +1 of 1'
# what continues is not resumed anew; another directory, another script, no checkpoint
run 1 job resume count-2 --cluster lab
says err.txt 'T0513.*the run is not paused'
run 0 job cancel count-2 --cluster lab --yes
mkdir -p elsewhere
(cd elsewhere && run 1 job resume count-2 --cluster lab && says err.txt 'T0513.*relative to another directory' &&
    says err.txt "cd $work") || fail "elsewhere"
echo >>count.lua
run 1 job resume count-2 --cluster lab
says err.txt 'T0513.*its script, .*count.lua, has changed since it was submitted'
says err.txt 'tide submit --resume .*/ckpt'
run 0 submit --cluster lab --slots 1 count.lua --by 1
run 0 job cancel plain-3 --cluster lab --yes
run 1 job resume plain-3 --cluster lab
says err.txt 'T0513.*run plain-3 cannot be resumed: it wrote no checkpoints'
run 0 down lab --yes
nothing_left
finish
