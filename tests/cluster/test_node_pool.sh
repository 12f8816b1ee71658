#!/bin/bash
# A scheduling policy orders nodes: they are started, join, get work, and leave in order when they are not wanted; every
# report has every example once, and nothing is left behind.
. "$(dirname "$0")/harness.sh"

cat >pool.lua <<'END'
local tide = require "tide"
local policy = {path = "nodes.lua", text = [[
return {api = 1, kind = "scheduling", name = "nodes", version = 1, params = {want = 3}, needs = {}, every = 0.2,
  min_gap = 0.05,
  init = function(params) return params end,
  decide = function(s, view)
    local alloc = {}
    for _, job in ipairs(view.jobs) do alloc[job.id] = {slots = math.min(view.slots, job.max)} end
    return {alloc = alloc, nodes = {want = s.want}}
  end}]]}
local job = tide.job {
  name = "rows", data = 60, chunks = 30,
  tables = {t = tide.table {keys = tide.dense(10), width = 1, update = "add"}},
  worker = function(w)
    while not w:stopping() do
      for c in w:chunks() do
        tide.sleep(0.01)
        w.tables.t:push({1}, {{c.count}})
        c:report {examples = c.count}
      end
      w:report {}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:schedule(policy, {nodes = {max = 4}})
  local run = cluster:start(job, nil, {min = 1, max = 4})
  local counted <const> = tide.spawn(function()
    for r in run:events "report" do assert(r.stop or r.examples == 60, "an example is missing, or there twice") end
    return true
  end)
  local function until_(n)
    local began = tide.now()
    while cluster:runs()[1].workers ~= n do tide.sleep(0.05) assert(tide.now() - began < 30) end
    local names = {}
    for _, m in ipairs(cluster.nodes()) do if m.workers > 0 and m.state == "up" then names[#names + 1] = m.name end end
    table.sort(names, function(x, y) return #x < #y or #x == #y and x < y end)
    print(n, table.concat(names, " "))
  end
  until_(1)
  until_(3)
  cluster.scheduling().set("scheduling", {want = 1})
  until_(1)
  cluster.scheduling().set("scheduling", {want = 2})
  until_(2)
  tide.sleep(0.5)
  run:stop()
  assert(counted:wait())
  local ok, err = pcall(cluster.schedule, cluster, policy, {nodes = {max = 4, mim = 2}})
  print(ok, err.code, err.message)
end)
END
run 0 run pool.lua
says out.txt '^1.n1$'
says out.txt '^3.n1 auto-1 auto-2$'
says out.txt '^2.n1 auto-3$'
says out.txt 'T0115.*no field .mim'
nothing_left
finish
