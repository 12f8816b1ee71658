-- What the dashboard makes of snapshots, and how it answers requests.
package.path = "tests/lua/?.lua;" .. package.path
require "support"
local state = require "tide.dashboard.state"

local function node(id, o)
  local n <const> = {id = id, name = "n" .. id, state = "up", up = true, workers = 1, now = 100, rss_bytes = 1000,
    cpu_s = 10, processors = 2, store = {busy_s = 1}, actors = {{type = "store", handling_s = 1, messages = 10}},
    links = {}, tables = {}}
  for k, v in pairs(o or {}) do n[k] = v end
  return n
end

local function snapshot(now, nodes, runs)
  return {schema = "tide.snapshot/1", time = 1e9 + now, now = now, cluster = "lab", view = 3, nodes = nodes,
          runs = runs or {}}
end

local function run(o)
  local r <const> = {name = "mf-1", job = "mf", state = "running", loss = 0.5, examples_per_s = 100, reports = 3,
    workers = {}, policies = {}}
  for k, v in pairs(o or {}) do r[k] = v end
  return r
end

describe("the dashboard's state", function()
  it("has rates of what counters grew between two snapshots", function()
    local t0 <const> = {name = "t", rows = 5, memory_bytes = 50, pulls_local = 10, pulls_remote = 0, pushes_local = 0,
      pushes_remote = 0, bytes_out = 0}
    local t1 <const> = {name = "t", rows = 6, memory_bytes = 60, pulls_local = 40, pulls_remote = 10,
      pushes_local = 0, pushes_remote = 0, bytes_out = 100}
    local sample <const>, now <const> = state.of(snapshot(12, {node(2, {now = 102, cpu_s = 11, tables = {t1},
      links = {{peer = 3, up = true, bytes_out = 500, round_trip_ns = 2e6}}}), node(3)}),
      snapshot(10, {node(2, {tables = {t0}, links = {{peer = 3, bytes_out = 100, round_trip_ns = 0}}}), node(3)}))
    assert.equal(0.5, now.nodes[1].cpu)
    assert.equal(200, now.nodes[1].links[1].sent)
    assert.equal(0.002, now.nodes[1].links[1].round_trip_s)
    assert.equal(15, now.tables[1].pulls_local)
    assert.equal(50, now.tables[1].wire)
    assert.equal(6, now.tables[1].rows)
    assert.equal(0.75, sample.near)
    assert.equal(200, sample.wire)
    assert.equal(2, sample.up)
  end)

  it("takes no rate of a counter that began anew, of a node that is new, or that did not answer", function()
    local sample <const>, now <const> = state.of(snapshot(12, {node(2, {now = 102, cpu_s = 1}), node(4),
      {id = 3, name = "n3", state = "up", up = false, workers = 1}}), snapshot(10, {node(2), node(3)}))
    assert.equal(0, now.nodes[1].cpu)
    assert.equal(0, now.nodes[2].cpu)
    assert.is_nil(now.nodes[3].cpu)
    assert.equal(3, sample.nodes)
    assert.equal(2, sample.up)
  end)

  it("counts neither drivers nor nodes that have left", function()
    local sample <const>, now <const> = state.of(snapshot(1, {node(1, {bare = true}), node(2),
      {id = 3, name = "n3", state = "left", up = false}, {id = 4, name = "n4", state = "dead", up = false}}))
    assert.equal(2, sample.nodes)
    assert.equal(1, sample.up)
    assert.is_true(now.nodes[3].left)
    assert.is_nil(now.nodes[4].left)
  end)

  it("tells the bound that 99 of 100 waiting pulls stayed below", function()
    local function waits(counts) return {{name = "t", waits = {pull = counts, push = {}}}} end
    local before <const> = snapshot(1, {node(2, {tables = waits {1000}})})
    local sample = state.of(snapshot(2, {node(2, {tables = waits {1098, 1, 1}})}), before)
    assert.equal(2e-6, sample.p99)
    sample = state.of(snapshot(2, {node(2, {tables = waits {1000}})}), before)
    assert.is_nil(sample.p99)
  end)

  it("says where workers' time went", function()
    local function worker(work, barrier)
      return {{rank = 1, node = "n2", state = "running", reports = 1, work_s = work,
               waits = {barrier = barrier, chunk = 0, driver = 0, report = 0}}}
    end
    local _, now = state.of(snapshot(20, {}, {run {workers = worker(6, 3)}}), snapshot(19, {}, {run {}}),
      {window = snapshot(10, {}, {run {workers = worker(0, 0)}})})
    local w <const> = now.runs[1].workers[1]
    assert.equal(0.3, w.waits.barrier)
    assert.equal(0.6, w.work)
    assert.is_true(math.abs(w.rest - 0.1) < 1e-9)
  end)

  it("shows statistics of layers", function()
    local _, now = state.of(snapshot(1, {}, {run {layers = {{layer = "fc1", of = "values", mean = 0.5, std = 1 / 0,
      max = 3, zeros = 0, bad = 1}}}}))
    assert.same({{"fc1", "values", 0.5, false, 3, 0, 1}}, now.runs[1].layers)
    _, now = state.of(snapshot(1, {}, {run {}}))
    assert.is_nil(now.runs[1].layers)
  end)

  it("is JSON whatever names and numbers there are", function()
    local evil <const> = "<script>\xff\0"
    local sample <const>, now <const> = state.of(snapshot(1, {node(2, {name = evil, tables = {{name = evil}}})},
      {run {name = evil, loss = 0 / 0, examples_per_s = 1 / 0, why = evil}}), nil, {problem = nil})
    assert.is_true(now.runs[1].diverged)
    assert.is_nil(now.runs[1].loss)
    assert.is_false(sample.runs[1][2])
    assert.truthy(utf8.len(now.nodes[1].name))
    assert.truthy(utf8.len(now.tables[1].name))
    assert.truthy(utf8.len(state.clean {[evil] = {evil}}[state.text(evil)][1]))
  end)
end)

