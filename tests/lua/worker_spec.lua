-- A worker's conversation with its controller. The core is a fake that keeps what is sent.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local fake

local function fresh() fake = require "tests.lua.fresh"() end

local function run_worker(text, inbox, changes)
  local a = {rank = 2, life = 1, stream = 2, workers = 3, node = "n1", seed = 5, params = {eps = 1},
             controller = "c:1", job = "j",
             tables = {}, script = fake.script_of(text)}
  for k, v in pairs(changes or {}) do a[k] = v end
  fake.inbox = inbox
  local exit, plain_print = os.exit, print
  require("tide.run.worker").main(a)
  rawset(os, "exit", exit)
  rawset(_G, "print", plain_print)
  local ops = {}
  for i, s in ipairs(fake.sent) do ops[i] = s.value.op end
  return ops
end

local GO <const> = {kind = "cast", right = "node", value = {op = "go", id = 0}}
local END <const> = {kind = "stop"}
local NOTHING <const> = false -- who looks finds no message yet

describe("a worker", function()
  it("is one of its node while its function runs, and counts its clocks there", function()
    run_worker([[
      local tide = require "tide"
      tide.job {name = "j", worker = function(w) print(w:clock(), w:clock()) end}]], {GO, END})
    assert.equal("1\t2", fake.sent[2].value.text)
    assert.equal(2, fake.clock)
    assert.is_nil(fake.worker)
  end)
  before_each(fresh)

  it("reports the newest value of a gauge once, as a mean over the workers that gave one", function()
    run_worker([[
      local tide = require "tide"
      tide.job {name = "j", worker = function(w)
        w:gauge("rate", 0.5)
        w:gauge("rate", 0.25)
        w:report {examples = 10}
        w:report {examples = 10}
      end}]], {GO, {kind = "cast", right = "node", value = {op = "answer", id = 1, params = {}, stop = false}},
      {kind = "cast", right = "node", value = {op = "answer", id = 2, params = {}, stop = false}}, END})
    local reports = {}
    for _, s in ipairs(fake.sent) do
      if s.value.op == "report" then reports[#reports + 1] = s.value.fields end
    end
    assert.equal(0.25, reports[1].rate)
    assert.equal(1, reports[1].rate_n)
    assert.is_nil(reports[2].rate)
    local report <const>, sums = require "tide.report", {}
    for _, value in ipairs {0.25, 0.75} do report.add(sums, {rate = value, rate_n = 1, examples = 10}) end
    assert.equal(0.5, report.value(sums, "rate"))
  end)

  it("runs the job's function and then serves evaluations until the end", function()
    local ops = run_worker([[
      local tide = require "tide"
      tide.job {name = "j", worker = function(w) print("hello", w.rank) end,
        evaluate = {e = function() return 6, 2 end}}
    ]], {GO, {kind = "cast", right = "node", value = {op = "evaluate", id = 3, name = "e"}}, END})
    assert.same({"ready", "log", "done", "evaluated"}, ops)
    assert.equal("hello\t2", fake.sent[2].value.text)
    assert.same({6, 2}, {fake.sent[4].value.sum, fake.sent[4].value.count})
  end)

  it("takes new params from a report and serves an evaluation while it waits there", function()
    local ops = run_worker([[
      local tide = require "tide"
      tide.job {name = "j", evaluate = {e = function(w) return w.params.eps, 1 end}, worker = function(w)
        w:report {loss = 1}
        print(w.params.eps, w:stopping())
      end}
    ]], {GO, {kind = "cast", right = "node", value = {op = "evaluate", id = 1, name = "e"}},
      {kind = "cast", right = "node", value = {op = "answer", id = 1, params = {eps = 9}, stop = true}}})
    assert.same({"ready", "report", "evaluated", "log", "done"}, {table.unpack(ops, 1, 5)})
    assert.equal("9\ttrue", fake.sent[4].value.text)
  end)

  it("fails at the call that reports what is no report, with the field and the line", function()
    local messages <const> = {
      ["w:report {alike = 5}"] = "w:report: `alike` is a table of numbers",
      ["w:report {alike = {m = true}}"] = "w:report: `m` is true, not a number",
      ["w:report {alike = {n = 1}}"] = "`n` is a name that reports use themselves",
      ["w:report {0.5}"] = "its fields have names, as in {loss = 0.5}, and 1 (a number) is none",
      ["w:report {loss = print}"] = "`loss` is a function, not a number",
      ["w:report {kind = 2}"] = "`kind` is a name",
      ["w:report {examples = 0/0}"] = "`examples` is",
      ["w:report {wait = 3}"] = "`wait` is true or false",
      ["w:report {wait = false, clock = 1}"] = "`clock` is a name",
      ["w:report(5)"] = "a report is a table of numbers",
      ["w:span 'elapsed'"] = "w:span: `elapsed_s` is a name",
      ["w:gauge('rank', 1)"] = "w:gauge: `rank` is a name",
      ["w:gauge('rate', 'high')"] = "w:gauge: `rate` is a string, not a number",
      ["w:barrier {}"] = "the name of a barrier is a string",
    }
    for call, message in pairs(messages) do
      fresh()
      run_worker(([[
        local tide = require "tide"
        tide.job {name = "j", worker = function(w) %s end}
      ]]):format(call), {GO, END})
      local last <const> = fake.sent[#fake.sent].value
      assert.equal("failed", last.op)
      assert.matches(message, last.error.message, 1, true)
      assert.matches(":2", last.error.where, 1, true)
    end
  end)

  local function cast(value) return {kind = "cast", right = "node", value = value} end

  it("comes to barriers without waiting, and waits for their passing in any order", function()
    local ops = run_worker([[
      local tide = require "tide"
      tide.job {name = "j", worker = function(w)
        local one = w:barrier("b", "v", {async = true})
        local two = w:barrier("b", nil, {async = true})
        print(one:done(), two:done())
        print(two:wait()[3], one:done(), one:wait()[2], one:wait()[2])
        w:barrier "c"
      end}
    ]], {GO, NOTHING, NOTHING, cast {op = "pass", id = 1, values = {{rank = 2, value = "v"}}},
      cast {op = "pass", id = 2, values = {{rank = 3, value = "w"}}}, cast {op = "pass", id = 3}, END})
    assert.same({"ready", "barrier", "barrier", "log", "log", "barrier", "done"}, ops)
    assert.same({1, "b", "v"}, {fake.sent[2].value.id, fake.sent[2].value.name, fake.sent[2].value.value})
    assert.equal("false\tfalse", fake.sent[4].value.text)
    assert.equal("w\ttrue\tv\tv", fake.sent[5].value.text)
  end)

  it("hears of a barrier's passing while it waits in a report", function()
    local ops = run_worker([[
      local tide = require "tide"
      tide.job {name = "j", worker = function(w)
        local one = w:barrier("b", nil, {async = true})
        w:report {loss = 1}
        print(one:done(), w.params.eps)
      end}
    ]], {GO, cast {op = "pass", id = 1}, cast {op = "answer", id = 1, params = {eps = 3}, stop = false}, END})
    assert.same({"ready", "barrier", "report", "log", "done"}, ops)
    assert.equal("true\t3", fake.sent[4].value.text)
  end)

  it("that returns does so when all that it came to have passed: its values count", function()
    local ops = run_worker([[
      local tide = require "tide"
      tide.job {name = "j", worker = function(w)
        for _ = 1, 2 do w:barrier("b", 1, {async = true}) end
      end}
    ]], {GO, cast {op = "pass", id = 1}})
    assert.same({"ready", "barrier", "barrier", "failed"}, ops) -- the fake has no more messages
    fresh()
    ops = run_worker('local tide = require "tide"\ntide.job {name = "j", worker = function(w) w:barrier("b", 1, '
      .. '{async = true}) end}', {GO, cast {op = "pass", id = 1}, END})
    assert.same({"ready", "barrier", "done"}, ops)
  end)

  it("is ended while barriers have not passed", function()
    local ops = run_worker('local tide = require "tide"\ntide.job {name = "j", worker = function(w) w:barrier("b", 1, '
      .. '{async = true}):wait() end}', {GO, END})
    assert.same({"ready", "barrier"}, ops)
  end)

  it("waits before it comes to more barriers than are kept", function()
    local inbox = {GO}
    for id = 1, 10 do inbox[#inbox + 1] = cast {op = "pass", id = id} end
    run_worker([[
      local tide = require "tide"
      tide.job {name = "j", worker = function(w)
        for _ = 1, 2000 do w:barrier("b", nil, {async = true}) end
      end}
    ]], inbox)
    assert.equal(1 + 1024 + 10 + 1, #fake.sent)
    assert.equal("failed", fake.sent[#fake.sent].value.op)
  end)

  it("mixes no chunks with barriers that it has not waited for", function()
    local function said(body)
      fresh()
      run_worker('local tide = require "tide"\ntide.job {name = "j", data = 10, worker = function(w)\n' .. body
        .. '\nend}', {GO, cast {op = "chunk", id = 1, index = 1, lease = 1, first = 1, count = 5}})
      for _, s in ipairs(fake.sent) do
        if s.value.op == "failed" then return s.value.error.code .. " " .. s.value.error.message end
      end
    end
    assert.match("T0117 w:chunks: this worker has not yet waited",
      said 'w:barrier("b", nil, {async = true}) w:chunks()', 1, true)
    assert.match("T0117 w:barrier: inside a loop over chunks",
      said 'for _ in w:chunks() do w:barrier("b", nil, {async = true}) end', 1, true)
  end)

  it("takes chunks until the pass is over, and gives back the one it leaves", function()
    local function chunk(id, index)
      return {kind = "cast", right = "node",
              value = {op = "chunk", id = id, index = index, lease = id, first = 1, count = 5}}
    end
    local ops = run_worker([[
      local tide = require "tide"
      tide.job {name = "j", data = 10, worker = function(w)
        for c in w:chunks() do c:report {loss = c.last} end
        for _ in w:chunks() do break end
      end}
    ]], {GO, chunk(1, 2), chunk(2), chunk(3, 1), END})
    assert.same({"ready", "chunk", "chunk", "chunk", "chunk", "done"}, ops)
    assert.same({index = 2, lease = 1, fields = {loss = 5}}, fake.sent[3].value.done)
    assert.same({2, 1}, {fake.sent[5].value.pass, fake.sent[5].value.back.index})
  end)

  it("without data that is cut has no chunks", function()
    run_worker('local tide = require "tide"\ntide.job {name = "j", worker = function(w)\n w:chunks()\nend}', {GO})
    assert.equal("T0117", fake.sent[#fake.sent].value.error.code)
    assert.equal("x.lua:3", fake.sent[#fake.sent].value.error.where)
  end)

  it("sends an error with the script's line", function()
    run_worker('local tide = require "tide"\ntide.job {name = "j", worker = function()\n local x = nil + 1\nend}',
      {GO})
    local failed = fake.sent[#fake.sent].value
    assert.equal("failed", failed.op)
    assert.equal("T0609", failed.error.code)
    assert.equal("x.lua:3", failed.error.where)
    assert.equal("n1", failed.error.node)
  end)

  it("refuses a script of another hash", function()
    local other = fake.script_of "return 1"
    other.sha = ("0"):rep(64)
    run_worker("", {GO}, {script = other})
    assert.equal("T0207", fake.sent[#fake.sent].value.error.code)
  end)

  it("may not end the process", function()
    run_worker('local tide = require "tide"\ntide.job {name = "j", worker = function() os.exit(3) end}', {GO})
    assert.match("os.exit", fake.sent[#fake.sent].value.error.message)
  end)

  it("ignores main", function()
    local ops = run_worker([[
      local tide = require "tide"
      tide.job {name = "j", worker = function() end}
      tide.main(function() error "main ran" end)
    ]], {GO, END})
    assert.same({"ready", "done"}, ops)
  end)
end)
