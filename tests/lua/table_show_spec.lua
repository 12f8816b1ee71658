-- `tide table show`: lines of a node for what only some tables have.
package.path = "tests/lua/?.lua;" .. package.path
require "support"
local table_show = require "tide.show.table"

describe("a table for people", function()
  local function part(more)
    local p = {node = "n1", width = 4, rows = 3, memory_bytes = 64, pulls_local = 0, pulls_remote = 0, pushes_local = 0,
      pushes_remote = 0, bytes_out = 0}
    for key, value in pairs(more) do p[key] = value end
    return {p}
  end

  it("has the keys that went", function()
    assert.match("n1: 7 pushes not admitted, 2 keys evicted, 1 expired",
      table_show.text("w", part {not_admitted = 7, evicted = 2, expired = 1}))
  end)

  it("has the rows on a disk", function()
    assert.match("n1: 9 rows on the disk alone, files 64 KiB; rows written 12, read 5, moved between files 3",
      table_show.text("w", part {cold_rows = 9, disk_bytes = 65536, frozen = 12, thawed = 5, compacted = 3}))
  end)

  it("says nothing of them for other tables", function()
    local text <const> = table_show.text("w", part {not_admitted = 0, evicted = 0, expired = 0, cold_rows = 0,
      disk_bytes = 0, frozen = 0, thawed = 0, compacted = 0})
    assert.not_match("disk", text)
    assert.not_match("admitted", text)
  end)
end)
