-- A table of many more keys than are used: 10^9 that may come, 10^7 that are pushed, in random order; then the memory
-- of the node (VmHWM), of which `memory` bounds rows, index and buffers.
local tide = require "tide"
local opt = tide.options {
  disk = {"directory of the rows", default = "/var/tmp"}, claimed = {"keys that may come", default = 10 ^ 9},
  touched = {"keys that are pushed", default = 10 ^ 7}, memory = {"of the table", default = "512MiB"},
}
local WIDTH <const>, AT_ONCE <const> = 64, 10000
local CLAIMED <const>, TOUCHED <const> = math.tointeger(opt.claimed), math.tointeger(opt.touched)

local job = tide.job {
  name = "claimed",
  tables = {rows = tide.table {keys = tide.hashed(), width = WIDTH, memory = opt.memory, disk = opt.disk}},
  worker = function(w)
    local t <const>, keys <const>, began <const> = w.tables.rows, {}, tide.now()
    local ones <const> = tide.tensor.zeros("f32", AT_ONCE, WIDTH):fill(1)
    for first = 0, TOUCHED - 1, AT_ONCE do
      for i = 1, AT_ONCE do keys[i] = (first + i) * 2654435761 % CLAIMED end
      t:push(keys, ones)
    end
    local s <const> = t:stats()
    local status <const> = assert(io.open "/proc/self/status"):read "a"
    print(("%d of %d keys in %.0f s: %d rows in memory, %d on the disk, VmHWM %.0f MiB"):format(TOUCHED, CLAIMED,
      tide.now() - began, s.rows, s.cold_rows, tonumber(status:match "VmHWM:%s*(%d+)") / 1024))
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
