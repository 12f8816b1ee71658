package.path = "tests/lua/?.lua;" .. package.path
require "support"
local progress = require "tide.run.progress"

-- A terminal that obeys what progress writes: \r, cursor up, clear to the end, newline.
local function new_screen()
  local screen = {rows = {""}, row = 1, column = 1}
  function screen.write(s)
    local at = 1
    while at <= #s do
      local up <const> = s:match("^\27%[(%d+)A", at)
      if s:sub(at, at) == "\r" then
        screen.column, at = 1, at + 1
      elseif up then
        screen.row, at = screen.row - tonumber(up), at + #up + 3
        assert(screen.row >= 1, "above the screen")
      elseif s:find("^\27%[J", at) then
        for i = #screen.rows, screen.row + 1, -1 do screen.rows[i] = nil end
        screen.rows[screen.row] = ""
        at = at + 3
      elseif s:sub(at, at) == "\n" then
        screen.row, screen.column, at = screen.row + 1, 1, at + 1
        screen.rows[screen.row] = screen.rows[screen.row] or ""
      else
        local stop <const> = s:find("[\r\n\27]", at) or #s + 1
        assert(screen.column == 1, "text behind text")
        screen.rows[screen.row], at = s:sub(at, stop - 1), stop
        screen.column = 2
      end
    end
  end
  function screen.text() return table.concat(screen.rows, "\n") end
  return screen
end

