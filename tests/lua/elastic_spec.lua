-- Workers that come and go while a run continues: how many there are to be, and what is kept of those that are gone.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local fake, c

local JOB <const> = [[
local tide = require "tide"
tide.job {name = "j", worker = function(w) return w end, on_worker_loss = "replay"}
]]

local function fresh(changes)
  fake = require "tests.lua.fresh"()
  local a = {run = "r", script = fake.script_of(JOB), job = "j", seed = 1, params = {}, tables = {}, nodes_max = 9,
             nodes = {{name = "n1", id = 2, agent = "a:1", workers = 1},
                      {name = "n2", id = 3, agent = "a:2", workers = 1}}}
  for k, v in pairs(changes or {}) do a[k] = v end
  c = require("tide.run.controller").new(a)
  local script <const> = require "tide.script"
  assert(script.load {text = JOB, path = "x.lua", args = {}, role = "controller"})
  c.job = script.jobs.j
  c:start()
end

local function from(rank, value)
  local w <const> = c.workers[rank]
  value.rank, value.life = rank, w.life
  c.requested:handle {kind = "cast", right = "node", from = w.address, value = value}
end

local function ask(value)
  c.requested:handle {kind = "call", right = "node", from = "d:1", call = 1, value = value}
  local last <const> = fake.answers[#fake.answers]
  return last and last.value
end

-- All workers that run report; those that were told to stop return.
local function report()
  c.reported = (c.reported or 0) + 1
  for _, w in ipairs(c:running()) do from(w.rank, {op = "report", id = c.reported, fields = {examples = 1}}) end
  for _, w in ipairs(c:running()) do
    if w.dropped then from(w.rank, {op = "done"}) end
  end
  ask {op = "next"} -- the driver takes the events
  c:tick()
end

local joined = 0
local function join()
  joined = joined + 1
  local node <const> = {name = "n3", id = 10 + joined, agent = "a:n" .. joined, workers = 1}
  c.requested:handle {kind = "cast", right = "node", from = "d:1", value = {op = "joined", node = node}}
  for _, w in ipairs(c.workers) do
    if w.state == "joining" then from(w.rank, {op = "ready"}) end
  end
  return node
end

local function size(t)
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n
end

describe("a run whose workers come and go", function()
  before_each(function()
    fresh()
    for rank = 1, 2 do from(rank, {op = "ready"}) end
  end)

  it("settles on the number that was asked for last, when others are on their way", function()
    ask {op = "workers", count = 4}
    ask {op = "workers", count = 2}
    assert.equal(2, c.coming)
    for _ = 1, 2 do
      local node <const> = join()
      assert.is_true(node.vacant)
    end
    report()
    assert.equal(2, #c:running())
    ask {op = "workers", count = 3}
    join()
    report()
    assert.equal(3, #c:running())
  end)

  it("keeps a worker that nobody has asked for by a number", function()
    ask {op = "workers", count = 2}
    join()
    report()
    report()
    assert.equal(3, #c:running())
  end)

  it("keeps nothing of those that are gone", function()
    local nodes <const>, monitors <const> = #c.a.nodes, size(c.monitors)
    for round = 1, 100 do
      ask {op = "workers", count = 3}
      local node <const> = join()
      report()
      assert.equal(3, #c:running())
      if round % 2 == 0 then
        ask {op = "workers", count = 2}
        report()
        assert.is_true(node.vacant)
      end
      c.requested:handle {kind = "exit", right = "node", call = fake.monitored[node.agent], code = round % 2,
                          text = "it died", name = "EDIED"}
      report()
      report()
    end
    assert.is_true(#c.workers <= 5, "ranks " .. #c.workers)
    assert.is_true(size(c.records) <= 5)
    assert.equal(nodes, #c.a.nodes)
    assert.equal(monitors, size(c.monitors))
    assert.equal(0, size(c.evaluations))
    for _, w in ipairs(c:running()) do assert.is_true(w.rank <= 2) end
  end)

  it("tells a worker that comes how many there are, and takes nothing of a former one for its own", function()
    join()
    report()
    ask {op = "drop", ranks = {3}}
    report()
    local former <const> = c.workers[3]
    c.requested:handle {kind = "exit", right = "node", call = fake.monitored[former.node.agent], code = 0}
    for _ = 1, 3 do report() end
    join()
    assert.equal(3, fake.called[#fake.called].value.workers)
    assert.same({3}, fake.called[#fake.called].value.ranks)
    local w <const> = c.workers[3]
    assert.is_true(w ~= former and w.life > former.life and w.stream > former.stream)
    report()
    c.requested:handle {kind = "cast", right = "node", from = former.address, value = {op = "failed", rank = 3,
      life = former.life, error = {message = "late"}}}
    assert.is_nil(c.failed)
  end)

  it("carries out no order that is older than its newest, and takes one twice", function()
    assert.same({}, ask {op = "verb.grant", order = 5, nodes = {n1 = 1}})
    assert.is_true(c.workers[2].dropped)
    assert.equal("a newer order has come", ask({op = "verb.grant", order = 4, nodes = {n1 = 1, n2 = 1}}).refused)
    assert.is_true(c.workers[2].dropped)
    assert.same({}, ask {op = "verb.grant", order = 5, nodes = {n1 = 1}})
  end)

  it("goes on when it was resumed while its workers were leaving", function()
    ask {op = "verb.pause", release = true}
    for rank = 1, 2 do from(rank, {op = "report", id = 1, fields = {examples = 1}}) end
    from(1, {op = "done"})
    local answers <const> = #fake.answers
    ask {op = "verb.resume"}
    assert.equal(answers, #fake.answers) -- when workers are there again
    assert.equal("suspending", c.life.state)
    from(2, {op = "done"})
    assert.equal("suspended", fake.answers[answers + 1].value.state) -- to who has paused it
    assert.equal("waking", c.life.state)
    for _, w in ipairs(c.workers) do
      if w.state == "joining" then from(w.rank, {op = "ready"}) end
    end
    assert.equal("running", c.life.state)
    assert.equal("running", fake.answers[answers + 2].value.state)
    assert.equal(2, #c:running())
  end)

  it("pauses, takes the pause back, and lets those know that waited for it", function()
    ask {op = "verb.pause"}
    from(1, {op = "report", id = 1, fields = {examples = 1}})
    assert.equal("pausing", c.life.state)
    ask {op = "verb.resume"}
    assert.equal("T0210", fake.errors[#fake.errors].err.code)
    ask {op = "verb.resume"}
    assert.equal("T0513", fake.errors[#fake.errors].err.code)
    ask {op = "verb.pause"}
    from(2, {op = "report", id = 1, fields = {examples = 1}})
    c:tick()
    assert.equal("paused", c.life.state)
    local sent <const> = #fake.sent
    ask {op = "verb.pause", release = true} -- the report that was held back is answered: workers leave with it
    assert.equal("suspending", c.life.state)
    assert.is_true(#fake.sent > sent)
    assert.is_true(c.workers[1].dropped and c.workers[2].dropped)
  end)

  it("gives no rank away that peers of it have not done without", function()
    join()
    report()
    local node <const> = c.workers[3].node
    c.requested:handle {kind = "exit", right = "node", call = fake.monitored[node.agent], code = 1, text = "it died",
              name = "EDIED"}
    join()
    assert.equal("waiting", c.workers[4].state)
    assert.equal("lost", c.workers[3].state)
  end)
end)
