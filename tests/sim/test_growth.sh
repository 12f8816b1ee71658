#!/bin/bash
# Memory after many rounds of the same work is what it was before them: runs with tables and workers, groups of actors,
# consoles, nodes that join and leave. Lua states are measured without garbage, so what grows is what is still held.
. "$(dirname "$0")/harness.sh"
cat >grow.lua <<'END'
local tide = require "tide"
local core = require "tide.core"
local keeper = require "tide.keeper"
local opt = tide.options {
  what = {"of what", default = "run"}, rounds = {"that count", default = 40}, warm = {"before them", default = 20},
}
local SLACK <const> = 64 -- bytes a round: tables and pools that double
local job = tide.job {name = "j", tables = {t = tide.table {keys = tide.dense(8), width = 1}}, worker = function(w)
  w.tables.t:push({1}, {{1}})
  w:report {examples = 1}
end}
local Echo = tide.actor {name = "echo", ask = function(_, x) return x end}
local ROUNDS <const> = {
  run = function(cluster)
    local run <close> = cluster:start(job)
    run:wait()
  end,
  group = function(cluster)
    local group <const> = cluster:group(Echo)
    assert(group:ranks {1}:call("ask", 1))
    group:close()
  end,
  console = function(_, agent, i)
    local session <const> = ("%032x"):format(i)
    local console <const> = assert(core.call(agent, {op = "console.open", session = session, role = "admin"}))
    core.monitor(console.address)
    assert(core.call(agent, {op = "console.drop", session = session}))
    repeat local m <const> = core.receive() until m.kind == "exit" and m.from == console.address
  end,
  node = function(cluster)
    cluster:drain(cluster:add_node())
  end,
}
local function held(agents)
  core.sleep(2) -- what ends later
  local list = {driver = {bytes = select(2, collectgarbage(), collectgarbage "count") * 1024 // 1, actors = #core.actors()},
    keeper = keeper.ask {op = "bytes"}}
  for name, agent in pairs(agents) do list[name] = assert(core.call(agent, {op = "bytes"})) end
  return list
end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 1}
  local agents = {}
  for _, m in ipairs(core.members()) do agents[m.name] = core.whereis(m.name .. "/agent") end
  local round <const> = ROUNDS[opt.what]
  for i = 1, opt.warm do round(cluster, agents.n1, i) end
  local before <const> = held(agents)
  for i = 1, opt.rounds do round(cluster, agents.n1, opt.warm + i) end
  for who, now in pairs(held(agents)) do
    local more <const> = now.bytes - before[who].bytes
    local grows <const> = more > SLACK * opt.rounds or now.actors > before[who].actors
    print(("%s %s: %d bytes and %d actors more"):format(grows and "GROWS" or "stays", who, more,
      now.actors - before[who].actors))
  end
end)
END
for what in run group console node; do
    run 0 sim --seed 1 --limit cluster_runs_kept=5 grow.lua -- --what "$what"
    says out.txt '^stays driver'
    if grep GROWS out.txt; then fail "memory grows with each round of $what"; fi
done
finish
