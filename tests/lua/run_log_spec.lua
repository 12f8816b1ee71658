package.path = "tests/lua/?.lua;" .. package.path
require "support"
local errors = require "tide.errors"
local run_log = require "tide.run.run_log"

describe("the log of a run", function()
  local directory, part, read

  before_each(function()
    directory = os.tmpname()
    os.remove(directory)
    assert(os.execute("mkdir " .. directory))
    part, read = run_log.PART_BYTES, run_log.READ_BYTES
  end)

  after_each(function()
    run_log.PART_BYTES, run_log.READ_BYTES = part, read
    os.execute("rm -r " .. directory)
  end)

  local function opened()
    local log <const> = run_log.new()
    assert(log:open(directory))
    return log
  end

  -- The log without the times of its lines, read from `after` on, and where that ends.
  local function content(after)
    local parts = {}
    while true do
      local text <const>, size <const>, next_at <const> = run_log.read(directory, after)
      parts[#parts + 1] = text
      after = next_at
      if next_at >= size then break end
    end
    return (table.concat(parts):gsub("%f[^\0\n]%d+%-%d+%-%d+ %d+:%d+:%d+%.%d+ ", "")), after
  end

  it("keeps what is printed before the directory exists, and whole lines of pieces", function()
    local log <const> = run_log.new()
    log:print "one\n"
    log:print "tw"
    assert(log:open(directory))
    log:print "o\nthr"
    log:print "ee"
    assert.equal("one\ntwo\n", content())
    log:close()
    assert.equal("one\ntwo\nthree\n", content())
    log:print "nobody reads it\n"
  end)

  it("adds an error once, with its place", function()
    local log <const> = opened()
    local err <const> = errors.new("T0609", "attempt to index", {
      where = "mf.lua:31", node = "n2", actor = "worker mf/1"})
    log:error(err)
    log:error(err)
    log:close()
    local _, count = content():gsub("error%[T0609%]: on n2 %(worker mf/1%): attempt to index\n  %-%-> mf.lua:31", "")
    assert.equal(1, count)
    assert.equal("mf.lua:31: attempt to index (on n2, worker mf/1)", errors.line(err))
  end)

  it("is bounded, and positions count what was dropped", function()
    run_log.PART_BYTES, run_log.READ_BYTES = 4000, 256
    local log, after, followed = opened(), 0, {}
    local printed = {}
    for i = 1, 1000 do
      printed[i] = ("line %d"):format(i)
      log:write(printed[i])
      if i % 7 == 0 then followed[#followed + 1], after = content(after) end
    end
    followed[#followed + 1] = content(after)
    local lines = {}
    for line in table.concat(followed):gmatch "[^\n]+" do
      if line:find "^line" then lines[#lines + 1] = line end
    end
    assert.same(printed, lines)
    local kept <const> = content(0)
    assert.is_true(#kept < 8200, #kept)
    assert.is_nil(kept:find("line 500\n", 1, true))
    log:close()
    log = opened() -- goes on where it was
    log:write "behind"
    log:close()
    assert.equal("behind\n", (content(after):match "[^\n]*\n$"))
  end)

  it("gives no more than the newest bytes when no position is named", function()
    run_log.READ_BYTES = 64
    local log <const> = opened()
    for i = 1, 100 do log:write(("line %d"):format(i)) end
    local text <const>, size <const>, next_at <const> = run_log.read(directory)
    assert.equal(64, #text)
    assert.equal(size, next_at)
    assert.is_nil(run_log.read(directory .. "/nothing"))
    log:close()
  end)
end)
