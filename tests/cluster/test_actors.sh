#!/bin/bash
# Actors of scripts: the page's example, failures told by member, restarts, slices, loops; for real and in virtual time.
. "$(dirname "$0")/harness.sh"

awk '/^```lua/ && !on {on = 1; next} /^```/ && on {exit} on' "$root/docs/guides/actors.md" >probe.lua
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
  late = function(self, s) tide.sleep(s / self.rank) return "x" end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local g <close> = cluster:group(Probe, {from = 10}, {restart = 1})
  local got, lost = g:call("fail")
  print("fail", next(got), lost[2].code, lost[2].node, (lost[2].message:gsub("^.*: ", "")))
  _, lost = g:call("nothing")
  print("unknown", lost[1].code)
  local changes <const> = g:changes(10)
  g:ranks {2}:cast("fail")
  assert(changes().state == "restarting")
  _, lost = g:call("life_of")
  print("away", lost[2].code, lost[2].node, g:members()[2].address)
  tide.sleep(1)
  print("again", g:call("life_of")[2], g:call("add", 0)[2])
  g:ranks {2}:cast("fail")
  tide.sleep(1)
  got, lost = g:call("add", 1)
  print("gone", got[1], got[2], lost[2].code, got[3], g:members()[2].state)
  got, lost = g:within(0.2):ranks {3}:call("sleep", 1)
  print("late", got[3], lost[3].code, lost[3].node)
  local h <close> = cluster:group(Probe, {from = 0}, {on = "n1"})
  print("ref", g:ranks {1}:call("ask", h:ref())[1])
  for _, wrong in ipairs {{on = "n9"}, {each = 0}, {each = 1e9}, {restart = -1}, {nods = "n1"}} do
    local ok, err = pcall(cluster.group, cluster, Probe, {}, wrong)
    print("wrong", ok, err.code)
  end
  for _, wrong in ipairs {{4}, {0}, {1.5}, {"x"}, "x"} do
    local ok, err = pcall(g.ranks, g, wrong)
    print("rank", ok, err.code)
  end

  -- As they come: the first sleeps longest. Who leaves the loop keeps nothing.
  local order = {}
  tide.sleep(1) -- member 3 is awake
  for rank, value, err in g:ranks {1, 3}:each("late", 0.3) do order[#order + 1] = rank .. tostring(value or err.code) end
  print("each", table.concat(order, " "))
  for rank in g:each("add", 0) do print("first", rank > 0) break end

  -- Linked: all end with one. Whoever watches hears of it, in its order.
  local told = {}
  local l <close> = cluster:group(Probe, {from = 0}, {link = true, restart = 1})
  local ref <const> = l:ref()
  l:call("add", 0)
  tide.sleep(0.1)
  local watcher = require("tide.core").fiber(function()
    for c in tide.group(ref):changes(3) do told[#told + 1] = c.rank .. c.state .. c.life end
  end)
  tide.sleep(0.1)
  l:ranks {2}:cast("fail")
  for _ = 1, 100 do -- until it is restarted
    tide.sleep(0.1)
    if #l:call("add", 1) == 3 then break end
  end
  print("linked", #l:call("add", 1))
  l:ranks {2}:cast("fail")
  local ok, err
  for _ = 1, 100 do
    tide.sleep(0.1)
    ok, err = pcall(l.call, l, "add", 1)
    if not ok then break end
  end
  print("linked", ok, err.code, (err.message:gsub("on purpose.*", "...")))
  l:close()
  require("tide.core").fiber_wait(watcher)
  print("told", table.concat(told, " "))
  print("inside", select(2, pcall(tide.actor, {name = "late"})).code)
end)
LUA
for how in run "sim --seed 2"; do
  run 0 $how fails.lua
  says out.txt '^fail	nil	T0202	n2	on purpose$'
  says out.txt '^unknown	T0115$'
  says out.txt '^again	2	10$'
  says out.txt '^gone	11	nil	T0508	11	lost$'
  says out.txt '^late	nil	T0507	n3$'
  says out.txt '^away	T0508	n2	nil$'
  says out.txt '^ref	1$'
  [ "$(grep -c '^wrong	false	T01' out.txt)" = 5 ] || fail "bad options: $(grep wrong out.txt)"
  [ "$(grep -c '^rank	false	T0113' out.txt)" = 5 ] || fail "bad ranks: $(grep rank out.txt)"
  says out.txt '^each	3x 1x$'
  says out.txt '^first	true$'
  says out.txt '^linked	3$'
  says out.txt '^linked	false	T0508	member 2 on node n2 has ended'
  says out.txt '^told	2restarting1 2up2 2lost2 1ended1 3ended1$'
  says out.txt '^inside	T0206$'
done
nothing_left
finish