describe("progress", function()
  local clock, written, count

  before_each(function() clock, written, count = 0, {}, 0 end)

  local function new(o)
    o = o or {}
    o.now = function() return clock end
    o.write = o.write or function(s)
      written[#written + 1] = s
      count = count + 1
    end
    return progress.new(o)
  end

  it("draws the line of the manual", function()
    local screen <const> = new_screen()
    local group = new {terminal = true, unicode = true, write = screen.write}
    local bar = group:add {name = "mf", total = 20000, unit = "ex"}
    clock = 12
    bar:update(8424, {{"loss", 0.9132}, {"local", "99.2%"}})
    assert.equal("mf  42%|████▏     | 8.42k/20k [00:12<00:16, 702 ex/s, loss=0.913, local=99.2%]", screen.text())
    group:close()
    assert.equal("", screen.text())
  end)

  it("draws in ASCII without UTF-8", function()
    local group = new {terminal = true}
    local bar = group:add {name = "mf", total = 100}
    clock = 10
    bar:update(42, {b = 2, a = 1})
    assert.equal("mf  42%|####------| 42/100 [00:10<00:14, 4.2 it/s, a=1, b=2]", written[1])
  end)

  it("redraws at most ten times a second", function()
    local group = new {terminal = true}
    local bar = group:add {name = "mf", total = 1000}
    for i = 1, 1000 do
      clock = i / 1000
      bar:update(i)
    end
    assert.is_true(count <= 11, count)
    assert.is_true(count >= 9, count)
  end)

  it("prints a line per 10 % without a terminal, and the last one once", function()
    local group = new {}
    local bar = group:add {name = "mf", total = 1000, unit = "ex"}
    for i = 1, 1000 do
      clock = i / 100
      bar:update(i)
    end
    bar:finish()
    group:close()
    assert.equal(10, count)
    assert.equal("mf  10% 100/1k [00:01<00:09, 100 ex/s]\n", written[1])
    assert.equal("mf  100% 1k/1k [00:10, 100 ex/s]\n", written[10])
    assert.is_nil(table.concat(written):find("[\27\r]"))
  end)

  it("prints a line per 30 s when nothing moves", function()
    local group = new {}
    local bar = group:add {name = "mf", total = 1000000}
    for i = 1, 100 do
      clock = i
      bar:update(i)
    end
    assert.equal(3, count)
  end)

  it("shows count and rate alone when the total is unknown", function()
    local group = new {terminal = true}
    local bar = group:add {name = "lda", unit = "tokens"}
    clock = 2
    bar:update(5000)
    assert.equal("lda  5k tokens [00:02, 2.5k tokens/s]", written[1])
  end)

  it("follows a change of rate within a few seconds", function()
    local bar = new({quiet = true}):add {name = "x", total = 1e6}
    local done = 0
    for i = 1, 100 do
      clock, done = i / 10, done + 10
      bar:update(done)
    end
    assert.near(100, bar:rate(clock), 1)
    for i = 101, 200 do
      clock, done = i / 10, done + 100
      bar:update(done)
    end
    local rate <const> = bar:rate(clock)
    assert.is_true(rate > 800 and rate < 1000, rate)
  end)

  it("counts neither the time before the work nor what was done before", function()
    local bar = new({terminal = true}):add {name = "x", total = 1000, count = 500, unit = "ex"}
    for i = 1, 100 do
      clock = i / 10
      bar:update(500)
    end
    bar:begin()
    clock = 11
    bar:update(600)
    assert.equal("x  60%|######----| 600/1k [00:01<00:04, 100 ex/s]", written[#written]:match "x .*$")
  end)

  it("estimates from counts that come seldom", function()
    local bar = new({quiet = true}):add {name = "x", total = 6000}
    for i = 1, 1000 do -- 300 every 10 s
      clock = i / 10
      bar:update(i // 100 * 300)
      if i >= 100 then assert.near(30, bar:rate(clock), 1e-6) end
    end
    clock = 130 -- what was due at 110 is late
    assert.near(10, bar:rate(clock), 1e-6)
  end)

  it("tells the mean at the end, however short the work was", function()
    local group = new {}
    local bar = group:add {name = "x", unit = "ex"}
    clock = 0.05
    bar:update(100)
    bar:finish()
    assert.equal("x  100 ex [00:00, 2k ex/s]\n", written[1])
    bar = group:add {name = "y", total = 1000, unit = "ex"}
    for i = 1, 100 do
      clock = 0.05 + i
      bar:update(i < 100 and i or 1000)
    end
    assert.equal("y  100% 1k/1k [01:40, 10 ex/s]\n", written[#written])
  end)

  it("shows no share of a total that was too small, and takes a better one", function()
    local group = new {terminal = true}
    local bar = group:add {name = "x", total = 100, unit = "ex"}
    clock = 1
    bar:update(150)
    assert.equal("x  150 ex [00:01, 150 ex/s]", written[#written])
    bar:aim(300)
    clock = 2
    bar:update(200)
    assert.truthy(written[#written]:find("x  66%|######----| 200/300 [00:02<00:01,", 1, true), written[#written])
  end)

  it("shows a bar that goes on, however many were done before it", function()
    local screen <const> = new_screen()
    local group = new {terminal = true, write = screen.write}
    for i = 1, 20 do group:add({name = "job" .. i, total = 10}):finish() end
    clock = 1
    group:add({name = "last", total = 10}):update(5)
    assert.truthy(screen.rows[#screen.rows]:find "^last  50%%")
    assert.equal(8, #group.bars)
  end)

  it("shows at most eight bars, then how many more", function()
    local screen <const> = new_screen()
    local group = new {terminal = true, write = screen.write}
    local bars = {}
    for i = 1, 20 do bars[i] = group:add {name = "job" .. i, total = 10} end
    clock = 1
    bars[1]:update(5)
    assert.equal(9, #screen.rows)
    assert.equal("and 12 more", screen.rows[9])
    clock = 2
    bars[2]:update(5)
    assert.equal(9, #screen.rows)
    assert.truthy(screen.rows[2]:find("^job2  50%%"))
    group:close()
    assert.equal("", screen.text())
  end)

  it("prints talk above the bars", function()
    local screen <const> = new_screen()
    local group = new {terminal = true, write = screen.write}
    local bar = group:add {name = "mf", total = 10}
    clock = 1
    bar:update(5)
    group:say "epoch 1"
    assert.equal("epoch 1", screen.rows[1])
    assert.truthy(screen.rows[2]:find("^mf  50%%"))
    group:hide()
    assert.equal("epoch 1\n", screen.text())
    clock = 1.2
    bar:update(6)
    assert.truthy(screen.rows[2]:find("^mf  60%%"))
  end)

  it("fits the width of the terminal", function()
    local group = new {terminal = true, unicode = true, width = 40}
    local bar = group:add {name = ("x"):rep(60), total = 10}
    clock = 1
    bar:update(5)
    assert.equal(39, utf8.len(written[1]))
  end)

  it("is silent under --quiet", function()
    local group = new {terminal = true, quiet = true}
    local bar = group:add {name = "mf", total = 10}
    clock = 1
    bar:update(5)
    group:say "x"
    group:close()
    assert.equal(0, count)
  end)

  it("survives counts beyond the total, a clock that stands, and hostile names", function()
    local group = new {terminal = true}
    local bar = group:add {name = "\27[2J", total = 10}
    bar:update(20)
    assert.equal("\\x1b[2J  20 it [00:00, ? it/s]", written[1])
    group:add({name = "zero", total = 0}):update(0)
  end)
end)
