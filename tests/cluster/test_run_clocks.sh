#!/bin/bash
# Each run has clocks of its own: a run that waits, or is paused, holds up no other's reads; runs of a script that take
# up one table with clocks by its name count together.
. "$(dirname "$0")/harness.sh"

cat >beside.lua <<'LUA'
local tide = require "tide"
local CLOCKS <const> = 30
local function table_of(consistency, more)
  local o = {keys = tide.dense(64), width = 2, consistency = consistency}
  for k, v in pairs(more or {}) do o[k] = v end
  return tide.table(o)
end
local gate = tide.table {shared = true, name = "gate", keys = tide.dense(1), width = 1}

-- Ends one interval, and then waits within the next until the gate is open.
local slow = tide.job {
  name = "slow", tables = {t = table_of "bsp", gate = gate},
  worker = function(w)
    w.tables.t:push({w.rank}, {{1, 1}})
    w:clock()
    while w.tables.gate:pull({0})[1] == 0 do tide.sleep(0.01) end
    for _ = 2, CLOCKS do
      w.tables.t:push({w.rank}, {{1, 1}})
      w:clock()
    end
    local seen = 0
    for rank = 1, w.workers do seen = seen + w.tables.t:pull({rank})[1] end
    w:report {examples = 1, seen = seen}
  end,
}
-- Reads what all have pushed at each clock.
local function fast_worker(w)
  local wrong = 0
  for clock = 1, CLOCKS do
    w.tables.t:push({w.rank}, {{1, 1}})
    w:clock()
    for rank = 1, w.workers do
      local got <const> = w.tables.t:pull({rank})[1]
      if got ~= clock then wrong = wrong + 1 end
    end
  end
  w:report {examples = 1, wrong = wrong}
end
local fast = tide.job {name = "fast", tables = {t = table_of "bsp"}, worker = fast_worker}
-- Reports at each clock, until it is stopped.
local paused = tide.job {
  name = "paused", tables = {t = table_of "ssp:1"},
  worker = function(w)
    while not w:stopping() do
      w.tables.t:push({w.rank}, {{1, 1}})
      w:clock()
      w.tables.t:pull {1, 2}
      w:report {examples = 1}
    end
  end,
}
local function named(name)
  return tide.job {
    name = name, tables = {t = table_of("ssp:1", {name = "both"})},
    worker = function(w)
      for _ = 1, 5 do
        w.tables.t:push({0}, {{1, 1}})
        w:clock()
      end
      w:report {examples = 1}
    end,
  }
end
local one, two = named "one", named "two"

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 4}
  local waits <close> = cluster:start(slow, nil, {slots = 2})
  local runs <close> = cluster:start(fast, nil, {slots = 2})
  local seen = runs:wait()
  print(("fast: %s beside one that waits, %d wrong"):format(runs:state(), runs.history[1].wrong))
  waits.tables.gate:push({0}, {{1}})
  waits:wait()
  print(("slow: each saw %g of %d"):format(waits.history[1].seen / 2, 2 * CLOCKS))

  local still <close> = cluster:start(paused, nil, {slots = 2})
  for _ in still:events "report" do break end
  assert(still:pause())
  local again <close> = cluster:start(fast, nil, {slots = 2})
  again:wait()
  print(("fast: %s beside a paused one, %d wrong"):format(again:state(), again.history[1].wrong))
  assert(still:resume())
  still:stop()
  still:wait()

  local first <close> = cluster:start(one, nil, {slots = 2})
  first:wait()
  local second <close> = cluster:start(two, nil, {slots = 2})
  second:wait()
  local t <const> = second.tables.t
  print(("both: %d, staleness counted %s"):format(t:pull({0})[1], t:stats().staleness ~= nil))
end)
LUA
for how in "run --timeout 60" sim; do
  run 0 $how beside.lua
  says out.txt 'fast: done beside one that waits, 0 wrong'
  says out.txt 'slow: each saw 60 of 60'
  says out.txt 'fast: done beside a paused one, 0 wrong'
  says out.txt 'both: 20, staleness counted true'
done
nothing_left
finish
