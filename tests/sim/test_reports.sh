#!/bin/bash
# What workers report and what is made of it: one report a pass whoever dies, malformed reports and requests, trials.
. "$(dirname "$0")/harness.sh"

# ---- the only worker dies between the last chunk of a pass and its report: another one makes the report of that pass
cat >pass.lua <<'LUA'
local tide, sim = require "tide", require "tide.sim"
local opt = tide.options {at = {"when the node crashes, in seconds", default = 3.0}}
local PASSES <const>, COUNT <const> = 12, 40
local job = tide.job {
  name = "pass", data = COUNT, chunks = 20, stop = {epochs = PASSES},
  tables = {t = tide.table {keys = tide.dense(10), width = 1}},
  worker = function(w)
    for pass = w.passes + 1, PASSES do
      for c in w:chunks() do
        w.tables.t:push({1}, {{c.count}})
        tide.sleep(0.02)
        c:report {examples = c.count}
      end
      tide.sleep(0.3)
      w:report {loss = pass}
      if w:stopping() then break end
    end
  end,
}
local policy = {path = "one.lua", text = [[return {api = 1, kind = "scheduling", name = "one", version = 1, needs = {},
  every = 0.3, min_gap = 0.05, init = function() return {} end,
  decide = function(_, view) local a = {} for _, j in ipairs(view.jobs) do a[j.id] = {slots = 1} end return {alloc = a} end}]]}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 4, servers = 1}
  cluster:schedule(policy)
  local run = cluster:start(job, nil, {min = 1, max = 4})
  sim.fault("crash", {node = "n1", at = opt.at .. "s"})
  local n = 0
  for r in run:events "report" do
    n = n + 1
    assert(r.examples == COUNT and r.loss == r.n, ("report %d has %d examples of pass %s"):format(r.n, r.examples, r.loss))
  end
  print("reports", n, run:wait().workers_lost)
end)
LUA
for at in 2.7 3.0 3.3; do
    run 0 sim --seed 1 pass.lua --at $at
    says out.txt '^reports.12.1$'
done

