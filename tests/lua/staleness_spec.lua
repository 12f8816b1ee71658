package.path = "tests/lua/?.lua;" .. package.path
require "support"
local staleness = require "tide.show.staleness"

local function seen(o)
  local s = {pulls = 0, over = 0, under = 0, hits = 0, waits = 0, fetches = 0, clocks = 0, waited_s = 0, clock_s = 0,
             stopped_s = 0, stops = 0, hist = {}}
  for k, v in pairs(o) do s[k] = v end
  return s
end

local function node(o)
  local s = seen(o)
  for _, field in ipairs {"value_bytes", "answer_bytes", "delta_bytes", "confirm_bytes", "excess", "early_bytes",
                          "forced_bytes"} do
    s[field] = o[field] or 0
  end
  s.workers = o.workers or {}
  return {consistency = "essp:2", staleness = s}
end

local function two_nodes()
  local one = seen {worker = 1, hist = {10}, pulls = 10, clocks = 5, waited_s = 1}
  local old = seen {worker = 9, hist = {3}, pulls = 3, clocks = 3}
  return {
    {after = node {hist = {13}, pulls = 13, clocks = 8, waited_s = 1, value_bytes = 100, answer_bytes = 30,
                   workers = {one, old}},
     before = node {hist = {3}, pulls = 3, clocks = 3, workers = {old}}},
    {after = node {hist = {2, 0, 8}, pulls = 10, clocks = 5, clock_s = 1, delta_bytes = 7,
                   workers = {seen {worker = 2, hist = {2, 0, 8}, pulls = 10, clocks = 5, clock_s = 1}}}},
  }
end

describe("staleness", function()
  it("is added up over nodes, less what was before, worker by worker", function()
    local s = staleness.sum(two_nodes())
    assert.same({12, 0, 8}, s.hist)
    assert.equal(20, s.pulls)
    assert.equal(-(12 + 24) / 20, s.mean)
    assert.is_true(math.abs(s.var - ((12 + 72) / 20 - 1.8 ^ 2)) < 1e-12)
    assert.equal(10, s.clocks)
    assert.equal(0.2, s.wait_s_per_clock)
    assert.same({pushed = 70, answered = 30, updates = 7, confirmed = 0}, s.bytes)
    assert.equal(-1, s.workers[1].mean)
    assert.is_true(math.abs(s.workers[2].mean + 2.6) < 1e-12)
    assert.is_nil(s.workers[9]) -- of a run before
  end)

  it("is nil of a table without clocks", function()
    assert.is_nil(staleness.sum {{after = {rows = 1}, before = {}}})
    assert.is_nil(staleness.of_run({w = "job.w"}, {{after = {tables = {["job.w"] = {rows = 1}}}, before = {}}}))
  end)

  it("prints a line a worker, what waited and what was sent", function()
    local text = staleness.text(staleness.sum(two_nodes()))
    assert.truthy(text:find("^consistency essp:2\n"))
    assert.truthy(text:find("\n +2 +10 +%-2%.60 +0%.64 +1: 20%.0%%, 3: 80%.0%% +5 +200 ms\n"))
    assert.truthy(text:find("waited: pulls 1 s, clocks 1 s, pushes 0 s; sent: pushed 70 B, answered 30 B, updates 7 B",
      1, true))
  end)

  it("is drawn as bars of shares, as deep as the deepest", function()
    local s = staleness.sum(two_nodes())
    local bars = staleness.bars {{name = "all", staleness = s}, {name = "one", staleness = s.workers[1]}}
    assert.same({"-1", "-2", "-3"}, bars.groups)
    assert.same({60, 0, 40}, bars.series[1].values)
    assert.same({100}, bars.series[2].values)
  end)
end)

describe("sync policies", function()
  local function decide(name, params, view)
    local policy = dofile("scripts/policies/sync/" .. name .. ".lua")
    for k, v in pairs(policy.params) do if params[k] == nil then params[k] = v end end
    return policy.decide(policy.init(params), view).consistency
  end
  local function view(consistency, waits, clocks)
    local workers = {}
    for i in ipairs(waits) do workers[i] = {id = i, clock_s = clocks and clocks[i]} end
    return {table = {consistency = consistency}, waits = waits, workers = workers}
  end

  it("adaptive doubles the bound while workers wait, and takes it back when they do not", function()
    assert.equal("essp:4", decide("adaptive", {}, view("essp:2", {0.3, 0})))
    assert.equal("ssp:1", decide("adaptive", {}, view("ssp:0", {0.3, 0})))
    assert.equal("essp:3", decide("adaptive", {most = 3}, view("essp:2", {0.3, 0})))
    assert.equal("essp:1", decide("adaptive", {}, view("essp:2", {0, 0})))
    assert.is_nil(decide("adaptive", {}, view("essp:0", {0, 0})))
    assert.is_nil(decide("adaptive", {}, view("essp:2", {0.05, 0.05})))
    assert.is_nil(decide("adaptive", {}, view("essp:2", {})))
  end)

  it("adaptive keeps the model, whatever it is", function()
    assert.equal("vap:0.02:flat", decide("adaptive", {}, view("vap:0.01:flat", {0.3})))
    assert.equal("vap:0.008", decide("adaptive", {}, view("vap:0.01", {0})))
    assert.is_nil(decide("adaptive", {}, view("bsp", {0.3})))
    assert.is_nil(decide("adaptive", {}, view("async:50ms", {0.3})))
  end)

  it("dynamic lets the fastest end its clocks when the slowest ends one", function()
    assert.equal("ssp:4", decide("dynamic", {}, view("ssp:1", {0, 0}, {0.1, 0.3})))  -- 3 of 0.1 s in 0.3 s
    assert.equal("essp:2", decide("dynamic", {}, view("essp:8", {0, 0}, {0.3, 0.3})))
    assert.is_nil(decide("dynamic", {}, view("ssp:4", {0, 0}, {0.1, 0.31})))         -- near enough
    assert.equal("ssp:4", decide("dynamic", {}, view("ssp:1", {0.5, 0}, {0.2, 0.3}))) -- half of its clock it waited
    assert.is_nil(decide("dynamic", {}, view("vap:1", {0, 0}, {0.1, 0.3})))
    assert.is_nil(decide("dynamic", {}, view("ssp:1", {0, 0})))
  end)
end)
