package.path = "tests/lua/?.lua;" .. package.path
require("support").reset()
local metrics = require "tide.show.metrics"
local slowest = require "tide.show.slowest"
local tensorboard = require "tide.show.tensorboard"
local log_lines = require "tide.show.log_lines"
local history = require "tide.run.history"

local function worker(rank, node, o)
  o = o or {}
  return {rank = rank, node = node, state = "running", reports = o.reports or 0, work_s = 0, told_wait_s = o.told or 0,
          waits = {report = o.report or 0, driver = o.driver or 0, barrier = 0, chunk = o.chunk or 0}}
end

local function node(name, id, o)
  o = o or {}
  return {name = name, id = id, state = "up", up = true, has_store = true, workers = 1, now = o.now or 0,
          rss_bytes = 1 << 20, processors = 2, links = o.links or {}, actors = {}, waited = o.waited or {},
          store = {messages = 0, keys = o.keys or 0, busy_s = o.busy_s or 0, queue = 0},
          tables = {{name = "r-1.t", waits = {pull = o.pull or {}, push = {}}, rows = 0}}, memory = o.memory}
end

local function snapshot(seconds, workers, nodes)
  return {schema = "tide.snapshot/1", time = 1e9, now = seconds, cluster = "c", view = 1, nodes = nodes,
          runs = {{name = "r-1", job = "r", run = "id", state = "running", elapsed_s = seconds, reports = 0,
                   examples = 0, on_report_s = 0, policies_s = 0, tables = {"r-1.t"}, workers = workers,
                   policies = {}}}}
end

-- Waits of one second each: the bucket from 0.5 to 1 s is the 21st, of which 0.79 s are taken.
local function seconds_of_waits(n)
  local counts = {}
  for i = 1, 21 do counts[i] = i == 21 and n or 0 end
  return counts
end

describe("what is slowest", function()
  local before

  before_each(function()
    before = snapshot(10, {worker(1, "n1"), worker(2, "n2")}, {node("n1", 1, {now = 50}), node("n2", 2, {now = 90})})
  end)

  it("is nothing when all compute", function()
    local after = snapshot(20, {worker(1, "n1"), worker(2, "n2")},
      {node("n1", 1, {now = 60}), node("n2", 2, {now = 100})})
    local f = slowest.of(before, after)[1]
    assert.equal("none", f.cause)
    assert.equal(1, f.split.computing)
    assert.truthy(f.sentence:find("nothing stands out: 100 %", 1, true))
  end)

  it("is a worker that the others wait for", function()
    local after = snapshot(20, {worker(1, "n1", {report = 5}), worker(2, "n2")},
      {node("n1", 1, {now = 60}), node("n2", 2, {now = 100})})
    local f = slowest.of(before, after)[1]
    assert.equal("worker", f.cause)
    assert.equal("worker 2", f.subject)
    assert.near(0.25, f.share, 1e-9)
  end)

  it("is a busy store, or the network where the stores are idle", function()
    local workers = {worker(1, "n1"), worker(2, "n2")}
    local function after(busy_s)
      return snapshot(20, workers, {
        node("n1", 1, {now = 60, pull = seconds_of_waits(5), waited = {["2"] = 5}}),
        node("n2", 2, {now = 100, busy_s = busy_s, keys = 1000})})
    end
    local f = slowest.of(before, after(8))[1]
    assert.equal("store", f.cause)
    assert.equal("n2", f.subject)
    assert.equal("network", slowest.of(before, after(0.01))[1].cause)
  end)

  it("is the driver behind reports", function()
    local after = snapshot(20, {worker(1, "n1", {driver = 4}), worker(2, "n2", {driver = 4})},
      {node("n1", 1, {now = 60}), node("n2", 2, {now = 100})})
    assert.equal("driver", slowest.of(before, after)[1].cause)
  end)

  it("is a hot key, where one key makes a store busy that serves it no slower than others", function()
    local after = snapshot(20, {worker(1, "n1"), worker(2, "n2")}, {
      node("n1", 1, {now = 60, pull = seconds_of_waits(5), waited = {["2"] = 5}, busy_s = 1, keys = 100}),
      node("n2", 2, {now = 100, busy_s = 8, keys = 800})})
    after.hot = {["r-1.t"] = {{key = 17, share = 0.4}}}
    local f = slowest.of(before, after)[1]
    assert.equal("hot_key", f.cause)
    assert.equal("key 17 of r-1.t", f.subject)
    after.nodes[2].store.keys = 200 -- each costs it four times as much as elsewhere
    assert.equal("store", slowest.of(before, after)[1].cause)
  end)

  it("is the dealing out of data, on_report, or the memory of a node", function()
    local nodes = {node("n1", 1, {now = 60}), node("n2", 2, {now = 100})}
    local after = snapshot(20, {worker(1, "n1", {chunk = 4}), worker(2, "n2")}, nodes)
    assert.equal("chunks", slowest.of(before, after)[1].cause)
    after = snapshot(20, {worker(1, "n1", {driver = 4}), worker(2, "n2", {driver = 4})}, nodes)
    after.runs[1].on_report_s = 3.9
    assert.equal("on_report", slowest.of(before, after)[1].cause)
    after.runs[1].on_report_s, after.runs[1].policies_s = 0, 3.9
    assert.equal("policy", slowest.of(before, after)[1].cause)
    after = snapshot(20, {worker(1, "n1"), worker(2, "n2")}, {
      node("n1", 1, {now = 60, pull = seconds_of_waits(5), waited = {["2"] = 5}}),
      node("n2", 2, {now = 100, busy_s = 8, keys = 100,
                     memory = {tier = "full", refused = 3, used_bytes = 99, cap_bytes = 100}})})
    assert.equal("memory", slowest.of(before, after)[1].cause)
  end)

  it("judges a run from its beginning without an earlier look", function()
    local after = snapshot(20, {worker(1, "n1", {driver = 8}), worker(2, "n2", {driver = 8})},
      {node("n1", 1, {now = 60}), node("n2", 2, {now = 100})})
    assert.equal("driver", slowest.of(nil, after)[1].cause)
  end)

  it("counts what goes on, and says when there is nothing to judge", function()
    assert.equal("unknown", slowest.of(before, snapshot(10.01, {}, {}))[1].cause)
    local restarted = snapshot(20, {worker(1, "n1")}, {node("n1", 1, {now = 1})})
    restarted.runs[1].run = "another"
    assert.equal("unknown", slowest.of(before, restarted)[1].cause)
  end)
end)

