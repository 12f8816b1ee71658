-- CSV that Tide writes, and the tables of the simulator that it reads.
package.path = "tests/lua/?.lua;" .. package.path
require "support"
local csv = require "tide.csv"

describe("csv", function()
  it("writes numbers that read as the same number", function()
    for _, v in ipairs {0.1, 1 / 3, 1e300, -2.5, 5e-324, 2^53} do assert.equal(v, tonumber(csv.cell(v))) end
    assert.equal("0.1", csv.cell(0.1))
    assert.equal("9007199254740993", csv.cell(9007199254740993))
    assert.equal("nan", csv.cell(0 / 0))
    assert.equal("inf", csv.cell(math.huge))
    assert.equal("-inf", csv.cell(-math.huge))
  end)

  it("puts what would be read otherwise into quotes", function()
    assert.equal('"a,b"', csv.cell "a,b")
    assert.equal('"a ""b"""', csv.cell 'a "b"')
    assert.equal('"a\nb"', csv.cell "a\nb")
    assert.equal('" a"', csv.cell " a")
    assert.equal('"1;2"', csv.cell "1;2")
    assert.equal("a b", csv.cell "a b")
    assert.equal("true", csv.cell(true))
  end)

  it("writes names and records alike, and no empty line", function()
    assert.equal('a,"b,c"\n1,\n,2\n', csv.records({"a", "b,c"}, {{a = 1}, {["b,c"] = 2}}))
    assert.equal('a\n""\n', csv.records({"a"}, {{}}))
  end)
end)

describe("tables of the simulator", function()
  it("may have a byte-order mark and cells in quotes", function()
    local path <const> = os.tmpname()
    local file <const> = assert(io.open(path, "wb"))
    file:write '\xef\xbb\xbf"name",submit\r\n"a",5\r\n'
    file:close()
    local t <const> = require("tide.sim.jobs.csv").read(path, {{name = "name", text = true}, {name = "submit"}})
    os.remove(path)
    assert.same({"a"}, t.name)
    assert.same({5}, t.submit)
  end)
end)
