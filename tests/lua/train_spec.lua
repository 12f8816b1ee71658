-- The parts of running a script that need no node: jobs, table declarations, data cuts, the controller's bookkeeping,
-- the summary. The core is a fake that keeps what is sent.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local fake

local function fresh() fake = require "tests.lua.fresh"() end

local function caught(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return err
end

describe("a job", function()
  before_each(fresh)

  it("names the nearest known field for an unknown one", function()
    local err = caught(require("tide.run.job").new, {name = "j", worker = print, evaluat = {}})
    assert.equal("T0203", err.code)
    assert.match("evaluat", err.message)
    assert.match("evaluate", err.help)
  end)

  it("refuses a name that is no identifier, and a missing worker", function()
    local job = require "tide.run.job"
    assert.equal("T0203", caught(job.new, {name = "Bad Name", worker = print}).code)
    assert.equal("T0203", caught(job.new, {name = "j"}).code)
    assert.equal("T0203", caught(job.new, {name = "j", worker = 3}).code)
  end)

  it("refuses a second job of the same name", function()
    local job = require "tide.run.job"
    job.new {name = "j", worker = print}
    assert.match("two jobs", caught(job.new, {name = "j", worker = print}).message)
  end)

  it("made inside main is refused with T0206", function()
    require("tide.script").in_main = true
    assert.equal("T0206", caught(require("tide.run.job").new, {name = "j", worker = print}).code)
  end)

  it("finds an upvalue that only main fills", function()
    local cluster
    local j = require("tide.run.job").new {name = "j", worker = function() return cluster end}
    j:remember_upvalues()
    assert.is_true(j:check_upvalues())
    cluster = {}
    local ok, err = j:check_upvalues()
    assert.is_nil(ok)
    assert.equal("T0206", err.code)
    assert.match("`cluster`", err.message)
  end)
end)

describe("a table declaration", function()
  before_each(fresh)

  it("fills in rule and initial values", function()
    local spec = require "tide.run.table_spec"
    local t = spec.new {keys = spec.dense(10), width = 4}
    assert.same({"dense", 10}, t.keys)
    assert.same({"add"}, t.update)
    assert.same({"zero"}, t.init)
  end)

  it("refuses unknown fields, rules, techniques and sizes", function()
    local spec = require "tide.run.table_spec"
    local function refused(fields, pattern)
      local err = caught(spec.new, fields)
      assert.equal("T0204", err.code)
      assert.match(pattern, err.message)
    end
    refused({keys = {"dense", 1}, width = 4, widht = 3}, "widht")
    refused({keys = {"dense", 1}, width = 4, update = "adagrat"}, "adagrat")
    refused({keys = {"dense", 1}, width = 4, technique = "teleport"}, "teleport")
    assert.equal("relocate", spec.new({keys = {"dense", 1}, width = 4, technique = "relocate"}).technique)
    refused({keys = {"dense", 1}, width = 0}, "width")
    refused({keys = {"dense", 1}, width = 1.5}, "width")
    refused({width = 4}, "keys")
    assert.equal("T0204", caught(spec.dense, -1).code)
    assert.equal("T0204", caught(spec.normal, {}).code)
  end)
end)

describe("cutting data", function()
  before_each(fresh)

  it("gives every row to exactly one worker, in pieces of nearly equal size", function()
    for _, case in ipairs {{0, 3}, {1, 4}, {7, 3}, {100, 4}, {101, 7}} do
      local count, workers = case[1], case[2]
      local at = 1
      for rank = 1, workers do
        local first, n = require("tide.run.data_sets").piece(count, rank, workers)
        assert.equal(at, first)
        assert.is_true(n >= count // workers and n <= count // workers + 1)
        at = at + n
      end
      assert.equal(count + 1, at)
    end
  end)

  it("reads nothing until something is asked for, and then once", function()
    local data = require "tide.data"
    local reads = 0
    local set = data.lazy(function()
      reads = reads + 1
      return {parts = {}, count = 5, note = "n"}
    end)
    assert.equal(0, reads)
    assert.equal(5, set.count)
    assert.equal("n", set.note)
    assert.equal(1, reads)
  end)

  it("raises the reader's error with its place", function()
    local data = require "tide.data"
    local set = data.lazy(function() return nil, {code = "T0402", where = "train.txt:3", message = "two columns"} end)
    local err = caught(function() return set.count end)
    assert.equal("train.txt:3", err.where)
  end)

  it("names a part that is not there", function()
    local data = require "tide.data"
    local set = data.lazy(function() return {parts = {}} end)
    assert.match("`dev`", caught(function() return set:part "dev" end).message)
  end)

  it("of one's own hands each worker its range", function()
    local data = require "tide.data"
    local set = data.source {count = 10, read = function(first, last) return {first, last} end}
    assert.same({4, 6}, set:cut(2, 3, 1):examples())
    assert.equal(3, set:cut(2, 3, 1).count)
  end)
end)

local JOB <const> = [[
local tide = require "tide"
tide.job {name = "j", worker = function(w) return w end, params = {eps = 1}, stop = {epochs = 3},
  evaluate = {e = function() return 6, 2 end},
  on_report = function(run, sum) run.state.n = (run.state.n or 0) + 1; return {eps = sum.loss + run.state.n} end}
]]

local function start_controller(text, changes, start)
  local controller = require "tide.run.controller"
  local script = require "tide.script"
  local a = {
    run = "r", script = fake.script_of(text or JOB), job = "j", seed = 1, params = {eps = 1}, tables = {},
    nodes = {{name = "n1", id = 2, agent = "a:1", workers = 2}, {name = "n2", id = 3, agent = "a:2", workers = 1}},
  }
  for k, v in pairs(changes or {}) do a[k] = v end
  local c = controller.new(a)
  assert(script.load {text = a.script.text, path = "x.lua", args = {}, role = "controller"})
  c.job = script.jobs.j
  c[start or "start"](c)
  return c
end

local function from(c, rank, value)
  value.rank, value.life = rank, c.workers[rank].life
  c.requested:handle {kind = "cast", right = "node", from = "w:" .. rank, value = value}
end

local function events_of(c)
  local events = {}
  repeat
    c.requested:handle {kind = "call", right = "node", from = "d:1", call = 1, value = {op = "next", hold = c.hold,
      after = c.outbox.sent}}
    fake.time = fake.time + 1
    c:tick()
    local answer <const> = fake.answers[#fake.answers].value
    for _, text in ipairs(answer.items) do events[#events + 1] = require("tide.run.outbox").decoded(text) end
  until c.outbox.sent == c.outbox.last
  return events
end

local function sent_to(address, op)
  local list = {}
  for _, s in ipairs(fake.sent) do
    if s.to == address and s.value.op == op then list[#list + 1] = s.value end
  end
  return list
end

describe("the controller of a run", function()
  before_each(fresh)

  it("starts ranks node by node and lets them go when all are ready", function()
    local c = start_controller()
    assert.equal("a:1", c.workers[2].node.agent)
    assert.equal("a:2", c.workers[3].node.agent)
    from(c, 1, {op = "ready"})
    from(c, 2, {op = "ready"})
    assert.equal(0, #sent_to("w:1", "go"))
    from(c, 3, {op = "ready"})
    for rank = 1, 3 do assert.equal(1, #sent_to("w:" .. rank, "go")) end
  end)

  it("tells workers whether a machine has fewer processors than workers", function()
    local function crowded(one, other)
      fresh()
      fake.machines = {["a:1"] = one, ["a:2"] = other}
      return start_controller().crowded
    end
    local function machine(id, processors) return {id = id, processors = processors} end
    assert.is_true(crowded(machine("x", 2), machine("x", 2))) -- two workers and one
    assert.is_false(crowded(machine("x", 2), machine("y", 2)))
    assert.is_false(crowded(machine("x", 3), machine("x", 3)))
    assert.is_true(crowded(machine("x", 1), machine("y", 8)))
    assert.is_false(crowded(machine("", 2), machine("", 1))) -- each its own
    assert.is_false(crowded(machine("", 0), machine("", 0))) -- simulated
    assert.is_false(crowded(nil, machine("x", 1)))           -- does not say
  end)

  it("sums reports, asks on_report, and answers only when all have reported", function()
    local c = start_controller()
    from(c, 1, {op = "report", id = 1, fields = {loss = 1, examples = 10}})
    from(c, 2, {op = "report", id = 1, fields = {loss = 2, examples = 10}})
    assert.equal(0, #sent_to("w:1", "answer"))
    from(c, 3, {op = "report", id = 1, fields = {loss = 3, examples = 20}})
    local answer = sent_to("w:3", "answer")[1]
    assert.equal(7, answer.params.eps)
    assert.is_false(answer.stop)
    local events = events_of(c)
    assert.equal("report", events[1].kind)
    assert.equal(6, events[1].loss)
    assert.equal(40, events[1].examples)
    assert.equal(1, events[1].n)
    assert.equal(3, #events[1].workers)
  end)

  it("takes the total of its work from what reports count", function()
    local c = start_controller() -- stops after 3 reports
    c.a.total = 60
    assert.equal(60, c:progress().total)
    for rank = 1, 3 do from(c, rank, {op = "report", id = 1, fields = {loss = 1, examples = 40}}) end
    assert.equal(360, c:progress().total)
    from(c, 1, {op = "progress", fields = {examples = 20}})
    assert.equal(140, c:progress().done)
    assert.equal(360, c:progress().total)
    c.job.progress = {total = 77}
    c.a.total = 77
    assert.equal(77, c:progress().total)
  end)

  it("ends the run, not itself, when a worker sends what is malformed, and names worker and field", function()
    local malformed <const> = {
      {{op = "report", id = 1, fields = {note = {}}}, "`note` is a table, not a number"},
      {{op = "report", id = 1, fields = {0.5}}, "its fields have names"},
      {{op = "report", id = 1, fields = {kind = 2}}, "`kind` is a name that reports use themselves"},
      {{op = "report", id = 1, fields = {["a\0b"] = 2}}, "not printable"},
      {{op = "report", id = 1, fields = {examples = -1}}, "`examples` is -1"},
      {{op = "report", id = 1, fields = {}, alike = {n = 1}}, "`n` is a name"},
      {{op = "report", id = 1}, "`fields` is missing"},
      {{op = "report", id = "x", fields = {}}, "`id` is a string, not a whole number"},
      {{op = "report", id = 1, fields = {}, peers = {bytes = 1}}, "`peers.wait_s` is missing"},
      {{op = "progress", fields = {[3] = 1}}, "its fields have names"},
      {{op = "barrier", id = 1, name = {}}, "`name` is another table, not a string"},
      {{op = "chunk", id = 1, pass = 1}, "and job `j` has no data to cut"},
      {{op = "evaluated", id = 1, sum = {"x"}}, "`sum` is another table"},
      {{op = "failed", error = {code = 7}}, "`error.code` is 7, not a string"},
      {{op = "log"}, "`text` is missing"},
      {{op = "cut", record = {}}, "`record.clock` is missing"},
    }
    for _, case in ipairs(malformed) do
      fresh()
      local c = start_controller()
      from(c, 2, case[1])
      assert.is_table(c.failed, case[2])
      assert.matches(case[2], c.failed.message, 1, true)
      assert.same({"n1", "worker j/2", 1}, {c.failed.node, c.failed.actor, c.failed.exit or 1})
      assert.equal("failed", events_of(c)[1].kind) -- it serves its driver still
    end
  end)

  it("answers each request, whatever its fields hold", function()
    local requests = require "tide.requests"
    local c = start_controller()
    local wrong <const> = {0 / 0, -1.5, "x", true, {1, x = 2}, {}}
    for op in pairs(c.from_driver) do assert.is_table(requests.run[op], op) end
    for op in pairs(c.from_worker) do assert.is_table(requests.worker[op], op) end
    for op, row in pairs(requests.run) do
      for _, field in ipairs(row.fields) do
        for k = 1, #wrong + 1 do
          local request = {op = op, [field.name] = wrong[k]}
          if field.fits and (wrong[k] == nil and field.optional or wrong[k] ~= nil and field.fits(wrong[k])) then
            goto next
          end
          local before = #fake.errors
          c.requested:handle {kind = "call", right = "node", from = "d:1", call = 1, value = request}
          assert.equal(before + 1, #fake.errors, op .. " " .. field.name)
          assert.equal("T0116", fake.errors[#fake.errors].err.code)
          assert.is_nil(c.failed)
          ::next::
        end
      end
    end
    c.requested:handle {kind = "call", right = "node", from = "d:1", call = 1, value = {op = "no such"}}
    assert.matches("does not know", fake.errors[#fake.errors].err.message)
  end)

  it("takes params from on_report only where they travel", function()
    for answer, fault in pairs {["3"] = "params are a table of values by name, not 3",
                                ["{eps = print}"] = "`eps` is a function, which does not travel"} do
      fresh()
      local c = start_controller(([[
        local tide = require "tide"
        tide.job {name = "j", worker = function() end, params = {eps = 1}, on_report = function() return %s end}
      ]]):format(answer))
      for rank = 1, 3 do from(c, rank, {op = "report", id = 1, fields = {loss = 1}}) end
      assert.matches("on_report of job `j`: " .. fault, c.failed.message, 1, true)
    end
  end)

  it("stops by the rule of the job", function()
    local c = start_controller()
    for id = 1, 3 do
      for rank = 1, 3 do from(c, rank, {op = "report", id = id, fields = {loss = 1}}) end
    end
    local answers = sent_to("w:1", "answer")
    assert.same({false, false, true}, {answers[1].stop, answers[2].stop, answers[3].stop})
  end)

  it("stops at the report that makes the last of `patience` without a better number", function()
    local c = start_controller([[
      local tide = require "tide"
      tide.job {name = "j", worker = function() end, stop = {metric = "rmse", patience = 2, per = "none"}}
    ]])
    for id, value in ipairs {3, 2, 2, 1, 1, 1} do
      for rank = 1, 3 do from(c, rank, {op = "report", id = id, fields = {rmse = value, none = 1}}) end
    end
    local stops = {}
    for i, answer in ipairs(sent_to("w:1", "answer")) do stops[i] = answer.stop end
    assert.same({false, false, false, false, false, true}, stops)
  end)

  it("fails a run that a metric without a number would end", function()
    for none, fault in pairs {"`rmse` is not a number in each of 2 reports",
                              [0] = "`rmse` is of 0 `none` in each of 2 reports"} do
      fresh()
      local c = start_controller([[
        local tide = require "tide"
        tide.job {name = "j", worker = function() end, stop = {metric = "rmse", patience = 2, per = "none"}}
      ]])
      for id = 1, 2 do
        for rank = 1, 3 do
          from(c, rank, {op = "report", id = id, fields = {rmse = none == 1 and 0 / 0 or 0, none = none}})
        end
      end
      assert.matches(fault, c.failed.message, 1, true)
    end
  end)

  it("holds the answer while the driver looks at a report", function()
    local c = start_controller()
    c.requested:handle {kind = "call", right = "node", from = "d:1", call = 1, value = {op = "next", hold = true}}
    for rank = 1, 3 do from(c, rank, {op = "report", id = 1, fields = {loss = 1}}) end
    assert.equal(0, #sent_to("w:1", "answer"))
    c.requested:handle {kind = "call", right = "node", from = "d:1", call = 2,
              value = {op = "next", hold = true, continue = true}}
    assert.equal(1, #sent_to("w:1", "answer"))
  end)

  it("lets a barrier pass when every worker that still runs is there", function()
    local c = start_controller()
    from(c, 1, {op = "barrier", id = 1, name = "b"})
    from(c, 2, {op = "barrier", id = 4, name = "b"})
    assert.equal(0, #sent_to("w:1", "pass"))
    from(c, 3, {op = "done"})
    assert.equal(1, sent_to("w:1", "pass")[1].id)
    assert.equal(4, sent_to("w:2", "pass")[1].id)
  end)

  it("fails a run whose workers wait for different things, instead of hanging", function()
    local c = start_controller()
    from(c, 1, {op = "barrier", id = 1, name = "b"})
    from(c, 2, {op = "report", id = 1, fields = {}})
    from(c, 3, {op = "barrier", id = 1, name = "other"})
    local events = events_of(c)
    assert.equal("failed", events[1].kind)
    assert.match("1 at barrier `b`, 1 at barrier `other`, 1 at report", events[1].error.message, 1, true)
  end)

  it("lets workers come to several barriers, and passes them in the order in which they came", function()
    local c = start_controller()
    for id = 1, 3 do from(c, 1, {op = "barrier", id = id, name = "b", value = id}) end
    from(c, 2, {op = "barrier", id = 1, name = "b"})
    from(c, 2, {op = "barrier", id = 2, name = "b", value = "two"})
    assert.equal(0, #sent_to("w:1", "pass"))
    from(c, 3, {op = "barrier", id = 1, name = "b"})
    assert.same({{op = "pass", id = 1, values = {{rank = 1, value = 1}}}}, sent_to("w:1", "pass"))
    from(c, 3, {op = "barrier", id = 2, name = "b"})
    local passes = sent_to("w:2", "pass")
    assert.equal(2, #passes)
    assert.same({id = 2, values = {{rank = 1, value = 2}, {rank = 2, value = "two"}}, op = "pass"}, passes[2])
  end)

  it("hands on the values that workers gave, false among them", function()
    local c = start_controller()
    from(c, 1, {op = "barrier", id = 1, name = "b", value = false})
    for rank = 2, 3 do from(c, rank, {op = "barrier", id = 1, name = "b"}) end
    assert.same({{rank = 1, value = false}}, sent_to("w:2", "pass")[1].values)
  end)

  it("takes a report behind barriers that have not passed as one behind them", function()
    local c = start_controller()
    for rank = 1, 2 do
      from(c, rank, {op = "barrier", id = 1, name = "b"})
      from(c, rank, {op = "report", id = 1, fields = {loss = 1}})
    end
    from(c, 3, {op = "barrier", id = 1, name = "b"})
    assert.equal(1, #sent_to("w:1", "pass"))
    assert.equal(0, #sent_to("w:1", "answer"))
    assert.is_nil(c.failed)
    from(c, 3, {op = "report", id = 1, fields = {loss = 1}})
    assert.equal(1, #sent_to("w:1", "answer"))
    assert.equal(3, events_of(c)[1].loss)
  end)

  it("fails a run whose workers come to barriers in different orders", function()
    local c = start_controller()
    for rank = 1, 2 do
      from(c, rank, {op = "barrier", id = 1, name = "one"})
      from(c, rank, {op = "barrier", id = 2, name = "two"})
    end
    from(c, 3, {op = "barrier", id = 1, name = "two"})
    assert.match("1 at barrier `two`, 2 at barrier `one`", c.failed.message, 1, true)
  end)

  it("keeps the records of a cut of workers that have come to barriers", function()
    local c = start_controller()
    from(c, 1, {op = "barrier", id = 1, name = "b"})
    from(c, 1, {op = "cut", record = {clock = 4}})
    for rank = 2, 3 do
      from(c, rank, {op = "cut", record = {clock = 4}})
      from(c, rank, {op = "barrier", id = 1, name = "b"})
    end
    assert.equal(1, #sent_to("w:1", "pass"))
    for rank = 1, 3 do assert.equal(4, c.cuts[4].ranks[rank].clock) end
  end)

  it("means evaluations over all workers", function()
    local c = start_controller()
    c.requested:handle {kind = "call", right = "node", from = "d:1", call = 9, value = {op = "evaluate", name = "e"}}
    local id = fake.answers[#fake.answers].value.id
    for rank = 1, 3 do from(c, rank, {op = "evaluated", id = id, sum = {mrr = rank, hits = 1}, count = 2}) end
    local event = events_of(c)[1]
    assert.equal(1, event.result.mrr)
    assert.equal(0.5, event.result.hits)
    assert.equal(6, event.result.count)
  end)

  it("reports a worker's error with node and rank, and ends the others", function()
    local c = start_controller()
    from(c, 3, {op = "failed", error = {code = "T0609", message = "boom", where = "x.lua:4"}})
    local event = events_of(c)[1]
    assert.equal("failed", event.kind)
    assert.equal("n2", event.error.node)
    assert.equal("worker j/3", event.error.actor)
    assert.equal("x.lua:4", event.error.where)
    assert.equal(1, #sent_to("a:1", "stop"))
  end)

  it("names the lost node and its reason, not the access that failed because of it", function()
    local c = start_controller()
    for rank = 1, 3 do from(c, rank, {op = "ready"}) end
    from(c, 1, {op = "failed", error = {code = "T0508", name = "EDIED", message = "pull: n2 died"}})
    assert.is_nil(c.failed)
    fake.members_list = {{id = 1, name = "n2", state = "dead", reason = "it was of another cluster"},
      {id = 2, name = "n1", state = "up"}, {id = 3, name = "n2", state = "dead", reason = "connection lost"}}
    c.requested:handle {kind = "exit", right = "node", call = fake.monitored["a:2"], name = "EDIED", text = "node died"}
    local event = events_of(c)[2]
    assert.equal("T0509", event.error.code)
    assert.equal("n2", event.error.node)
    assert.match("connection lost", event.error.message)
  end)

  it("fails with the access itself when no node turns out to be lost", function()
    local c = start_controller()
    for rank = 1, 3 do from(c, rank, {op = "ready"}) end
    from(c, 1, {op = "failed", error = {code = "T0508", name = "EDIED", message = "pull: gone"}})
    fake.time = fake.time + 5
    c:tick()
    assert.equal("T0508", c.failed.code)
  end)

  it("keeps a bounded number of log lines and says how many were left out", function()
    local c = start_controller()
    for i = 1, 1500 do from(c, 1, {op = "log", text = "line " .. i}) end
    local events = events_of(c)
    assert.equal(1001, #events)
    assert.equal("line 1000", events[1000].text)
    assert.match("500 lines left out", events[1001].text)
  end)

  it("leaves out no report that the driver has asked for in time, whatever all of them take", function()
    local c, own <const> = start_controller(), fake.core.encode
    fake.core.encode = function(value) return own(value) .. (" "):rep(8 << 20) end
    for id = 1, 9 do -- 72 MiB in all, of which 64 may wait
      c:emit {kind = "report", n = id}
      c.requested:handle {kind = "call", right = "node", from = "d:1", call = 1, value = {op = "next", after = id - 1}}
      assert.equal(1, #fake.answers[#fake.answers].value.items)
      fake.answers = {}
    end
    assert.equal(0, c.left_out.reports)
    assert.equal(9, c.outbox.first) -- what the driver has had is gone
  end)

  it("ends with an error of on_report", function()
    local c = start_controller((JOB:gsub("run.state.n = ", "error 'bad rate'; run.state.n = ")))
    for rank = 1, 3 do from(c, rank, {op = "report", id = 1, fields = {loss = 1}}) end
    assert.match("bad rate", c.failed.message)
    assert.equal("x.lua:4", c.failed.where)
  end)
end)

local CHUNKED <const> = [[
local tide = require "tide"
tide.job {name = "j", data = 10, chunks = 5, worker = function() end, evaluate = {e = function() return 6, 2 end}}
]]

local function chunked(text)
  local c = start_controller(text or CHUNKED, {examples = 10, tables = {t = "j.t"}})
  for rank = 1, 3 do from(c, rank, {op = "ready"}) end
  return c
end

local asked = 0

---Asks for a chunk as worker `rank`, completing the one it has.
local function ask(c, rank, done, pass)
  asked = asked + 1
  local id = asked
  from(c, rank, {op = "chunk", id = id, pass = pass or 1, done = done})
  for _, value in ipairs(sent_to("w:" .. rank, "chunk")) do
    if value.id == id then return value end
  end
  return nil
end

local function complete(chunk, fields) return {index = chunk.index, lease = chunk.lease, fields = fields or {}} end

local function lose(c, node, reason)
  local id, agent = 3, "a:2"
  if node == "n1" then id, agent = 2, "a:1" end
  fake.members_list = {{id = id, name = node, state = "dead", reason = reason or "connection lost"}}
  c.requested:handle {kind = "exit", right = "node", call = fake.monitored[agent], name = "EDIED", text = "died"}
end

describe("a node that dies while a run starts", function()
  before_each(fresh)

  -- A controller whose node does not answer `op`, and is known to be dead then.
  local function start_without(node, op, changes, text)
    local answered <const> = fake.reply
    fake.reply = function(agent, value)
      if agent ~= node or value.op ~= op then return answered(agent, value) end
      fake.members_list = {{id = 2, name = "n1", state = node == "a:1" and "dead" or "up", reason = "it died"},
                           {id = 3, name = "n2", state = node == "a:2" and "dead" or "up", reason = "it died"}}
      return nil, {name = "EUNREACHABLE", code = "T0501", message = "not connected"}
    end
    return start_controller(text, changes, "try_to_start")
  end

  local function nodes(one, two)
    return {{name = "n1", id = 2, agent = "a:1", workers = one}, {name = "n2", id = 3, agent = "a:2", workers = two,
             store = true}}
  end

  it("without a worker of it leaves the run its slots, in its own cluster and in a shared one", function()
    for _, shared in ipairs {false, true} do
      fresh()
      local c <const> = start_without("a:2", "load", {nodes = nodes(2, 0), shared = shared})
      c:look_for_slots()
      assert.is_nil(c.failed)
      for rank = 1, 2 do from(c, rank, {op = "ready"}) end
      assert.equal(1, #sent_to("w:2", "go"))
      assert.equal(1, #c.a.nodes)
      for _, each in ipairs(fake.called) do assert.is_true(each.value.op == "load" or each.value.op == "start") end
    end
  end)

  it("with workers of it costs a run its slots, and those that had started are ended", function()
    for _, op in ipairs {"load", "start"} do
      fresh()
      local requests <const> = {}
      package.loaded["tide.keeper"] = {find = function() end, ask = function(request)
        requests[#requests + 1] = request.op
        return {grant = {n1 = 1}}
      end}
      local c <const> = start_without("a:2", op, {nodes = nodes(1, 1), shared = true, number = 1})
      assert.same({"slots.less", "grant"}, requests)
      assert.equal(op == "start" and 1 or 0, #sent_to("a:1", "end_worker"))
      c:look_for_slots()
      from(c, 1, {op = "ready"})
      assert.equal(1, #sent_to("w:1", "go"))
    end
  end)

  it("ends a run of a script's own cluster that has workers there, unless its job survives that", function()
    local c = start_without("a:2", "start", {nodes = nodes(1, 1)})
    assert.equal("T0509", c.failed.code)
    fresh()
    c = start_without("a:2", "start", {nodes = nodes(1, 1)}, [[local tide = require "tide"
      tide.job {name = "j", worker = function(w) return w end, on_worker_loss = "replay"}]])
    assert.is_nil(c.failed)
    c:look_for_slots()
    from(c, 1, {op = "ready"})
    assert.equal(1, #sent_to("w:1", "go"))
  end)

  it("and has died before the first request is not requests", function()
    fake.members_list = {{id = 3, name = "n2", state = "dead", reason = "it died"}}
    local c <const> = start_controller(nil, {nodes = nodes(1, 0)})
    for _, each in ipairs(fake.called) do assert.equal("a:1", each.to) end
    assert.equal(1, #c.a.nodes)
  end)

  it("is waited for when a worker does not find it", function()
    local c <const> = start_controller(nil, {nodes = nodes(2, 0)})
    fake.members_list = {{id = 3, name = "n2", state = "dead", reason = "it died"}}
    from(c, 1, {op = "failed", error = {code = "T0508", name = "EDIED", message = "n2 died"}})
    assert.is_nil(c.failed)
    assert.equal(2, #sent_to("a:1", "end_worker"))
    c:look_for_slots()
    for rank = 1, 2 do from(c, rank, {op = "ready"}) end
    assert.equal(1, #sent_to("w:2", "go"))
  end)

  it("is the run's end when it is not lost after all", function()
    local answered <const> = fake.reply
    fake.reply = function(agent, value)
      if agent == "a:2" then return nil, {name = "EUNREACHABLE", code = "T0501", message = "not connected"} end
      return answered(agent, value)
    end
    local c <const> = start_controller(nil, {nodes = nodes(2, 0)}, "try_to_start")
    assert.equal("T0501", c.failed.code)
  end)
end)

describe("the counters of a run", function()
  before_each(fresh)

  it("are requests for beside the controller, which serves others meanwhile", function()
    local c <const> = start_controller()
    local fibers <const>, requests <const> = {}, #fake.called
    fake.core.fiber = function(f, ...) fibers[#fibers + 1] = table.pack(f, ...) end
    c.requested:handle {kind = "call", right = "node", from = "d:1", call = 9, value = {op = "counters"}}
    assert.equal(requests, #fake.called)
    fake.core.fiber = function(f, ...) f(...) end
    for _, each in ipairs(fibers) do each[1](table.unpack(each, 2, each.n)) end
    local answer <const> = fake.answers[#fake.answers].value
    assert.equal(2, #answer.nodes)
    assert.equal("n2", fake.core.decode(answer.nodes[2]).name)
  end)
end)

describe("chunks", function()
  before_each(fresh)

  it("cover the data once a pass, in an order that the seed decides", function()
    local chunks = require "tide.run.chunks"
    local function order(seed)
      local set, seen, list = chunks.new(10, {workers = 1, seed = seed, chunks = 4}), {}, {}
      set:begin()
      for chunk in function() return set:take(1) end do
        list[#list + 1] = chunk.first
        for i = chunk.first, chunk.first + chunk.count - 1 do seen[i] = (seen[i] or 0) + 1 end
      end
      for i = 1, 10 do assert.equal(1, seen[i]) end
      return list
    end
    assert.same(order(3), order(3))
    assert.not_same(order(3), order(4))
  end)

  it("go on where a checkpoint was taken: what was done counts, what was held is done again", function()
    local chunks = require "tide.run.chunks"
    local set = chunks.new(10, {workers = 1, seed = 3, chunks = 4})
    set:begin()
    for _ = 1, 4 do
      local chunk = set:take(1)
      set:finish {index = chunk.index, lease = chunk.lease}
    end
    set:begin()
    local first = set:take(1)
    set:finish {index = first.index, lease = first.lease, fields = {n = 5}}
    set:take(1)
    local record = set:record()
    local again = chunks.new(10, {workers = 1, seed = 3, chunks = 4})
    assert.is_true(again:restore(record))
    assert.equal(1, again:passed())
    local left = {}
    for chunk in function() return again:take(1) end do
      assert.not_equal(first.index, chunk.index)
      left[#left + 1] = chunk
    end
    assert.equal(3, #left)
    for _, chunk in ipairs(left) do again:finish {index = chunk.index, lease = chunk.lease, fields = {n = 1}} end
    assert.is_true(again:over())
    assert.equal(2, again:passed())
    assert.equal(0, again:begins_behind()) -- nobody has reported them
    assert.same({n = 8}, again:take_sums())
    assert.equal(2, again:begins_behind())
    local other = chunks.new(11, {workers = 1, seed = 3, chunks = 4})
    local ok, problem = other:restore(record)
    assert.is_nil(ok)
    assert.equal("the checkpoint's data is 10 examples in 4 chunks, the job's 11 in 4", problem)
    local fresh_one = chunks.new(10, {workers = 1, seed = 3, chunks = 4})
    assert.is_true(chunks.new(10, {workers = 1, seed = 3, chunks = 4}):restore(fresh_one:record()))
  end)

  it("of which a part is done leave the rest, and no example twice or never", function()
    local set, seen = require("tide.run.chunks").new(10, {workers = 2, seed = 3, chunks = 2}), {}
    local function count(first, examples)
      for i = first, first + examples - 1 do seen[i] = (seen[i] or 0) + 1 end
    end
    set:begin()
    local chunk = set:take(1)
    for _, done in ipairs {2, 1} do
      assert.is_true(set:split {index = chunk.index, lease = chunk.lease, count = done, fields = {n = done}})
      count(chunk.first, done)
      local other = set:take(2) -- what came back goes first
      assert.equal(chunk.index, other.index)
      assert.same({chunk.first + done, chunk.count - done}, {other.first, other.count})
      chunk = other
    end
    for _, part in ipairs {0, chunk.count, -1, 1.5} do -- all of it, or nothing, is no part
      assert.is_false(set:split {index = chunk.index, lease = chunk.lease, count = part})
    end
    while chunk do
      count(chunk.first, chunk.count)
      assert.is_true(set:finish {index = chunk.index, lease = chunk.lease, fields = {n = chunk.count}})
      chunk = set:take(2)
    end
    for i = 1, 10 do assert.equal(1, seen[i]) end
    assert.same({n = 10}, set:take_sums())
  end)

  it("of a lost worker come back all, the first and the last too", function()
    local set, indices = require("tide.run.chunks").new(8, {workers = 2, seed = 3, chunks = 4}), {}
    set:begin()
    for _ = 1, 4 do set:take(1) end
    assert.equal(0, set:release(2))
    assert.equal(4, set:release(1))
    assert.is_false(set:is_held_by(1))
    for _ = 1, 4 do indices[set:take(2).index] = true end
    assert.equal(4, #indices)
    assert.is_nil(set:take(2))
  end)

  it("go to the worker for which they are queued, whatever else is free", function()
    local set = require("tide.run.chunks").new(12, {workers = 2, seed = 3, chunks = 6})
    set:begin()
    local order = {}
    for i, c in ipairs(set:list()) do order[i] = c.id end
    set:assign(1, {order[6], order[5]})
    set:assign(2, {order[1], order[5]}) -- the last plan that names a chunk has it
    assert.same({order[6]}, set:queue_of(1))
    assert.same({order[1], order[5]}, set:queue_of(2))
    assert.equal(order[6], set:take(1, 7).index)
    assert.equal(order[2], set:take(1, 7).index) -- order[1] is another's
    local held = set:list()[6]
    assert.same({1, 7, 2}, {held.taken_by, held.since, held.left})
    set:assign(2, {order[2], order[1]}) -- what is begun is left out, what is not named any more is anybody's
    assert.same({order[1]}, set:queue_of(2))
    set:take(1)
    set:take(1)
    assert.equal(order[5], set:take(1).index)
    assert.is_nil(set:take(1)) -- what is left is queued for another
    assert.is_true(set:unqueue(2))
    assert.is_false(set:unqueue(2))
    assert.equal(order[1], set:take(1).index)
    assert.is_nil(set:take(2))
    set:assign(2, {order[1]})
    assert.equal(6, set:release(1)) -- all that a lost worker held
    set:assign(2, {order[4]})
    local first, seen = set:take(2), 0
    assert.equal(order[4], first.index)
    repeat
      local ok, who = set:finish {index = first.index, lease = first.lease}
      assert.is_true(ok)
      assert.equal(2, who.rank)
      first, seen = set:take(2), seen + 1
    until not first
    assert.equal(6, seen)
    assert.is_true(set:over())
    assert.equal(0, set:list()[1].left)
    set:begin()
    assert.same({}, set:queue_of(2))
  end)

  it("are handed to whoever asks, and the pass ends for all when every one is complete", function()
    local c = chunked()
    local held = {ask(c, 1), ask(c, 2), ask(c, 3)}
    held[1] = ask(c, 1, complete(held[1]))
    held[1] = ask(c, 1, complete(held[1]))
    assert.is_nil(ask(c, 1, complete(held[1]))) -- none is free, two are not complete
    assert.is_nil(ask(c, 2, complete(held[2])))
    local over = ask(c, 3, complete(held[3]))
    assert.is_nil(over.index)
    local last = sent_to("w:1", "chunk")
    assert.is_nil(last[#last].index)
    assert.is_number(ask(c, 1, nil, 2).index)
  end)

  it("are in a checkpoint as far as they were before its cut: what they push later is not in it", function()
    local c <const>, kept = chunked(), nil
    local first <const>, second <const> = ask(c, 1), ask(c, 2)
    from(c, 1, {op = "chunk", pass = 1, done = complete(first)})
    fake.core.checkpoint_start = function()
      from(c, 2, {op = "chunk", pass = 1, done = complete(second)}) -- while rows are written
      return {info = function() return {generation = 1, rows = 2, bytes = 3} end, commit = function(_, value)
        kept = value
        return true
      end}
    end
    assert.is_table(c:write_checkpoint {dir = "d"})
    assert.same({first.index}, kept.chunks.done)
    assert.equal(2, #c.chunks:record().done)
  end)

  it("are in the last checkpoint, which is tried again when nodes came or went meanwhile", function()
    local c <const>, tries, code = chunked(), 0, "EBUSY"
    c.job.checkpoint = {dir = "d", every_s = math.huge}
    fake.core.checkpoint_start = function()
      tries = tries + 1
      if tries < 3 then return nil, {name = code, message = "nodes came or went"} end
      return {info = function() return {generation = 1, rows = 2, bytes = 3} end, commit = function() return true end}
    end
    c:last_checkpoint()
    assert.equal(3, tries)
    local kinds = {}
    for i, event in ipairs(events_of(c)) do kinds[i] = event.kind end
    assert.equal("checkpoint", kinds[#kinds])
    tries, code = 0, "ENOSPC"
    c:last_checkpoint()
    assert.equal(1, tries)
    local all <const> = events_of(c)
    assert.equal("unsaved", all[#all].kind)
  end)

  it("count once, whoever says it how often", function()
    local c = chunked()
    local chunk = ask(c, 1)
    local said = complete(chunk, {loss = 2})
    from(c, 1, {op = "chunk", pass = 1, done = said})
    from(c, 1, {op = "chunk", pass = 1, done = said})
    from(c, 2, {op = "chunk", pass = 1, done = said})
    assert.equal(4, c.chunks.missing)
    assert.equal(2, c.chunks.sums.loss)
  end)

  it("of a lost worker go to another, and the lost one's word comes too late", function()
    local c = chunked()
    local lost = ask(c, 3)
    lose(c, "n2")
    assert.is_nil(c.failed)
    local again = ask(c, 1)
    assert.equal(lost.index, again.index)
    assert.is_true(again.lease > lost.lease)
    from(c, 3, {op = "chunk", pass = 1, done = complete(lost, {loss = 9})})
    assert.is_false(c.chunks:finish(complete(lost, {loss = 9})))
    assert.equal(5, c.chunks.missing)
    assert.same({}, c.chunks.sums)
    local event = events_of(c)[2]
    assert.same({"lost", "n2", 1, 1}, {event.kind, event.node, event.workers, event.chunks})
  end)

  it("that a loop left undone go to others", function()
    local c = chunked()
    local chunk = ask(c, 1)
    from(c, 1, {op = "chunk", pass = 1, back = {index = chunk.index, lease = chunk.lease}})
    assert.equal(chunk.index, ask(c, 2).index)
  end)

  it("report into the sums of the next report, those of a lost worker's complete ones too", function()
    local c = chunked()
    from(c, 3, {op = "chunk", pass = 1, done = complete(ask(c, 3), {examples = 2})})
    lose(c, "n2")
    for rank = 1, 2 do from(c, rank, {op = "report", id = 1, fields = {examples = 1}}) end
    local events = events_of(c)
    assert.same({"report", 4}, {events[#events].kind, events[#events].examples})
  end)

  it("are not handed out any more when the run is to stop", function()
    local c = chunked()
    c.requested:handle {kind = "cast", right = "node", from = "d:1", value = {op = "stop", reason = "on request"}}
    assert.is_nil(ask(c, 1).index)
  end)

  it("asked for inside a chunk by all are an error, not a hang", function()
    local c = chunked()
    for rank = 1, 3 do ask(c, rank) end
    for rank = 1, 2 do assert.is_nil(ask(c, rank, nil, 2)) end
    assert.is_nil(c.failed)
    assert.is_nil(ask(c, 3, nil, 2))
    assert.match("hold themselves", c.failed.message)
  end)
end)

describe("a run that loses workers", function()
  before_each(fresh)

  it("goes on: the others' reports, barriers and evaluations do not wait for them", function()
    local c = chunked()
    c.requested:handle {kind = "call", right = "node", from = "d:1", call = 9, value = {op = "evaluate", name = "e"}}
    local id = fake.answers[#fake.answers].value.id
    for rank = 1, 2 do
      from(c, rank, {op = "evaluated", id = id, sum = 6, count = 2})
      from(c, rank, {op = "barrier", id = 1, name = "b"})
    end
    assert.equal(0, #sent_to("w:1", "pass"))
    lose(c, "n2")
    assert.equal(1, #sent_to("w:1", "pass"))
    local events = events_of(c)
    assert.same({"evaluated", 3}, {events[2].kind, events[2].result})
    assert.equal("lost", events[3].kind)
    assert.equal(0, #sent_to("a:1", "stop"))
  end)

  it("passes all barriers that only they had not come to, without what they gave", function()
    local c = chunked()
    from(c, 3, {op = "barrier", id = 1, name = "b", value = "gone"})
    for id = 1, 3 do from(c, 1, {op = "barrier", id = id, name = "b", value = id}) end
    from(c, 2, {op = "barrier", id = 1, name = "b"})
    assert.equal("gone", sent_to("w:1", "pass")[1].values[2].value)
    from(c, 3, {op = "barrier", id = 2, name = "b", value = "gone"})
    lose(c, "n2")
    from(c, 3, {op = "barrier", id = 3, name = "b"})
    for id = 2, 3 do from(c, 2, {op = "barrier", id = id, name = "b"}) end
    local passes = sent_to("w:1", "pass")
    assert.equal(3, #passes)
    assert.same({{rank = 1, value = 2}}, passes[2].values)
    assert.equal(1, #sent_to("w:3", "pass"))
    fresh()
    c = chunked()
    for rank = 1, 2 do
      for id = 1, 2 do from(c, rank, {op = "barrier", id = id, name = "b"}) end
    end
    lose(c, "n2")
    assert.equal(2, #sent_to("w:1", "pass"))
  end)

  it("forgets the suspicion that a worker of theirs raised", function()
    local c = chunked()
    c.requested:handle {kind = "exit", right = "node", call = fake.monitored["w:3"], name = "EDIED", text = "died"}
    lose(c, "n2")
    fake.time = fake.time + 5
    c:tick()
    assert.is_nil(c.failed)
  end)

  it("ends when rows lived on their node", function()
    local c = chunked()
    fake.homes = {[3] = 2048}
    lose(c, "n2")
    assert.equal("T0509", c.failed.code)
    assert.match("`j.t`", c.failed.state, 1, true)
  end)

  it("ends when rows may have moved to their node", function()
    local c = chunked()
    fake.technique = "relocate"
    lose(c, "n2")
    assert.match("`j.t`", c.failed.state, 1, true)
  end)

  it("ends when the job says so, when it has no chunks, and when nobody is left", function()
    local c = chunked((CHUNKED:gsub("chunks = 5", 'on_worker_loss = "stop"')))
    lose(c, "n2")
    assert.match("tables are whole", c.failed.state)
    fresh()
    c = start_controller()
    for rank = 1, 3 do from(c, rank, {op = "ready"}) end
    lose(c, "n2")
    assert.match("w:chunks", c.failed.help, 1, true)
    fresh()
    c = chunked()
    lose(c, "n2")
    assert.is_nil(c.failed)
    lose(c, "n1")
    assert.equal("T0509", c.failed.code)
  end)

  it("goes on without chunks when the job says so", function()
    local c = start_controller((JOB:gsub('name = "j"', 'name = "j", on_worker_loss = "replay"')))
    for rank = 1, 3 do from(c, rank, {op = "ready"}) end
    lose(c, "n2")
    assert.is_nil(c.failed)
    for rank = 1, 2 do from(c, rank, {op = "done"}) end
    local events = events_of(c)
    assert.equal("finished", events[#events].kind)
  end)

  it("refuses ways of going on that it does not have", function()
    local job = require("tide.run.job").new
    assert.equal("T0615", caught(job, {name = "j", worker = print, on_loss = "restore"}).code)
    assert.equal("T0203", caught(job, {name = "j", worker = print, on_loss = "ignore"}).code)
    assert.equal("T0203", caught(job, {name = "j", worker = print, chunks = 3}).code)
    assert.equal("T0203", caught(job, {name = "j", worker = print, data = 1.5}).code)
  end)
end)

describe("the handle of a run", function()
  before_each(fresh)

  it("keeps events of one kind for their own loop", function()
    local run <const> = require "tide.run"
    local r <const> = setmetatable({finished = true, controller = "c:1", pump = function() end,
      queue = {{kind = "report", n = 1}, {kind = "started"}, {kind = "report", n = 2}}}, run)
    r.clear_progress, r.raise_failure = function() end, function() end
    for event in r:events "started" do assert.equal("started", event.kind) end
    local seen = {}
    for event in r:events "report" do seen[#seen + 1] = event.n end
    assert.same({1, 2}, seen)
  end)
end)

describe("loading a script", function()
  before_each(fresh)

  it("names the line of a syntax error", function()
    local ok, err = require("tide.script").load {text = "x = = 1", path = "bad.lua", args = {}, role = "driver"}
    assert.is_nil(ok)
    assert.equal("T0201", err.code)
    assert.equal("bad.lua:1", err.where)
  end)

  it("refuses a module that differs from the driver's", function()
    local script = require "tide.script"
    script.modules.m = {path = "m.lua", sha = ("a"):rep(64)}
    local ok, err = script.check_modules({m = {path = "m.lua", sha = ("b"):rep(64)}}, "n3")
    assert.is_nil(ok)
    assert.equal("T0207", err.code)
    assert.match("bbbbbbbbbbbb", err.message)
    assert.match("aaaaaaaaaaaa", err.message)
  end)
end)

describe("the summary of a run", function()
  before_each(fresh)

  it("counts from the start of the run and keeps shares", function()
    local summary = require "tide.run.summary"
    local function status(pulls_local, pulls_remote, bytes)
      return {tables = {["j.t"] = {pulls_local = pulls_local, pulls_remote = pulls_remote, pushes_local = 0,
                                   pushes_remote = 0}}, links = {{bytes_out = bytes, frames_out = 1}}}
    end
    local s = summary.new({id = "r", job = {name = "j"}, table_names = {t = "j.t"},
                           history = {{n = 2, elapsed_s = 4, loss = 6, examples = 3}}, sums = {}},
      {clock = 2, elapsed_s = 5, examples = 8,
       nodes = {{name = "n1", before = status(10, 0, 100), after = status(40, 10, 600)}}})
    assert.equal(30, s.pulls_local)
    assert.equal(10, s.pulls_remote)
    assert.equal(0.75, s.local_share)
    assert.equal(500, s.wire_bytes)
    assert.equal(2, s.loss)
    assert.equal(2, s.epoch_s)
    assert.match("75.0%%", tostring(s:table {"local_share", "wire_bytes"}))
    assert.equal(tostring(s:table()), tostring(s))
    assert.same({"n1"}, s:locality().groups)
    assert.same({30}, s:locality().series[1].values)
    assert.same({10}, s:locality().series[2].values)
  end)
end)
