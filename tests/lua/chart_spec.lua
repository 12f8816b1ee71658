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

  it("has powers of ten on both axes, with 2 and 5 between where they are few", function()
    local svg = chart.svg {{log_x = true, log_y = true, series = {{name = "a", points = {{1, 1}, {10, 1e6}}}}}}
    assert.match('middle" class="tick">2</text>', svg)
    assert.match('middle" class="tick">10</text>', svg)
    assert.match('end" class="tick">1e6</text>', svg)
    assert.is_nil(svg:find('end" class="tick">2</text>', 1, true))
    svg = chart.svg {{log_x = true, series = {{name = "a", points = {{1, 1}, {100, 2}, {10, 3}}}}}}
    local places = {}
    for x in svg:gmatch '<circle cx="([%d.]+)"' do places[#places + 1] = tonumber(x) end
    assert.near((places[1] + places[2]) / 2, places[3], 0.11) -- 10 lies in the middle of 1 and 100
  end)

  it("draws a line where something happened, inside of the axes", function()
    local svg = chart.svg {{log_x = true, events = {{10, "swap <b>"}, {1e6, "later"}, {0, "never"}, {0 / 0}},
      series = {{name = "a", points = {{1, 1}, {100, 2}}}}}}
    assert.equal(1, count(svg, 'class="event"'))
    assert.match("<title>swap &lt;b&gt;</title>", svg)
  end)

  it("draws marks without a line, each series another one", function()
    local svg = chart.svg {{series = {{name = "ours", points = {{0, 1}, {1, 2}}},
                                      {name = "published", marks = true, points = {{0, 1}, {1, 2}}},
                                      {name = "other", marks = true, points = {{0, 1}}}}}}
    assert.equal(1, count(svg, "<polyline"))
    assert.equal(2, count(svg, "<circle"))
    local shapes = {}
    for d in svg:gmatch '<path d="([^"]*)"' do shapes[d] = (shapes[d] or 0) + 1 end
    local counts = {}
    for _, n in pairs(shapes) do counts[#counts + 1] = n end
    table.sort(counts)
    assert.same({2, 3}, counts) -- one of each in the legend
  end)

  it("draws what lies between low and high as a band of a line and as bars of marks", function()
    local points = {{0, 2, 1, 4}, {1, 3, 2, 8}}
    local svg = chart.svg {{series = {{name = "a", points = points}}}}
    assert.equal(1, count(svg, "<polygon"))
    assert.match(">8</text>", svg) -- the axis covers it
    svg = chart.svg {{series = {{name = "a", points = points, marks = true}}}}
    assert.equal(0, count(svg, "<polygon"))
    assert.equal(2, count(svg, 'd="M[%d.]+ [%d.]+V'))
  end)

  it("has a note, escaped", function()
    assert.match('class="note">seed 1 &lt;b&gt;</text>', chart.svg {{note = "seed 1 <b>", series = {}}})
  end)
end)
