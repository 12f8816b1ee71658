-- Charts: what is drawn, and that nothing from outside breaks the picture.
package.path = "lua/?.lua;lua/?/init.lua;" .. package.path
package.loaded["tide.core"] = {}
package.loaded["tide.chart"] = nil
local chart = require "tide.chart"
package.loaded["tide.chart"], package.loaded["tide.core"] = nil, nil

local function count(svg, pattern) return select(2, svg:gsub(pattern, "")) end

describe("a chart", function()
  it("of lines has one line and one legend entry a series", function()
    local svg = chart.svg {{title = "t", series = {{name = "a", points = {{0, 1}, {1, 2}}}, {name = "b", points = {}}}}}
    assert.equal(2, count(svg, "<polyline"))
    assert.match(">a</text>", svg)
    assert.match(">b</text>", svg)
  end)

  it("leaves out what is no number", function()
    local svg = chart.svg {{series = {{name = "a", points = {{0, 1}, {1, 0 / 0}, {2, math.huge}, {3, 2}}}}}}
    assert.equal(2, count(svg, "<circle"))
    assert.is_nil(svg:find("nan") or svg:find("inf"))
  end)

  it("of bars draws the tallest up to the highest tick", function()
    local svg = chart.svg {{groups = {"x", "y"}, series = {{name = "a", values = {1, 4}}}}}
    assert.match('height="236.0"', svg)
    assert.match('height="59.0"', svg)
  end)

  it("has room for several, and for none", function()
    assert.match('viewBox="0 0 640 640"', chart.svg {{series = {}}, {groups = {}, series = {}}})
    assert.match('viewBox="0 0 640 320"', chart.svg {})
  end)

  it("escapes names", function()
    local svg = chart.svg {{title = "<&>", series = {{name = '"x"', points = {{1, 1}}}}}}
    assert.match("&lt;&amp;&gt;", svg)
    assert.match("&quot;x&quot;", svg)
  end)

  it("puts powers of ten on a logarithmic axis", function()
    local svg = chart.svg {{log_y = true, series = {{name = "a", points = {{0, 1}, {1, 100}, {2, 0}}}}}}
    assert.match(">100</text>", svg)
    assert.equal(2, count(svg, "<circle"))
  end)
end)
