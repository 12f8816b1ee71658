#!/bin/bash
# Workers that never look: loops, in pcall, in coroutines, in calls of C. Cancelled, their threads are free for the next
# run within a second; so they are when their host is killed.
. "$(dirname "$0")/harness.sh"
export TIDE_CLUSTER=lab

cat >loop.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {how = {"what the worker does", default = "plain"}}
local WAYS = {
  plain = function() while true do end end,
  pcall = function() while true do pcall(function() while true do end end) end end,
  tail = function() local function f() return f() end f() end,
  coroutine = function()
    while true do
      local co = coroutine.create(function()
        local inner = coroutine.wrap(function() while true do pcall(function() while true do end end) end end)
        inner()
      end)
      coroutine.resume(co)
    end
  end,
  calls = function() while true do string.rep("a", 100):gsub("a", "b") end end,
  ends = function() end,
}
local job = tide.job {name = opt.how, worker = function(w)
  w:report {began = 1}
  WAYS[opt.how]()
  w:report {ended = 1}
end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  for _ in cluster:start(job):events "report" do print "report" end
end)
LUA

run 0 up lab -n 1 -w 2
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
reported() { "$TIDE" job show "$1" --json </dev/null 2>/dev/null | grep -q '"report": *1'; }
for how in plain pcall tail coroutine calls; do
  run 0 submit loop.lua --how $how
  name=$(grep -o "^$how-[0-9]*" out.txt)
  wait_for 10 reported "$name"
  run 0 job cancel "$name" -y
  run 0 run --cluster lab --slots 2 --timeout 5s loop.lua --how ends
  [ "$(grep -c report out.txt)" = 2 ] || fail "the threads are not free after $how"
done
begin run --cluster lab loop.lua --how pcall
wait_for 10 grep -q report out.txt
kill -KILL "$driver"
run 0 run --cluster lab --slots 2 --timeout 8s loop.lua --how ends
[ "$(grep -c report out.txt)" = 2 ] || fail "the threads are not free after their host's death"
run 0 down lab -y
nothing_left
finish
