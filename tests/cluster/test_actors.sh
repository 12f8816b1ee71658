#!/bin/bash
# Actors of scripts: the page's example, failures told by member, restarts, slices, loops; for real and in virtual time.
. "$(dirname "$0")/harness.sh"

awk '/^```lua/ {on = 1; next} /^```/ {on = 0} on' "$root/docs/actors.md" >probe.lua
for how in run "sim --seed 1"; do
  run 0 $how probe.lua
  says out.txt '^4	15	nil$'
  says out.txt '^3	16$'
  says out.txt '^n1$'
done

cat >fails.lua <<'LUA'
local tide = require "tide"
local Probe = tide.actor {
  name = "probe",
  start = function(self, a) self.sum = a.from end,
  add = function(self, x) self.sum = self.sum + x return self.sum end,
  life_of = function(self) return self.life end,
  ask = function(_, ref) return tide.group(ref):call("add", 1)[1] end,
  fail = function() error("on purpose") end,
  sleep = function(_, s) tide.sleep(s) return "awake" end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local g <close> = cluster:group(Probe, {from = 10}, {restart = 1})
  local got, lost = g:call("fail")
  print("fail", next(got), lost[2].code, lost[2].node, (lost[2].message:gsub("^.*: ", "")))
  _, lost = g:call("nothing")
  print("unknown", lost[1].code)
  g:ranks {2}:cast("fail")
  tide.sleep(1)
  print("again", g:call("life_of")[2], g:call("add", 0)[2])
  g:ranks {2}:cast("fail")
  tide.sleep(1)
  got, lost = g:call("add", 1)
  print("gone", got[1], got[2], lost[2].code, got[3], g:members()[2].state)
  got, lost = g:within(0.2):ranks {3}:call("sleep", 1)
  print("late", got[3], lost[3].code)
  local h <close> = cluster:group(Probe, {from = 0}, {on = "n1"})
  print("ref", g:ranks {1}:call("ask", h:ref())[1])
  for _, wrong in ipairs {{on = "n9"}, {each = 0}, {restart = -1}, {nods = "n1"}} do
    local ok, err = pcall(cluster.group, cluster, Probe, {}, wrong)
    print("wrong", ok, err.code)
  end
  print("inside", select(2, pcall(tide.actor, {name = "late"})).code)
end)
LUA
for how in run "sim --seed 2"; do
  run 0 $how fails.lua
  says out.txt '^fail	nil	T0202	n2	on purpose$'
  says out.txt '^unknown	T0113$'
  says out.txt '^again	2	10$'
  says out.txt '^gone	11	nil	T0508	11	lost$'
  says out.txt '^late	nil	T0507$'
  says out.txt '^ref	1$'
  [ "$(grep -c '^wrong	false	T01' out.txt)" = 4 ] || fail "bad options: $(grep wrong out.txt)"
  says out.txt '^inside	T0206$'
done
nothing_left
finish