describe("metrics", function()
  it("have names after Prometheus' rules, help, and labels", function()
    for _, family in ipairs(metrics.families) do
      assert.truthy(family.name:find "^tide_[a-z][a-z0-9_]*$", family.name)
      assert.is_nil(family.name:find "_total$", family.name)
      assert.truthy(family.help:find "%.$", family.name)
      if family.unit then assert.truthy(family.name:find("_" .. family.unit .. "$"), family.name) end
    end
  end)

  it("escape labels and say numbers that are none", function()
    local s = snapshot(1, {}, {node('a"b\\c\nd\xff', 1)})
    s.runs[1].loss = 0 / 0
    local text = metrics.text(metrics.of(s), "openmetrics")
    assert.truthy(text:find([[tide_node_up{node="a\"b\\c\nd\\xff"} 1]], 1, true))
    assert.truthy(text:find("tide_run_loss{.*} %-?NaN"))
    assert.truthy(text:find("# EOF\n$"))
  end)

  it("leave out a node that does not answer", function()
    local text = metrics.text(metrics.of(snapshot(1, {}, {{name = "n1", id = 1, up = false}})), "prometheus")
    assert.truthy(text:find('tide_node_up{node="n1"} 0', 1, true))
    assert.is_nil(text:find("tide_resident_memory_bytes{", 1, true))
  end)

  it("have no series of a node that has left in order", function()
    local text = metrics.text(metrics.of(snapshot(1, {}, {{name = "n1", id = 1, state = "left", up = false}})),
      "prometheus")
    assert.is_nil(text:find("tide_node_up{", 1, true))
  end)
end)

describe("TensorBoard's file", function()
  it("has the checksum of RFC 3720", function() assert.equal(0xe3069283, tensorboard.crc32c "123456789") end)
end)

describe("lines of logs", function()
  it("are read in both forms, and what has no time belongs to the line before", function()
    local text = "2026-11-26 23:15:04.500 warn  n1: one\n  more\n"
      .. '{"time":"2026-11-26T23:15:05.000Z","level":"error","node":"n2","text":"two"}\n'
    local lines = log_lines.read(text, "x")
    assert.equal(3, #lines)
    assert.same({time = lines[1].time, level = "warn", node = "n1", text = "one"}, lines[1])
    assert.equal(lines[1].time, lines[2].time)
    assert.near(0.5, lines[3].time - lines[1].time, 1e-6)
    assert.equal("2026-11-26 23:15:04.500  warn   n1: one", log_lines.text(lines[1]))
    assert.equal(2, #log_lines.chosen(lines, {level = "warn", since = lines[1].time}) - 1)
  end)
end)

describe("curves of past runs", function()
  it("are thinned, and keep least, greatest and last", function()
    local reports = {}
    for i = 1, 9000 do reports[i] = {n = i, loss = i == 4321 and -5 or i == 1234 and 99 or 1, examples = 0} end
    local points = history.curve(reports, "loss", "n", 300)
    assert.is_true(#points <= 300)
    local low, high = math.huge, -math.huge
    for _, p in ipairs(points) do low, high = math.min(low, p[2]), math.max(high, p[2]) end
    assert.same({-5, 99, 9000}, {low, high, points[#points][1]})
  end)
end)
