-- What may be reported, what its numbers mean, and what may be a param.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

require "tests.lua.fresh"()
local params = require "tide.run.params"
local report = require "tide.report"
local requests = require "tide.requests"
local service = require "tide.service"

describe("a report", function()
  it("holds numbers by printable names, of which none is one of its own", function()
    assert.is_nil(report.fault {loss = 1.5, examples = 0, ["precision@10"] = 0 / 0, ["größe"] = math.huge})
    local function refused(pattern, fields) assert.matches(pattern, report.fault(fields), 1, true) end
    assert.is_nil(report.fault {note = "warm-up", done = true})
    refused("the text `x` is no UTF-8", {x = "a\xff"})
    refused("the text `x` has 2000 bytes, more than 1024", {x = ("x"):rep(2000)})
    refused("`examples` is a string, not a number", {examples = "3"})
    assert.matches("`m` is a string, not a number", report.fault({m = "x"}, "`alike`"), 1, true)
    refused("the name \"a\\xff\" is not printable", {["a\xff"] = 1})
    refused("is not printable", {["a\nb"] = 1})
    refused("is empty", {[""] = 1})
    refused("200 bytes, more than 128", {[("x"):rep(200)] = 1})
    refused("`examples` is inf", {examples = math.huge})
    for _, name in ipairs {"kind", "n", "clock", "workers", "elapsed_s", "params", "stop", "time", "rank", "node",
                           "wait_s"} do
      refused(("`%s` is a name"):format(name), {[name] = 1})
    end
    local many = {}
    for i = 1, 1025 do many["x" .. i] = 1 end
    refused("at most 1024 fields, and this one 1025", many)
    local cycle = {}
    cycle.cycle = cycle
    refused("`cycle` is a table", cycle)
  end)

  it("is refused when workers report ever new names", function()
    local sums = {}
    for i = 1, 4096 do report.add(sums, {["x" .. i] = 1}) end
    report.add(sums, {x1 = 2, rank = 9})
    assert.equal(3, sums.x1)
    assert.is_nil(sums.rank)
    local ok, err = pcall(report.add, sums, {one_more = 1})
    assert.is_false(ok)
    assert.matches("more than 4096 different names", err.message)
  end)

  it("calls a mean per example a loss, of the examples of its own part where they are counted", function()
    local r <const> = {loss = 8, examples = 4, valid_loss = 6, valid_examples = 2, test_loss = 2, correct = 3,
                       valid_auc = 1.5, valid_auc_n = 3}
    local expected <const> = {loss = 2, valid_loss = 3, test_loss = 0.5, correct = 3, valid_auc = 0.5}
    for name, value in pairs(expected) do assert.equal(value, report.value(r, name), name) end
    assert.equal(5, report.value({loss = 5}, "loss"))
    assert.equal(5, report.value({loss = 5, examples = 0}, "loss"))
    assert.is_nil(report.value(r, "none"))
  end)
end)

describe("params", function()
  local known <const> = {eps = 0.5, name = "x", on = true, layers = {1, 2}}
  local function refused(pattern, given, o)
    local ok, err = params.check(given, known, o)
    assert.is_nil(ok)
    assert.equal(pattern:find("there is no param", 1, true) and "T0115" or "T0113", err.code)
    assert.matches(pattern, err.message, 1, true)
    return err
  end

  it("keep the types of those that they replace", function()
    assert.is_true(params.check({eps = 1, name = "y", on = false, layers = {}}, known))
    refused("param `eps` is a number (0.5), not the string \"0,05\": write 0.05", {eps = "0,05"})
    refused("param `name` is a string (x), not 5", {name = 5})
    refused("param `on` is a boolean (true), not 1", {on = 1})
    refused("param `layers` is a table, not 3", {layers = 3})
    refused("`eps` is not a number (NaN)", {eps = 0 / 0})
    refused("there is no param `epss`", {epss = 1})
    assert.is_true(params.check({epss = 1}, known, {new = true}))
    refused("run:set: params are a table", "x", {who = "run:set"})
    refused("params have names; 1 is none", {5})
  end)

  it("are read from words as those that are there have them", function()
    assert.equal("5", params.read("5", "x"))
    assert.equal(5, params.read("5", 0.1))
    assert.equal("integer", math.type(params.read("5", nil)))
    assert.is_true(params.read("true", false))
    assert.equal("0,05", params.read("0,05", 0.5))
    assert.equal("1e999", params.read("1e999", 0.5)) -- no number, as inf is none
  end)
end)

describe("a request", function()
  local function refused(pattern, actor, name, request)
    local ok, err = service.check(requests[actor], name, request)
    assert.is_nil(ok)
    assert.equal("T0116", err.code)
    assert.matches(pattern, err.message, 1, true)
  end

  it("is refused with the field that is malformed", function()
    assert.is_true(service.check(requests.agent, "move", {op = "move", table = "t", slots = {1, 2.0}, node = 3}))
    refused("it has no field `tabel`", "agent", "move", {tabel = "t", slots = {1}, node = 3})
    refused("`move` is malformed: `slots` is another table, not a list of whole numbers", "agent", "move",
      {table = "t", slots = {1, "x"}, node = 3})
    refused("`node` is missing", "agent", "move", {table = "t", slots = {}})
    refused("`script.args` is 5, not a list of strings", "agent", "load", {run = "r",
      script = {text = "", sha = "", path = "", args_sha = "", args = 5}})
    refused("`node.workers` is -1, not a whole number from 0 on", "run", "joined",
      {node = {name = "n", id = 1, agent = "a", workers = -1}})
    refused("`timeout_s` is -1", "runs", "verb", {name = 1, verb = "set", timeout_s = -1})
    refused("`node` has no field `zone`", "run", "joined",
      {node = {name = "n", id = 1, agent = "a", workers = 1, zone = "z"}})
  end)
end)
