-- `tide sim --profile runs`: a shared cluster on which hosts come and go, and what must hold of their runs.
--
-- The driver makes the cluster and does to it what users and bad luck do: it starts hosts on nodes, lists runs, gives
-- them verbs (several at a time, with odd values), kills hosts, crashes nodes with workers and the controller. A host
-- is what `tide run --cluster` runs, driver.lua's actor, with this same script.
--
--   slots      no node has more slots given out than workers; when all is over every slot is free
--   states     an ended run stays as it is and holds nothing
--   ends       every run ends in one of its states, soon after the chaos
--   examples   a run that is done has counted every example of every pass, once
--   left       no worker and no table is left
local keeper = require "tide.keeper"
local script = require "tide.script"
local text = require "tide.text"
local tide = require "tide"
local core = require "tide.core"
local runs = require "tide.cluster.runs"
local sim = require "tide.sim"

local opt = tide.options {
  to = {"address that a host tells of its run", default = ""},
  slots = {"that a host asks for; 0: all that are free", default = 0},
  passes = {"of a host's job", default = 3},
  fails = {"the pass in which its worker raises", default = 0},
  fixed = {"its work is bound to ranks", type = "boolean", default = false},
}

local DATA <const>, CHUNKS <const> = 60, 12
local CHAOS_S <const>, END_S <const> = 8, 60
local DRIVER <const> = [[return require("tide.run.driver").main(...)]]

---- a host ----------------------------------------------------------------------------------------------------------

local spec = {
  name = "work", params = {eps = 1},
  tables = {t = tide.table {keys = tide.dense(50), width = 2}, c = tide.table {keys = tide.hashed {}, width = 1}},
}

local function step(w, count)
  if opt.fails > 0 and w.passed == opt.fails - 1 then error("as planned", 0) end
  w.tables.t:push({w.rng:below(50)}, {{count, w.params.eps}}, {async = true})
  w.tables.c:push({w.rng:below(1000)}, {{1}})
  tide.sleep(0.002 + 0.02 * w.rng:uniform())
end

if opt.fixed then
  spec.worker = function(w)
    for pass = 1, opt.passes do
      w.passed = pass - 1
      for _ = 1, CHUNKS // 4 do step(w, 1) end
      w:report {examples = 1, share = 1 / w.workers}
      if w:stopping() then break end
    end
  end
else
  spec.data, spec.chunks, spec.on_worker_loss = DATA, CHUNKS, "replay"
  spec.worker = function(w)
    for pass = w.passes + 1, opt.passes do
      w.passed = pass - 1
      for chunk in w:chunks() do
        step(w, chunk.count)
        chunk:report {examples = chunk.count}
      end
      w:report {share = 0}
      if w:stopping() then break end
    end
  end
end
local job <const> = tide.job(spec)

local function host()
  local cluster <close> = tide.cluster {}
  local run <close> = cluster:start(job, nil, opt.slots > 0 and {slots = opt.slots} or nil)
  local examples, share = 0, 0
  for report in run:events "report" do
    examples, share = examples + report.examples, share + (report.share or 0)
  end
  run:wait()
  core.send(opt.to, {name = run.name, examples = examples, share = share, passes = opt.passes, fixed = opt.fixed,
    state = run:state()})
end

---- on every node ---------------------------------------------------------------------------------------------------

local Place = tide.actor {
  name = "place",
  start = function(self, a) self.a, self.hosts = a, {} end,
  -- A host begins here.
  begin = function(self, id, words)
    local a <const> = self.a
    self.hosts[id] = core.spawn {source = DRIVER, chunk = "@tide/driver.lua", role = "control", argument = {
      run = id, attached = true, cluster_name = a.cluster, quiet = true, simulated = true, interrupts = 0,
      script = {text = a.text, path = a.path, sha = a.sha, args = words,
        args_sha = script.args_sha(words)}}}
  end,
  -- As its process would: with all that is in it.
  kill = function(self, id, controller)
    if self.hosts[id] then core.kill(self.hosts[id]) end
    if controller then core.kill(controller) end
  end,
}

---- the driver ------------------------------------------------------------------------------------------------------

local ALLOWED <const> = {T0513 = true, T0507 = true, T0603 = true, T0113 = true, T0115 = true, T0117 = true,
  T0501 = true, T0508 = true, T0210 = true, T0601 = true, T0505 = true, T0502 = true, T0509 = true}
local WORDS <const> = {examples = "counted", slots = "given out"}

local function fail(checker, ...) error(("%s: %s"):format(checker, (...):format(select(2, ...))), 0) end

