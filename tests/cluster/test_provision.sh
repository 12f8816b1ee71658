#!/bin/bash
# A script that has nodes started for its run, on a cluster that stays: a scaling policy asks for workers, the launcher
# starts nodes for them, one that is killed is replaced, and what was started leaves when the script ends.
. "$(dirname "$0")/harness.sh"

cat >grow.lua <<'LUA'
local policy = {api = 1, kind = "scaling", name = "grow", version = 1, params = {}, every = 1, min_gap = 0.2}
function policy.init() return {} end
function policy.decide(st, view)
  local up = 0
  for _, w in ipairs(view.workers) do up = up + (w.state == "up" and 1 or 0) end
  return up < 3 and {workers = 3} or {}
end
return policy
LUA
cat >grown.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "grown", data = 240, chunks = 24, on_worker_loss = "replay",
  policies = {scaling = "grow.lua"},
  tables = {t = tide.table {keys = tide.dense(240), width = 1, init = tide.zero(), update = "add"}},
  worker = function(w)
    while not w:stopping() do
      for chunk in w:chunks() do
        tide.sleep(0.002 * (chunk.last - chunk.first + 1))
        chunk:report {examples = chunk.last - chunk.first + 1}
      end
      w:report {}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  cluster:provision {kind = "local", min = 1, max = 3, prefix = "more", store = false,
    program = os.getenv "TIDE"}
  local run = cluster:start(job)
  local killed, alone
  for report in run:events "report" do
    assert(report.examples == 240, "a pass of " .. report.examples)
    if not killed and #report.workers >= 3 then
      print("three work")
      for _, member in ipairs(cluster:nodes()) do
        if member.name == "more-1" then os.execute("kill -KILL " .. member.pid) end
      end
      killed = report.n
    elseif killed and report.n > killed + 2 and not alone and #report.workers >= 3 then
      print("three work again")
      alone = true
      run:stop()
    elseif report.n > 2000 then
      error "too long"
    end
  end
  run:wait()
end)
LUA
run 0 up --cluster stays -n 1
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/stays/pids"); do started+=("$pid"); done
export TIDE
run 0 run --cluster stays grown.lua
says out.txt '^three work$'
says out.txt '^three work again$'
says err.txt 'node more-1 is gone'
says_not err.txt 'node more-2 is gone'
left() { [ "$("$TIDE" nodes --cluster stays --plain | grep -c 'up')" = 2 ]; }
wait_for 20 left || "$TIDE" nodes --cluster stays --plain

# ---- what cannot be
cat >bad.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {case = {"which", default = 1}}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local cases <const> = {
    {kind = "local"}, {kind = "nobody", max = 2}, {kind = "local", max = 2, min = 3},
    {kind = "local", max = 2, nodes = 4}, {kind = "ssh", max = 2}, {kind = "local", max = 1, program = "/nowhere/tide"},
  }
  if opt.case == 7 then return cluster:nodes {want = 2} end
  cluster:provision(cases[opt.case])
  if opt.case == 8 then cluster:nodes {want = 5} end
end)
LUA
bad() {
    timeout 60 "$TIDE" run --cluster stays bad.lua --case "$1" >out.txt 2>err.txt </dev/null && fail "case $1 is taken"
    says err.txt "$2"
}
bad 1 '`max`'
bad 2 '`nobody` starts no nodes'
bad 3 'min is 3, and max 2'
bad 4 'nodes'
bad 5 'hosts'
bad 6 '/nowhere/tide'
bad 7 'there is no pool'
run 0 down stays -y
nothing_left
finish