describe("who holds memory", function()
  it("is named by table, mail, links and the rest, over all nodes", function()
    local t <const> = {name = "t", memory_bytes = 300}
    local small <const> = {name = "s", memory_bytes = 20}
    local sample <const>, now <const> = state.of(snapshot(1, {node(2, {tables = {t, small}, rss_bytes = 1000,
      actors = {{type = "store", mailbox_bytes = 50}}, links = {{peer = 3, queue_bytes = 30}}}), node(3)}))
    assert.same({320, 50, 30, 600}, now.nodes[1].owners)
    assert.same({{"table t", 300}, {"table s", 20}, {"mail", 50}, {"links", 30}, {"processes", 1600}}, sample.owners)
  end)
end)

describe("saved runs on the page", function()
  local decode <const> = require("tide.core").json_decode
  local history <const> = require "tide.run.history"
  local saved <const> = require "tide.dashboard.saved"
  local list_of <const>, reports_of <const>, find <const> = history.list, history.reports, history.find
  local bad <const> = "\27[31m<img src=x onerror=alert(1)>\xff\xfe"
  local runs

  before_each(function()
    runs = {
      {id = "a", name = "mf-1", job = "mf", state = "done", user = "ann", loss = 0.5, params = {rank = 8, eps = 0.1},
        tags = {"best"}, started_at = 1, directory = "/none/a"},
      {id = "b", name = "mf-2", job = "mf", state = "failed", user = "bob", loss = 0.25, params = {rank = 64},
        why = "boom", started_at = 2, directory = "/none/b"},
      {id = "c", name = bad, job = ("x"):rep(10240), state = "running", loss = 0 / 0,
        params = {[bad] = bad, rank = 1e400}, note = bad, started_at = 3, directory = "/none/c"},
    }
    history.list = function() return runs end
    history.find = function(id)
      for _, r in ipairs(runs) do if r.id == id then return r end end
    end
    history.events = function() return {} end
  end)
  after_each(function() history.list, history.reports, history.find = list_of, reports_of, find end)

  local function ids(query)
    local status <const>, kind <const>, text <const> = saved.runs(nil, query)
    assert.equal(200, status)
    assert.equal("application/json", kind)
    assert.is_truthy(utf8.len(text))
    local names = {}
    for i, r in ipairs(decode(text).runs) do names[i] = r.id end
    return table.concat(names, " ")
  end

  it("are chosen by words and by conditions of fields, params and tags", function()
    assert.equal("a b c", ids "")
    assert.equal("a b", ids "filter=mf%20rank")
    assert.equal("b", ids "filter=BOOM")
    assert.equal("b", ids "filter=loss%3C0.3")
    assert.equal("a", ids "filter=rank%3D8")
    assert.equal("b", ids "filter=rank%3E%3D64%20rank%3C1000")
    assert.equal("a", ids "filter=tag%3Dbest")
    assert.equal("b", ids "filter=tag!%3Dbest%20mf")
    assert.equal("", ids "filter=nosuch%3D1")
  end)

  it("are sorted by any field, those without it last", function()
    assert.equal("b a c", ids "sort=loss")
    assert.equal("a b c", ids "sort=loss&descending=1")
    assert.equal("a c b", ids "sort=eps")
    assert.equal("c b a", ids "sort=started&descending=1")
  end)

  it("are JSON whatever their names, tags and numbers are", function()
    local _, _, text <const> = saved.runs(nil, "")
    assert.is_nil(text:find "\27")
    assert.is_truthy(decode(text).runs[3].name:find("<img", 1, true)) -- text, which the page takes as text
  end)

  it("are points of a scatter chart where both fields are finite numbers", function()
    local _, _, text = saved.scatter(nil, "x=rank&y=loss&colour=eps")
    assert.same({{64, 0.25, false, "b"}, {8, 0.5, 0.1, "a"}}, decode(text).points)
    assert.equal(400, (saved.scatter(nil, "x=rank")))
    history.reports = function() return {{n = 1, loss = 1}, {n = 2, loss = 0 / 0}, {n = 3, loss = 3}} end
    _, _, text = saved.scatter(nil, "x=n&y=loss&runs=a")
    assert.same({{1, 1, false, "a"}, {3, 3, false, "a"}}, decode(text).points)
    assert.equal(404, (saved.scatter(nil, "x=n&y=loss&runs=nosuch")))
  end)

  it("have histograms over their reports, of bins that any report has", function()
    history.reports = function()
      return {{n = 1, ["w_bin_-1"] = 1, w_bin_1 = 3, w_std = 1}, {n = 2, w_bin_0 = 4}}
    end
    local _, _, text <const> = saved.histogram(nil, "runs=a")
    local answer <const> = decode(text)
    assert.same({-1, 0, 1}, answer.bins)
    assert.same({{1, {0.25, 0, 0.75}}, {2, {0, 1, 0}}}, answer.columns)
    assert.same({"w"}, answer.fields)
    assert.same({"w_std"}, history.names(history.reports()))
  end)
end)
