-- Increments over links: a directory that follows another one through cuts, removed generations and damage.
package.path = "tests/lua/?.lua;" .. package.path
local support = require "support"
local core = support.core

local function slurp(path)
  local file <close> = io.open(path, "rb")
  return file and file:read "a"
end

local function spill(path, content)
  local file <close> = assert(io.open(path, "wb"))
  file:write(content)
  return true
end

describe("a follower", function()
  local increments, follower, from, to, wall

  before_each(function()
    support.reset()
    wall = 1000
    core.file_read = slurp
    core.file_list = function(path)
      local pipe <close> = io.popen("ls -A '" .. path .. "' 2>/dev/null")
      local list = {}
      for name in pipe:lines() do list[#list + 1] = name end
      return list
    end
    core.mkdir = function(path) return os.execute("mkdir -p '" .. path .. "'") end
    core.wall = function() return wall end
    increments, follower = require "tide.run.increments", require "tide.run.follower"
    increments.PART_BYTES = 10
    from, to = os.tmpname(), os.tmpname()
    for _, path in ipairs {from, to} do
      os.remove(path)
      core.mkdir(path)
    end
  end)

  after_each(function() os.execute(("rm -rf '%s' '%s'"):format(from, to)) end)

  local function publish(number, chain, content, clients)
    local path <const> = ("%s/%06d"):format(from, number)
    core.mkdir(path)
    spill(path .. "/a.rows", content)
    spill(path .. "/a.rows.crc", "sum")
    spill(path .. "/b.rows", "of another table")
    spill(path .. "/MANIFEST.json", core.json_encode {crc32c = "0", manifest = {
      generation = number, id = "id" .. number .. #content, chain = chain, cut_wall_ns = (wall - 2) * 1000000000,
      tables = {
        {name = "ads-1.users", options = {clients = clients or 0},
         files = {{name = "a.rows", size = #content, sums_size = 3}}},
        {name = "ads-1.words", options = {clients = 0}, files = {{name = "b.rows", size = 16, sums_size = 0}}},
      }}})
  end

  local requests, cut_at
  local function ask(request)
    requests[#requests + 1] = request.op
    if #requests == cut_at then return nil, {code = "T0501", message = "the link is cut"} end
    local answer <const> = {published = increments.newest, ["published.files"] = increments.files,
                            ["published.part"] = increments.part}
    return answer[request.op](from, request.table, request.generation, request.file, request.at)
  end

  local function follow(after)
    requests, cut_at = {}, after
    return follower.follow(ask, to, "users")
  end

  it("copies the chain of one table, and then what is new", function()
    publish(1, {1}, ("full"):rep(20))
    publish(2, {1, 2}, "changes")
    local copied = assert(follow())
    assert.same({"ads-1.users", 2}, {copied.table, copied.generation})
    assert.equal(("full"):rep(20), slurp(to .. "/000001/a.rows"))
    assert.equal("changes", slurp(to .. "/000002/a.rows"))
    assert.is_nil(slurp(to .. "/000001/b.rows"))
    publish(3, {1, 2, 3}, "more")
    assert.equal(3, assert(follow()).generation)
    local parts = 0
    for _, op in ipairs(requests) do parts = parts + (op == "published.part" and 1 or 0) end
    assert.equal(2, parts)
  end)

  it("continues behind a cut wherever it was, and shows whole generations alone", function()
    publish(1, {1}, ("0123456789"):rep(5) .. "end")
    assert(follow())
    local whole <const> = #requests
    for at = 1, whole do
      os.execute("rm -rf '" .. to .. "'")
      local copied, err = follow(at)
      assert.is_nil(copied)
      assert.equal("T0501", err.code)
      assert.is_nil(slurp(to .. "/000001/MANIFEST.json"))
      assert(follow())
      assert.is_true(#requests <= whole - math.max(0, at - 3), "what was copied is copied again")
      assert.equal(slurp(from .. "/000001/a.rows"), slurp(to .. "/000001/a.rows"))
      assert.equal(slurp(from .. "/000001/MANIFEST.json"), slurp(to .. "/000001/MANIFEST.json"))
    end
  end)

  it("takes the next one when a generation is removed under it, and forgets what no chain needs", function()
    publish(1, {1}, "one")
    assert(follow())
    publish(2, {1, 2}, "two")
    local removed = false
    local was <const> = increments.part
    increments.part = function(...)
      if not removed then
        removed = true
        os.execute("rm -rf '" .. from .. "/000002'")
        publish(3, {3}, "three")
      end
      return was(...)
    end
    assert.equal(3, assert(follow()).generation)
    increments.part = was
    assert.same({3}, increments.generations(to))
  end)

  it("counts age by its own clock, from the moment before it asked", function()
    publish(1, {1}, "one")
    wall = 1004 -- the cut was 6 s ago
    assert(follow())
    assert.equal(998, follower.cut_at(to, 1))
    assert.is_nil(follower.cut_at(from, 1))
  end)

  it("refuses another checkpoint with older numbers, a closed table and a name that is a path", function()
    publish(5, {5}, "five")
    assert(follow())
    os.execute("rm -rf '" .. from .. "/000005'")
    publish(2, {2}, "two")
    local copied, err = follow()
    assert.is_nil(copied)
    assert.equal("T0705", err.code)
    assert.match("another checkpoint began", err.message)
    publish(6, {6}, "six", 2)
    copied, err = follow()
    assert.is_nil(copied)
    assert.equal("T0801", err.code)
    assert.is_nil((increments.files(from, "users", 6)))
    assert.is_nil((increments.part(from, "users", 6, "a.rows", 0)))
    assert.is_nil((increments.part(from, "words", 6, "../000006/a.rows", 0)))
  end)
end)
