package.path = "tests/lua/?.lua;" .. package.path
require "support"
local log_lines = require "tide.show.log_lines"
local log_query = require "tide.run.log_query"
local output = require "tide.run.output"

local LOG <const> = [[
2026-11-28 21:13:25.884 said by the script
2026-11-28 21:13:25.900 [err] a warning of the script
2026-11-28 21:13:26.330 [n2 #2] loss 0.5
second line
2026-11-28 21:13:26.400 [n1 #1 err] slow disk
2026-11-28 21:13:27.000 [n1 #12] [n9 #3] quoted
]]

describe("a query of a run's log", function()
  local function kept(o)
    local lines, filter = {}, log_query.filter(o)
    for chunk in LOG:gmatch "[^\n]*\n" do -- whatever the chunks are
      for line in filter(chunk):gmatch "([^\n]*)\n" do lines[#lines + 1] = line:gsub("^%S+ %S+:%S+ ", "") end
    end
    return lines
  end

  it("knows time, rank, node and stream of a line", function()
    assert.same({time = "2026-11-28 21:13:26.400", rank = 1, node = "n1", err = true, fatal = false,
      text = "slow disk"},
      log_lines.entry "2026-11-28 21:13:26.400 [n1 #1 err] slow disk")
    assert.same({time = "2026-11-28 21:13:25.900", rank = 0, err = true, fatal = false, text = "a warning"},
      log_lines.entry "2026-11-28 21:13:25.900 [err] a warning")
    assert.is_true(log_lines.entry("2026-11-28 21:13:25.900 error[T0210]: it was interrupted").err)
    assert.equal("[n9 #3] quoted", log_lines.entry("2026-11-28 21:13:27.000 [n1 #12] [n9 #3] quoted").text)
    assert.equal(0, log_lines.entry("2026-11-28 21:13:27.000 [n1 #1 odd] x").rank)
    assert.is_nil(log_lines.entry "second line")
  end)

  it("keeps a rank with the lines that continue its lines", function()
    assert.same({"[n2 #2] loss 0.5", "second line"}, kept {rank = 2})
    assert.same({"said by the script", "[err] a warning of the script"}, kept {rank = 0})
    assert.same({}, kept {rank = 3})
  end)

  it("searches text as it stands, in any case, and shows whose line it was", function()
    assert.same({"[n2 #2] loss 0.5", "second line"}, kept {search = "SECOND"})
    assert.same({"[n1 #12] [n9 #3] quoted"}, kept {search = "[n9 #3]"})
    assert.same({}, kept {search = ".*"})
  end)

  it("keeps what came since a time, and what went to standard error", function()
    local at <const> = os.time {year = 2026, month = 11, day = 28, hour = 21, min = 13, sec = 26}
    local utc <const> = at + os.difftime(at, os.time(os.date("!*t", at)))
    assert.equal(3 + 1, #kept {since = utc})
    assert.same({"[n1 #1 err] slow disk"}, kept {since = utc, err = true})
  end)
end)

describe("what a script prints", function()
  it("becomes whole lines, and its rest is told at the end", function()
    local told = {}
    local put <const>, flush <const> = output.lines(function(lines) told[#told + 1] = lines end)
    put "one\ntw"
    put "o\n\nthr"
    flush()
    flush()
    assert.same({"one", "two\n", "thr"}, told)
    put(("x"):rep(1 << 17)) -- a line without an end is not kept for ever
    assert.equal(4, #told)
  end)

  it("is captured by stream, other files are written as ever", function()
    local print_before <const>, write_before <const> = print, io.write
    local files <const> = getmetatable(io.stderr).__index
    local method <const>, told = files.write, {}
    output.capture(function(chunk, err) told[#told + 1] = (err and "err " or "out ") .. chunk end)
    print("a", nil, 1)
    io.write("b", 2, "\n")
    local out <const> = io.stdout:write "c"
    io.stderr:write("d", 3)
    local path <const> = os.tmpname()
    local file <const> = io.open(path, "w")
    file:write "in a file"
    file:close()
    rawset(_G, "print", print_before)
    rawset(io, "write", write_before)
    files.write = method
    assert.same({"out a\tnil\t1\n", "out b2\n", "out c", "err d3"}, told)
    assert.equal(io.stdout, out)
    local read <const> = io.open(path)
    assert.equal("in a file", read:read "a")
    read:close()
    os.remove(path)
  end)
end)
