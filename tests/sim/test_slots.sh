#!/bin/bash
# A scheduled cluster under faults that the seed draws: a policy that wishes sizes at random resizes, suspends and moves
# runs while nodes of workers and the controller crash or stall. No slot has two runs, none is lost, and every
# pass has every example once.
. "$(dirname "$0")/harness.sh"

cat >wild.lua <<'END'
return {
  api = 1, kind = "scheduling", name = "wild", version = 1, needs = {"job.request"}, every = 0.4, min_gap = 0.1,
  init = function() return {} end,
  decide = function(_, view)
    local alloc, free = {}, view.slots
    for _, job in ipairs(view.jobs) do
      local size = math.min(view.rng(0, 3), free, job.max)
      alloc[job.id], free = {slots = size}, free - size
    end
    return {alloc = alloc, placer = view.rng(2) == 1 and "pack" or "emptiest"}
  end,
}
END
cat >slots.lua <<'END'
local tide, sim, core = require "tide", require "tide.sim", require "tide.core"
local opt = tide.options {controllers = {"several controllers, of which one crashes", default = false},
  net = {"the third job is a net", default = false}}
local PASSES <const>, N <const> = 12, 60
local function job(name, chunk_s)
  return tide.job {
    name = name, data = N, chunks = 12, stop = {epochs = PASSES},
    tables = {t = tide.table {keys = tide.dense(N), width = 1, init = tide.zero(), update = "add"}},
    worker = function(w)
      for pass = w.passes + 1, PASSES do
        for chunk in w:chunks(pass) do
          local ones = tide.tensor.zeros("f32", chunk.count, 1)
          ones:fill(1)
          tide.sleep(chunk_s)
          w.tables.t:push(tide.range(chunk.first - 1, chunk.last - 1), ones)
          chunk:report {examples = chunk.count}
        end
        w:report {loss = 1}
        if w:stopping() then break end
      end
    end,
  }
end
local function net()
  local nn = require "tide.nn"
  sim.compute {flops = 1e6}
  return nn.job {name = "c", program = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(8),
    nn.relu(), nn.linear(10)}, data = tide.data.images(nil, {count = 72, test = 1 / 6, seed = 2}), batch = 10,
    epochs = PASSES, optimizer = nn.momentum {lr = 0.05}}
end
local jobs = {job("a", 0.03), job("b", 0.05), opt.net and net() or job("c", 0.02)}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 4, servers = 1, controllers = opt.controllers and 3 or nil}
  cluster:schedule "wild.lua"
  local slots, over, kept = {}, {}, {}
  for _, m in ipairs(core.members()) do slots[m.name] = m.workers end
  sim.check("slots", function()
    if core.now() > 300 then return false, "runs go on for 300 s: one is forgotten" end
    local held, goes_on = {}, {} -- workers of an ended run have returned, and stay until it is closed
    for _, r in ipairs(cluster:runs()) do
      goes_on[r.uid] = r
      for node, n in pairs(r.grant or {}) do held[node] = (held[node] or 0) + n end
    end
    for node, n in pairs(held) do
      if n > slots[node] then return false, ("%d slots of node %s are given, it has %d"):format(n, node, slots[node]) end
    end
    for _, m in ipairs(core.members()) do -- what a worker that is let go leaves is there a moment longer
      local agent = m.state == "up" and m.workers > 0 and core.whereis(m.name .. "/agent")
      local answer = agent and core.call(agent, {op = "jobs"}, 1)
      local n = 0
      for _, j in ipairs(answer and answer.jobs or {}) do
        n = n + (goes_on[j.run] and j.workers or 0)
        if answer and goes_on[j.run] then goes_on[j.run][m.name] = j.workers end
      end
      over[m.name] = n > m.workers and (over[m.name] or 0) + 1 or 0
      for _, r in pairs(goes_on) do -- what a run does not use any more is free soon
        local idle, key = ((r.grant or {})[m.name] or 0) > (r[m.name] or 0), r.uid .. m.name
        kept[key] = idle and (kept[key] or core.now()) or nil
        if idle and core.now() - kept[key] > (opt.controllers and 15 or 3) then
          return false, ("%s keeps a slot of node %s without a worker"):format(r.name, m.name)
        end
      end
      if over[m.name] > 8 then return false, ("node %s has %d workers on %d threads"):format(m.name, n, m.workers) end
    end
    return true
  end)
  local victim = "n" .. sim.rng:below(4) + 1
  local at = ("%dms"):format(2600 + sim.rng:below(4000))
  if sim.rng:below(2) == 0 then
    sim.fault("crash", {node = victim, at = at})
  else
    sim.fault("pause", {node = victim, at = at, time = "600ms"})
  end
  if opt.controllers then sim.fault("crash", {node = "c1", at = ("%dms"):format(2600 + sim.rng:below(4000))}) end
  local tasks = {}
  for i, j in ipairs(jobs) do
    tasks[i] = function()
      tide.sleep(0.7 * (i - 1))
      local run = cluster:start(j)
      for r in run:events "report" do
        if r.examples ~= N then error(("report %d of %s has %d examples"):format(r.n, j.name, r.examples)) end
      end
      run:wait()
      assert(opt.net and j == jobs[3] or run.tables.t:pull(tide.range(0, N - 1)):min() >= PASSES, "examples are missing in the table")
      run:close()
    end
  end
  tide.all(tasks)
  tide.sleep(1)
  local held, resizes = require("tide.keeper").ask {op = "held"}, 0
  assert(held.free == held.total and held.total >= 3, ("%d of %d slots are free"):format(held.free, held.total))
  for _, r in ipairs(cluster:runs {all = true}) do resizes = resizes + (r.resizes or 0) end
  print(("all slots are free; %d resizes"):format(resizes))
end)
END
run 0 sim --seed 1 slots.lua
says out.txt "all slots are free; [1-9][0-9]* resizes"
first=$(hash_of err.txt)
run 0 sim --seed 1 slots.lua
same "$first" "$(hash_of err.txt)" "a scheduled cluster"
run 0 sim --seeds 2..7 --jobs 2 slots.lua
says err.txt '6 seeds, 0 failed'
run 0 sim --seeds 1..2 --jobs 2 slots.lua -- --net # nets are suspended wholly, too
says err.txt '2 seeds, 0 failed'
if [ -e "$(dirname "$TIDE")/tide_raft.so" ]; then
    run 0 sim --seeds 1..4 --jobs 2 slots.lua -- --controllers
    says err.txt '4 seeds, 0 failed'
fi

# A node of a run dies while its workers start: it starts on others, with as many.
cat >starts.lua <<'END'
local tide, sim, core = require "tide", require "tide.sim", require "tide.core"
local job = tide.job {name = "starts", workers = 2, worker = function(w) -- bound to ranks: it wants both
  for _ = 1, 3 do
    tide.sleep(0.01)
    w:barrier "step"
    w:report {examples = w.workers}
  end
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 4, servers = 1}
  cluster:schedule "scheduling/fifo"
  local run = cluster:start(job)
  local at <const> = ("%dus"):format(1e6 * core.now() // 1 + 10 + sim.rng:below(60))
  sim.fault("crash", {node = "n" .. sim.rng:below(2) + 1, at = at})
  for r in run:events "report" do assert(r.examples == 4, "a worker is missing") end
  print(run:wait() and run:state())
end)
END
run 0 sim --seed 1 starts.lua
says err.txt 'lost while the run started'
run 0 sim --seeds 2..6 --jobs 2 starts.lua
says err.txt '5 seeds, 0 failed'
finish
