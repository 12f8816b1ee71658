#!/bin/bash
# A table that forgets, under moves, nodes that join and leave, pauses and broken connections. Each key has one worker,
# whose i-th push to it adds (1, i): a row with count c holds the last c pushes of its key that were admitted, each once,
# and nothing of a time before it was evicted or expired.
. "$(dirname "$0")/harness.sh"

cat >forget.lua <<'END'
local tide, sim, core = require "tide", require "tide.sim", require "tide.core"
local opt = tide.options {pushes = {"of each worker", default = 3000}}
local KEYS <const>, LIMIT <const> = 400, 60
local job = tide.job {
  name = "forget",
  tables = {t = tide.table {keys = tide.hashed {limit = LIMIT, admit = {after = 2}, expire = {unused = "1s"},
    evict = "lfu"}, width = 2, update = "add"}},
  worker = function(w)
    local pushed, held = {}, 0
    local function look(key, row)
      local c, sum, i = row[1] // 1 | 0, row[2], pushed[key]
      -- Pushes that were refused since the row went are not in it: it ends with the last one, or it is not there.
      if c < 0 or c > i or (c > 0 and sum ~= c * i - c * (c - 1) // 2) then
        error(("key %d of worker %d has (%g, %g) after %d pushes"):format(key, w.rank, c, sum, i))
      end
      held = held + (c > 0 and 1 or 0)
    end
    for n = 1, opt.pushes do
      local key <const> = w.rank << 32 | math.floor(KEYS ^ w.rng:uniform())
      pushed[key] = (pushed[key] or 0) + 1
      w.tables.t:push({key}, {{1, pushed[key]}})
      if n % 3 == 0 then look(key, w.tables.t:pull {key}) end
      if n % 100 == 0 then tide.sleep(w.rng:uniform() * 0.2) end
    end
    for key in pairs(pushed) do look(key, w.tables.t:pull {key}) end
    w:report {examples = opt.pushes, held = held}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, servers = 3, workers = 2}
  for i = 1, 4 do
    local at <const>, node <const> = ("%dms"):format(500 + sim.rng:below(2500)), "s" .. sim.rng:below(3) + 1
    if sim.rng:below(2) == 0 then
      sim.fault("pause", {node = node, at = at, time = "300ms"})
    else
      local others = {}
      for _, other in ipairs {"n1", "n2", "s1", "s2", "s3"} do others[#others + 1] = other ~= node and other or nil end
      sim.fault("reset", {{node}, others}, {at = at})
    end
  end
  local run = cluster:start(job)
  local t <const> = run.tables.t
  sim.check("limit", function()
    local rows, most = 0, 0
    for _, m in ipairs(core.members()) do
      local agent = m.state == "up" and core.whereis(m.name .. "/agent")
      local answer = agent and core.call(agent, {op = "status"}, 1)
      local stats = answer and answer.tables[t.name]
      if stats and stats.rows > LIMIT + 2 then return false, ("%s has %d rows"):format(m.name, stats.rows) end
      rows, most = rows + (stats and stats.rows or 0), most + LIMIT
    end
    return true
  end)
  local ids <const> = {}
  for _, m in ipairs(core.members()) do ids[m.name] = m.id end
  for _ = 1, 6 do -- slots go from node to node
    tide.sleep(0.3)
    local slots <const>, first <const> = {}, sim.rng:below(3000)
    for i = 1, 500 do slots[i] = first + i end
    assert(t:move(slots, ids["s" .. sim.rng:below(3) + 1]))
  end
  for r in run:events "report" do print(("worker reports; %d pushes"):format(r.examples)) end
  run:wait()
  tide.sleep(3)
  local gone = {0, 0, 0, 0}
  for _, m in ipairs(core.members()) do
    local agent = m.state == "up" and core.whereis(m.name .. "/agent")
    local stats = agent and core.call(agent, {op = "status"}, 1).tables[t.name]
    for i, name in ipairs {"not_admitted", "evicted", "expired", "rows"} do
      gone[i] = gone[i] + (stats and stats[name] or 0)
    end
  end
  assert(gone[4] == 0, "rows are left that nobody uses")
  print(("not admitted %d, evicted %d, expired %d"):format(gone[1], gone[2], gone[3]))
end)
END
run 0 sim --seed 1 forget.lua
says out.txt 'not admitted [1-9][0-9]*, evicted [1-9][0-9]*, expired [1-9]'
first=$(hash_of err.txt)
run 0 sim --seed 1 forget.lua
same "$first" "$(hash_of err.txt)" "a table that forgets"
run 0 sim --seeds 2..9 --jobs 2 forget.lua
says err.txt '8 seeds, 0 failed'
finish