-- What is done to the cluster, and what is seen of it.
local chaos = {}
chaos.__index = chaos

function chaos:rows()
  local answer <const>, err = keeper.ask({op = "list", all = true}, 5)
  if not answer then self.why_not = err.message end
  return answer and answer.runs
end

function chaos:look()
  local rows <const> = self:rows()
  if not rows then return end
  local workers, given, ended = {}, {}, self.ended
  for _, member in ipairs(core.members()) do workers[member.name] = member.workers or 0 end
  for _, row in ipairs(rows) do
    local is_over <const> = keeper.ENDED[row.state]
    if ended[row.n] and ended[row.n] ~= row.state then
      fail("states", "run %s was %s and is %s", row.name, ended[row.n], row.state)
    end
    if is_over and next(row.grant or {}) then fail("states", "run %s is %s and holds slots", row.name, row.state) end
    ended[row.n] = is_over and row.state or nil
    for node, slots in pairs(row.grant or {}) do given[node] = (given[node] or 0) + slots end
  end
  for node, slots in pairs(given) do
    if slots > (workers[node] or 0) then
      fail("slots", "%d slots of node %s are %s, it has %d", slots, node, WORDS.slots, workers[node] or 0)
    end
  end
  return rows
end

function chaos:begin()
  self.started = self.started + 1
  local id <const> = "host-" .. self.started
  local place <const> = self.ranks[1 + sim.rng:below(#self.ranks)]
  self.hosts[id] = place
  local words <const> = {"--to", core.self(), "--slots", tostring(sim.rng:below(5)), "--passes",
    tostring(1 + sim.rng:below(8))}
  if sim.rng:below(4) == 0 then table.move({"--fails", tostring(1 + sim.rng:below(3))}, 1, 2, #words + 1, words) end
  if sim.rng:below(4) == 0 then words[#words + 1] = "--fixed" end
  self.places:ranks {place}:cast("begin", id, words)
  local soon <const> = sim.rng:below(6)
  if soon > 1 then return end
  for _ = 1, 100 do -- it is cancelled as soon as it is known, or its host ends as it makes its tables
    core.sleep(0.0005)
    local found <const> = self.cluster:run(id)
    if found and soon == 0 then return found:cancel() end
    if found and found.state ~= "queued" then
      core.sleep(0.005 * sim.rng:uniform())
      return self.places:ranks {place}:cast("kill", id, found.controller)
    end
  end
end

local VERBS <const> = {
  function(r) return r:pause() end,
  function(r) return r:pause {release = true} end,
  function(r) return r:resume {timeout = 5} end,
  function(r) return r:set {eps = sim.rng:uniform()} end,
  function(r) return r:set {nothing = 1} end,
  function(r) return r:set_workers(1 + sim.rng:below(6)) end,
  function(r) return r:stop() end,
  function(r) return r:stop {within = 0.5} end,
  function(r) return r:cancel() end,
}

-- An active one, if there is any.
function chaos:any_run()
  local rows <const> = keeper.ask({op = "list"}, 5)
  if not rows or #rows.runs == 0 then return nil end
  return self.cluster:run(rows.runs[1 + sim.rng:below(#rows.runs)].name)
end

function chaos:steer()
  local r <const> = self:any_run()
  if not r then return end
  local ok, err = VERBS[1 + sim.rng:below(#VERBS)](r)
  if not ok and not ALLOWED[err.code or "none"] then
    fail("verbs", "run %s: %s: %s", r.name, tostring(err.code), tostring(err.message))
  end
end

function chaos:kill_one()
  local r <const> = self:any_run()
  if r and r.uid and self.hosts[r.uid] then
    self.places:ranks {self.hosts[r.uid]}:cast("kill", r.uid, r.controller)
  end
end

function chaos:fibers(until_s)
  local fibers = {}
  for i = 1, 3 do
    fibers[i] = core.fiber(function()
      while core.now() < until_s - 1 and not self.problem do
        core.sleep(0.3 * sim.rng:uniform())
        local what <const> = sim.rng:below(12)
        local ok, err = pcall(what < 3 and self.begin or what < 11 and self.steer or self.kill_one, self)
        if not ok then self.problem = self.problem or err end
      end
    end)
  end
  if self.crashable[1] and sim.rng:below(2) == 0 then
    fibers[#fibers + 1] = core.fiber(function()
      core.sleep(2 + 6 * sim.rng:uniform())
      sim.fault("crash", {node = self.crashable[1 + sim.rng:below(#self.crashable)]})
    end)
  end
  return fibers
end

-- What is left is ended; whatever is suspended or queued too.
function chaos:end_all()
  local deadline <const> = core.now() + END_S
  local left
  repeat
    left = {}
    for _, row in ipairs(self:look() or {{name = self.why_not, state = "?"}}) do
      if not keeper.ENDED[row.state] then
        left[#left + 1] = row.name .. " " .. row.state
        if row.n and sim.rng:below(8) == 0 then keeper.ask {op = "verb", name = tostring(row.n), verb = "cancel"} end
      end
    end
    core.sleep(0.25)
  until #left == 0 or core.now() > deadline
  if #left > 0 then fail("ends", "%s go on", table.concat(left, ", ")) end
end

local function check_examples(results)
  for _, one in ipairs(results) do
    local full <const> = one.fixed and one.share or one.examples / DATA
    if one.state == "done" and math.abs(full - one.passes) > 1e-6 then
      fail("examples", "%s is done: %g passes of %d are %s", one.name, full, one.passes, WORDS.examples)
    end
  end
end

---@return integer hosts that were started
function chaos.run(cluster, places, ranks, crashable, results)
  local self <const> = setmetatable({cluster = cluster, places = places, ranks = ranks, crashable = crashable,
    ended = {}, hosts = {}, started = 0, why_not = ""}, chaos)
  local until_s <const> = core.now() + CHAOS_S
  local watcher <const> = core.fiber(function()
    while core.now() < until_s and not self.problem do
      local ok, err = pcall(self.look, self)
      if not ok then self.problem = err end
      core.sleep(0.05)
    end
  end)
  for _, fiber in ipairs(self:fibers(until_s)) do core.fiber_wait(fiber) end
  core.fiber_wait(watcher)
  if self.problem then error(self.problem, 0) end
  self:end_all()
  check_examples(results)
  return self.started
end

local function check_left()
  local deadline <const> = core.now() + 20
  local what
  repeat
    core.sleep(0.25)
    what = nil
    local held <const> = keeper.ask {op = "held"}
    if not held or held.free ~= held.total then what = ("slots: %d of %d are free"):format(held and held.free or -1,
      held and held.total or -1) end
    for _, entry in ipairs(core.tables()) do what = "left: table " .. entry.name end
    for _, member in ipairs(core.members()) do
      local agent <const> = member.state == "up" and core.whereis(member.name .. "/agent")
      local answer <const> = agent and core.call(agent, {op = "status"}, 5)
      for _, actor in ipairs(answer and answer.actors or {}) do
        if actor.type == "worker" then what = ("left: a worker, %s on %s"):format(actor.address, member.name) end
      end
    end
  until not what or core.now() > deadline
  if what then error(what, 0) end
end

local function drive()
  local rng <const> = sim.rng
  sim.net {latency = {"20us", ("%dus"):format(100 + rng:below(3000))}}
  local workers <const>, nodes <const> = 1 + rng:below(3), 2 + rng:below(3)
  local made, cluster = pcall(tide.cluster, {nodes = nodes, servers = 1, workers = workers,
    controllers = rng:below(2) == 0 and 3 or nil})
  if not made then cluster = tide.cluster {nodes = nodes, servers = 1, workers = workers} end -- without the plugin
  local _ <close> = cluster
  runs.keep()
  local places <const> = cluster:group(Place, {cluster = core.node().cluster, text = script.source, path = script.path,
    sha = core.sha256(script.source)}, {restart = 0})
  local ranks, crashable = {}, {}
  for _, m in ipairs(places:members()) do
    ranks[#ranks + 1] = m.rank
    if m.node:find "^n" and nodes > 2 then crashable[#crashable + 1] = m.node end
  end
  for _, member in ipairs(core.members()) do
    if member.name == "c1" then crashable = {"c1"} end
  end
  local results <const> = {}
  core.fiber(function()
    while true do
      local message <const> = core.receive()
      local one <const> = message and message.value
      if type(one) == "table" and one.name then results[#results + 1] = one end
    end
  end)
  local started <const> = chaos.run(cluster, places, ranks, crashable, results)
  check_left()
  local by_state = {}
  for _, row in ipairs(keeper.ask({op = "list", all = true}).runs) do
    by_state[row.state] = (by_state[row.state] or 0) + 1
  end
  local words = {}
  for _, state in ipairs(text.sorted_keys(by_state)) do
    words[#words + 1] = ("%d %s"):format(by_state[state], state)
  end
  print(("%d hosts: %s; %d told of their runs"):format(started, table.concat(words, ", "), #results))
  places:close()
end

tide.main(function()
  if opt.to ~= "" then return host() end
  drive()
end)
