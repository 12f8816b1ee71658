-- Runs of a cluster that lives long: what begins, ends and drops cost, and what a run does to the one beside it.
--   tide run bench/runs.lua [--only many|ends|drop|pause]
--   tide sim --latency 100us bench/runs.lua --only group --nodes 64; tide sim bench/runs.lua --only clocks
--   tide up lab -n 2 -w 2; tide run --cluster lab bench/runs.lua --only start; ... --only beside
-- Every line ends with the figure it is for. Nodes are processes; what they hold is read from /proc.
local tide = require "tide"
local core = require "tide.core"

local opt = tide.options {
  only = {"one part: start, many, ends, drop, pause, beside, group, clocks", default = "all"},
  nodes = {"of the cluster", default = 2},
  runs = {"of `many`, one after the other", default = 500},
  ends = {"of each kind of loop in `ends`", default = 30},
  rows = {"of the table that is dropped", default = 1000000},
  rounds = {"of the other parts", default = 5},
  seconds = {"of each measurement in `beside`", default = 2},
}

local function wants(part) return opt.only == part or opt.only == "all" end
local function say(...) print((...):format(select(2, ...))) end

local function quantile(list, q)
  table.sort(list)
  return list[math.max(1, math.ceil(q * #list))]
end

---- jobs ---------------------------------------------------------------------------------------------------------

local small = tide.job {
  name = "small",
  tables = {a = tide.table {keys = tide.dense(1000), width = 8}, b = tide.table {keys = tide.hashed {}, width = 4}},
  worker = function(w)
    for i = 1, 20 do
      w.tables.a:push({w.rng:below(1000)}, {{1, 1, 1, 1, 1, 1, 1, 1}})
      w.tables.b:push({w.rank * 100 + i}, {{1, 1, 1, 1}})
    end
    w:report {examples = 20}
  end,
}

local LOOPS <const> = {
  loop = function() while true do end end,
  pcall = function() while true do pcall(function() while true do end end) end end,
  coroutine = function()
    while true do pcall(coroutine.wrap(function() coroutine.wrap(function() while true do end end)() end)) end
  end,
}
local endless = tide.job {
  name = "endless", params = {kind = "loop"},
  tables = {t = tide.table {keys = tide.dense(10), width = 1}},
  worker = function(w)
    w:report {loops = 1}
    LOOPS[w.params.kind]()
  end,
}

local big = tide.job {
  name = "big", tables = {t = tide.table {keys = tide.dense(opt.rows), width = 8}},
  worker = function(w)
    local ones = tide.tensor.zeros("f32", 10000, 8)
    ones:fill(1)
    for first = (w.rank - 1) * 10000, opt.rows - 1, w.workers * 10000 do
      local keys = {}
      for i = 1, math.min(10000, opt.rows - first) do keys[i] = first + i - 1 end
      w.tables.t:push(keys, #keys == 10000 and ones or ones:view(1, #keys, 8))
    end
    w:report {examples = 1}
  end,
}

-- Pulls and pushes one row at a time, and tells of the longest in each twentieth of a second.
local probe = tide.job {
  name = "probe", workers = 1, tables = {t = tide.table {keys = tide.dense(1000), width = 8}},
  worker = function(w)
    local t <const> = w.tables.t
    while not w:stopping() do
      local until_s <const> = core.now() + 0.05
      local longest, count = 0, 0
      repeat
        local key <const> = {w.rng:below(1000)}
        local at <const> = core.now()
        t:push(key, t:pull(key))
        longest, count = math.max(longest, (core.now() - at) / 2), count + 2
      until core.now() >= until_s
      w:report {longest = longest, operations = count}
    end
  end,
}

local chunked = tide.job {
  name = "chunked", data = 20000, chunks = 200, tables = {t = tide.table {keys = tide.dense(10), width = 1}},
  worker = function(w)
    for _ = w.passes + 1, 20 do
      for chunk in w:chunks() do
        w.tables.t:push({1}, {{chunk.count}})
        chunk:report {examples = chunk.count}
      end
      w:report {}
    end
  end,
}

local Probe = tide.actor {name = "member", echo = function(_, x) return x end}

---- parts --------------------------------------------------------------------------------------------------------

local function read(command)
  local pipe <close> = assert(io.popen(command))
  return tonumber(pipe:read "a") or 0
end

-- What the processes of the cluster hold, this one included.
local function held()
  collectgarbage()
  local rss, descriptors, threads = 0, 0, 0
  for _, member in ipairs(core.members()) do
    if member.state == "up" and member.pid then
      descriptors = descriptors + read("ls /proc/" .. member.pid .. "/fd | wc -l")
      threads = threads + read("ls /proc/" .. member.pid .. "/task | wc -l")
      rss = rss + read("awk '/^VmRSS/ {print $2}' /proc/" .. member.pid .. "/status") / 1024
    end
  end
  return {rss = rss, descriptors = descriptors, threads = threads, tables = #core.tables()}
end

local function many(cluster)
  local first
  local began = core.now()
  for i = 1, opt.runs do
    local run <close> = cluster:start(small)
    run:wait()
    if i == math.min(100, opt.runs // 5) then first, began = held(), core.now() end
  end
  tide.sleep(0.2)
  local last <const> = held()
  local per <const> = (core.now() - began) / (opt.runs - math.min(100, opt.runs // 5))
  say("many: %d runs of 2 tables, %.1f ms each; after the %dth and the last: memory %.1f, %.1f MiB (x %.3f, aim 1.1); "
    .. "descriptors %d, %d; threads %d, %d; tables %d, %d", opt.runs, per * 1e3, math.min(100, opt.runs // 5),
    first.rss, last.rss, last.rss / first.rss, first.descriptors, last.descriptors, first.threads, last.threads,
    first.tables, last.tables)
end

local function workers_left()
  local count = 0
  for _, member in ipairs(core.members()) do
    local agent <const> = member.state == "up" and (member.workers or 0) > 0 and core.whereis(member.name .. "/agent")
    for _, actor in ipairs(agent and core.call(agent, {op = "status"}, 5).actors or {}) do
      if actor.type == "worker" then count = count + 1 end
    end
  end
  return count
end

local function ends(cluster)
  local all = {}
  for kind in pairs(LOOPS) do
    local took = {}
    for i = 1, opt.ends do
      local run <close> = cluster:start(endless, {kind = kind})
      local next_report <const> = run:events "report"
      next_report()
      tide.sleep(0.005)
      local at <const> = core.now()
      run:cancel()
      while workers_left() > 0 do tide.sleep(0.001) end
      took[i] = core.now() - at
      all[#all + 1] = took[i]
    end
    say("ends: %s, %d times: median %.0f ms, longest %.0f ms", kind, #took, quantile(took, 0.5) * 1e3,
      took[#took] * 1e3)
  end
  say("ends: cancel to free threads: p99 %.0f ms (aim 200; 1000 at most)", quantile(all, 0.99) * 1e3)
end

local function drop(cluster)
  local watching <const> = cluster:start(probe)
  local seen = {}
  local watcher <const> = core.fiber(function()
    for r in watching:events "report" do seen[#seen + 1] = {at = core.now(), longest = r.longest} end
  end)
  local took, during, before = {}, {}, {}
  for i = 1, opt.rounds do
    local run = cluster:start(big)
    run:wait()
    local quiet <const> = core.now()
    tide.sleep(0.5)
    local at <const> = core.now()
    assert(core.table_drop(run.table_names.t))
    took[i] = core.now() - at
    tide.sleep(0.3)
    for _, s in ipairs(seen) do
      if s.at > at and s.at < core.now() - 0.1 then during[#during + 1] = s.longest end
      if s.at > quiet + 0.1 and s.at <= at then before[#before + 1] = s.longest end
    end
    run:close()
  end
  watching:stop()
  core.fiber_wait(watcher)
  watching:close()
  say("drop: %d rows of 8, %d times: median %.0f ms, longest %.0f ms (aim 500)", opt.rows, #took,
    quantile(took, 0.5) * 1e3, quantile(took, 1) * 1e3)
  say("drop: longest pull or push of another table in 50 ms: median %.2f ms, longest %.2f ms beside it; %.2f and %.2f "
    .. "ms without (aim 5)", quantile(during, 0.5) * 1e3, quantile(during, 1) * 1e3, quantile(before, 0.5) * 1e3,
    quantile(before, 1) * 1e3)
end

local function pause(cluster)
  local examples, pauses = 0, 0
  local run <close> = cluster:start(chunked)
  while run:state() == "starting" do tide.sleep(0.001) end
  core.fiber(function()
    while run:pause(pauses % 2 == 1 and {release = true} or nil) do
      pauses = pauses + 1
      tide.sleep(0.01)
      if not run:resume() then break end
      tide.sleep(0.005)
    end
  end)
  for r in run:events "report" do examples = examples + (r.examples or 0) end
  local sum <const> = run.tables.t:pull({1})[1]
  say("pause: %d pauses, %d examples counted, %d pushed, of 400000: %s", pauses, examples, sum,
    examples == 400000 and sum == 400000 and "none lost" or "WRONG")
end

-- Operations a second of the probe, beside nothing, a run that loops, and one that fails again and again.
local function beside(cluster)
  local watching <const> = cluster:start(probe, nil, {slots = 1})
  local operations = 0
  local watcher <const> = core.fiber(function()
    for r in watching:events "report" do operations = operations + r.operations end
  end)
  local function rate()
    local at <const>, from <const> = core.now(), operations
    tide.sleep(opt.seconds)
    return (operations - from) / (core.now() - at)
  end
  local alone, looping, closing = {}, {}, {}
  rate()
  for i = 1, opt.rounds do
    alone[i] = rate()
    local run = cluster:start(endless, nil, {slots = 1})
    looping[i] = rate()
    run:cancel()
    local over = false
    local other <const> = core.fiber(function()
      while not over do
        local short <close> = cluster:start(small, nil, {slots = 1})
        short:wait()
        tide.sleep(0.05)
      end
    end)
    closing[i] = rate()
    over = true
    core.fiber_wait(other)
  end
  watching:stop()
  core.fiber_wait(watcher)
  watching:close()
  local base <const> = quantile(alone, 0.5)
  say("beside: %.0f operations a second alone; beside a run that loops x %.3f; beside runs that begin and end x %.3f "
    .. "(aim 0.95; median of %d)", base, quantile(looping, 0.5) / base, quantile(closing, 0.5) / base, opt.rounds)
end

local function group(cluster)
  local g <close> = cluster:group(Probe, nil, {})
  local function took(which)
    which:call("echo", 1)
    local times = {}
    for i = 1, 5 do
      local at <const> = core.now()
      local _, lost = which:call("echo", 1)
      assert(not lost)
      times[i] = core.now() - at
    end
    return quantile(times, 0.5)
  end
  local one <const>, all <const> = took(g:ranks {1}), took(g)
  say("group: a call of 1 member %.1f us, of %d %.1f us: x %.2f (aim: one round trip)", one * 1e6, g.size, all * 1e6,
    all / one)
end

-- Reads at each of its clocks what all have pushed; `work` is what an interval takes beside that.
local function clocked(name, clocks, work)
  return tide.job {
    name = name, tables = {t = tide.table {keys = tide.dense(64), width = 8, consistency = "ssp:1"}},
    worker = function(w)
      local at <const> = core.now()
      for _ = 1, clocks do
        w.tables.t:push({w.rank}, {{1, 1, 1, 1, 1, 1, 1, 1}})
        tide.sleep(work)
        w:clock()
        w.tables.t:pull {1, 2}
        if w:stopping() then break end
      end
      w:report {took = core.now() - at}
    end,
  }
end
local brisk <const>, sluggish <const> = clocked("brisk", 200, 0.001), clocked("sluggish", 1000, 0.05)

-- Seconds of a run's clocks, alone and beside a run whose clocks take fifty times as long.
local function clocks(cluster)
  local function took()
    local run <close> = cluster:start(brisk, nil, {slots = opt.nodes})
    run:wait()
    return run.history[1].took / opt.nodes
  end
  local alone <const> = took()
  local other <const> = cluster:start(sluggish, nil, {slots = opt.nodes})
  while other:state() == "starting" do tide.sleep(0.01) end
  local beside_it <const> = took()
  other:cancel()
  other:close()
  say("clocks: 200 clocks of 1 ms in %.3f s alone, in %.3f s beside a run of 50 ms a clock: x %.2f (aim 1.05)", alone,
    beside_it, beside_it / alone)
end

local function start(cluster)
  local took = {}
  local path <const> = os.tmpname() .. ".lua"
  assert(io.open(path, "w")):write([[
local tide = require "tide"
local job = tide.job {name = "short", tables = {t = tide.table {keys = tide.dense(10), width = 1}},
  worker = function(w) w.tables.t:push({1}, {{1}}) w:report {examples = 1} end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run <close> = cluster:start(job, nil, {slots = 2})
  run:wait()
end)]]):close()
  for i = 1, 2 * opt.rounds do
    local at <const> = core.wall()
    local run <const> = assert(cluster:submit(path))
    assert(run:wait() == "done")
    local file <close> = assert(io.open(run.host.directory .. "/reports.jsonl"))
    took[i] = tonumber(file:read("a"):match '"time":([%d.]+)') - at
  end
  os.remove(path)
  say("start: submit to first report, %d times: median %.0f ms, longest %.0f ms (aim 300)", #took,
    quantile(took, 0.5) * 1e3, quantile(took, 1) * 1e3)
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = 2}
  local parts <const> = {many = many, ends = ends, drop = drop, pause = pause}
  if opt.only == "start" then return start(cluster) end
  if opt.only == "beside" then return beside(cluster) end
  if opt.only == "group" then return group(cluster) end
  if opt.only == "clocks" then return clocks(cluster) end
  for _, name in ipairs {"many", "ends", "drop", "pause"} do
    if wants(name) then parts[name](cluster) end
  end
end)
