#!/bin/bash
# A node's memory cap: what would take its tables over it is refused with a time to wait, on real nodes and on simulated
# ones; what is there can still be used; people see it; caps that make no sense are refused.
. "$(dirname "$0")/harness.sh"

cat >cap.lua <<'LUA'
local tide = require "tide"
local core = require "tide.core"
local opt = tide.options {memory = {"of each node", default = "32MiB"}}
local ROWS <const>, WIDTH <const> = 16, 4096
local job = tide.job {
  name = "cap", tables = {w = {keys = tide.hashed {}, width = WIDTH}},
  worker = function(w)
    if w.rank > 1 then return w:report {within = 0, retry = 0, told = 0, still = 0} end
    local rows, keys = tide.tensor.zeros("f32", ROWS, WIDTH), {}
    local err
    for first = 0, 6000, ROWS do -- two nodes have room for two thirds of it
      for i = 1, ROWS do keys[i] = first + i end
      local ok
      ok, err = pcall(w.tables.w.push, w.tables.w, keys, rows)
      if not ok then break end
    end
    local text <const> = "^node n[12] %(%d+%) uses [%d.]+ MiB of its 32.0 MiB of memory: %d+ more rows of table "
      .. "'cap%-1.w' would be too much; try again in %d+ ms$"
    local memory <const> = core.memory()
    for i = 1, ROWS do keys[i] = i end
    w.tables.w:push(keys, rows) -- they are there
    w:report {
      within = memory.used_bytes <= memory.cap_bytes and memory.used_bytes > memory.cap_bytes // 2 and 1 or 0,
      retry = err.name == "EBUSY" and err.retry_after_ms or 0,
      told = err.message:find(text) or error(err.message, 0), still = w.tables.w:pull(keys):sum() + 1,
    }
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 1, memory = opt.memory}
  local run = cluster:start(job)
  for r in run:events "report" do print("refused", r.within, r.retry >= 50, r.told, r.still) end
  run:wait()
end)
LUA

run 0 run cap.lua
says out.txt '^refused	1	true	1	1'
run 0 sim cap.lua
says out.txt '^refused	1	true	1	1'
run 2 run cap.lua --memory much
says err.txt '`memory` is the string "much", not a size'
run 2 run cap.lua --memory -64MiB
says err.txt '`memory` is the string "-64MiB", not a size'
run 1 run cap.lua --memory 1MiB
says err.txt 'a memory cap of 1.0 MiB is too small: a node needs at least 32.0 MiB'
run 2 node --memory much
says err.txt 'memory'
run 2 node --memory 1MiB
says err.txt 'a memory cap of 1.0 MiB is too small'
run 2 node --memory 900000GiB
says err.txt 'is more than the .* this machine has'

begin node --controller --cluster capped --listen "unix:$work/c0.sock"
wait_for 10 "$TIDE" nodes --cluster capped --plain >/dev/null 2>&1
begin node --join "unix:$work/c0.sock" --cluster capped --name n1 --memory 64MiB
capped() { "$TIDE" nodes --cluster capped --json 2>/dev/null | grep -q '"memory_cap_bytes":67108864,.*"memory_tier":"calm"'; }
wait_for 10 capped
run 0 nodes --cluster capped
says out.txt 'of cap'
run 0 stat --cluster capped --count 1
says out.txt 'of cap'
run 0 top --cluster capped --timeout 20s
says out.txt 'n1: .* of 64 MiB, calm'
finish