# ---- a run is told to stop in the middle of a pass: the last report is of a part of it, and has the reason
cat >cut.lua <<'LUA'
local tide = require "tide"
local COUNT <const> = 40
local job = tide.job {
  name = "cut", data = COUNT, chunks = 20,
  worker = function(w)
    while not w:stopping() do
      for c in w:chunks() do
        tide.sleep(0.02)
        c:report {examples = c.count}
      end
      w:report {}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run, reports = cluster:start(job), {}
  for r in run:events "report" do
    reports[r.n] = r
    if r.n == 3 then
      tide.spawn(function()
        tide.sleep(0.07)
        run:stop()
      end)
    end
  end
  for n, r in ipairs(reports) do
    local whole <const> = n < #reports
    assert(whole == (r.examples == COUNT) and whole == (r.stop == nil), ("report %d has %d examples"):format(n, r.examples))
  end
  local last <const> = reports[#reports]
  print("STOPPED", #reports, last.stop, last.examples > 0 and last.examples < COUNT, (run:state()))
end)
LUA
run 0 sim --seed 1 cut.lua
says out.txt '^STOPPED.4.on request.true.stopped$'

# ---- what is no report, and no request: an error that names it, and everybody lives on
cat >wrong.lua <<'LUA'
local tide, core = require "tide", require "tide.core"
local requests = require "tide.requests"
local Group = tide.actor {name = "g", ping = function() return "here" end}
local job = tide.job {
  name = "wrong",
  worker = function(w)
    local R <const> = {{kind = 2}, {0.5}, {["x\xff"] = 1}, {["a\0b"] = 1}, {loss = {}}, {examples = -1}, {alike = {n = 1}}}
    for i = 1, #R do
      local ok, err = pcall(w.report, w, R[i])
      assert(not ok and err.code == "T0113", i)
      w:log(err.message)
    end
    while not w:stopping() do w:report {examples = 1} end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  for r in run:events "report" do if r.n == 2 then break end end
  local group = cluster:group(Group, {}, {on = "n1"})
  local to = {agent = core.whereis "n1/agent", runs = assert(require("tide.keeper").find()), run = run.controller,
              group = group.address}
  local wrong <const>, refused = {0 / 0, -1.5, "x", true, {1, "x"}, {}, false}, 0
  for actor, address in pairs(to) do
    for op, row in pairs(requests[actor]) do
      for _, field in ipairs(row.fields) do
        for _, value in ipairs(wrong) do
          if not field.fits or not field.fits(value) then
            local answer, err = core.call(address, {op = op, [field.name] = value}, 5)
            assert(not answer and err.message:find("malformed", 1, true), actor .. " " .. op .. " " .. field.name)
            refused = refused + 1
          end
        end
      end
    end
    local answer, err = core.call(address, {op = "no such request"}, 5)
    assert(not answer and err.message:find "know", actor .. " is silent")
    answer, err = core.call(address, {op = actor == "agent" and "jobs" or "members", no_such_field = 1}, 5)
    assert(not answer and (err.message:find("no field `no_such_field`", 1, true) or err.message:find "know"), actor)
  end
  print("refused", refused > 500, group:call("ping")[1], (run:state()))
  run:stop()
  run:wait()
end)
LUA
run 0 sim --seed 1 wrong.lua
says out.txt '^refused.true.here.running$'
says err.txt 'w:report: `kind` is a name that reports use themselves'
says err.txt 'w:report: the name "a\\0b" is not printable UTF-8'

# ---- an error table of a script shows what it holds
cat >table.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "e", worker = function(w) if w.rank == 2 then error {code = 7, reason = "of mine"} end end}
tide.main(function() local c <close> = tide.cluster {nodes = 2}; c:start(job):wait() end)
LUA
run 1 sim --seed 1 table.lua
says err.txt '\(worker e/2\): of mine \(code = 7\)$'

# ---- params keep their types; a sweep compares means, and takes no number that is none
cat >sweep.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "sweep", params = {lr = 1.0},
  worker = function(w)
    for i = 1, 4 do
      local lr <const> = w.params.lr
      w:report {loss = 64, examples = 64, valid_loss = lr == 8 and i == 2 and -math.huge or 32 * lr, valid_examples = 32}
      if lr == 4 and i == 3 then error "broken" end
      if w:stopping() then return end
    end
  end,
}
tide.main(function()
  local c <close> = tide.cluster {nodes = 1}
  local function sweep(o)
    o.cluster, o.job, o.metric = c, job, "valid_loss"
    return tide.trials(o)
  end
  local found = sweep {space = {lr = {2, 4, 8, 3}}, reports = 3}
  for i, row in ipairs(found.rows) do print("TRIAL", i, row.state, row.score, row.why) end
  print("BEST", found.best.trial, found.best.score)
  for _, o in ipairs {{space = {lr = {"x"}}}, {space = {lr = {nil, 2}}}, {space = {lr = {4, 8}}}} do
    local ok, err = pcall(sweep, o)
    print("REFUSED", not ok and err.message)
  end
  local run <close> = c:start(job)
  print("SET", select(2, pcall(run.set, run, {lr = "0,5"})).message)
end)
LUA
run 0 sim --seed 1 sweep.lua
says out.txt '^TRIAL.1.done.2.0.nil$'
says out.txt '^TRIAL.2.failed.nil.broken$'
says out.txt '^TRIAL.3.failed.nil.the score of report 2 is -inf$'
says out.txt '^BEST.1.2.0$'
says out.txt '^REFUSED.tide.trials: `space`: param `lr` is a number \(1.0\), not the string "x"$'
says out.txt '^REFUSED.tide.trials: `space.lr` is a list of values'
says out.txt '^REFUSED.none of 2 trials finished; the first: broken$'
says out.txt '^SET.param `lr` is a number \(1.0\), not the string "0,5": write 0.5$'
finish
