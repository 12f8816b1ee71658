#!/bin/bash
# What is wrong with a script or its data is said with its place, by the right exit code, and nothing stays behind.
. "$(dirname "$0")/harness.sh"

cat >boom.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {nodes = {"nodes", default = 3}}
local boom = tide.job {name = "boom", worker = function(w)
  w:barrier "start"
  if w.rank == 2 then
    local x = print("rank 2 is on " .. w.node)
    print(x.field)
  end
  w:report {loss = 1}
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(boom)
  run:wait()
end)
LUA
run 1 run boom.lua
says err.txt 'boom\.lua:7'
node=$(sed -n 's/.*rank 2 is on \(n[0-9]\)$/\1/p' err.txt) # ranks follow the order of joining
says err.txt "on ${node:-?} \(worker boom/2\)"
says err.txt "attempt to index a nil value \(local 'x'\)"
nothing_left

run 2 run boom.lua --nods 2
says err.txt 'T0102'
says err.txt 'did you mean .--nodes'
nothing_left

run 0 run boom.lua --help
says out.txt '\-\-nodes'

cat >alias.lua <<'LUA'
local tide = require "tide"
local function one(name) return tide.table {keys = tide.dense(10), width = 1, name = name} end
local jobs = {
  tide.job {name = "twice", tables = function() return {a = one "x", b = one "x"} end, worker = function() end},
  tide.job {name = "crossed", tables = function() return {a = one "b", b = one()} end, worker = function() end},
  tide.job {name = "listed", tables = function() return {one()} end, worker = function() end},
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  for _, job in ipairs(jobs) do
    local ok, err = pcall(cluster.start, cluster, job)
    print(ok, err.code, err.message)
  end
end)
LUA
run 0 run alias.lua
says out.txt '^false.T0203.tables `a` and `b` of job `twice` are both called `twice-1\.x`'
says out.txt '^false.T0203.tables `a` and `b` of job `crossed` are both called `crossed-2\.b`'
says out.txt '^false.T0203.a table of job `listed` has no name'
nothing_left

echo 'local x = = 1' >syntax.lua
run 1 run syntax.lua
says err.txt 'T0201'
says err.txt 'syntax\.lua:1'

run 2 run missing.lua
says err.txt 'missing\.lua'

echo 'local tide = require "tide"' >empty.lua
run 1 run empty.lua
says err.txt 'T0208'

cat >inside.lua <<'LUA'
local tide = require "tide"
tide.main(function()
  tide.job {name = "late", worker = function() end}
end)
LUA
run 1 run inside.lua
says err.txt 'T0206'
says err.txt 'inside\.lua:3'

cat >upvalue.lua <<'LUA'
local tide = require "tide"
local cluster
local job = tide.job {name = "up", worker = function() print(cluster) end}
tide.main(function()
  cluster = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
LUA
run 1 run upvalue.lua
says err.txt 'T0206'
says err.txt 'upvalue .cluster.'
nothing_left

mkdir data && make_triples 1 data
sed -i '3s/.*/only two/' data/valid.txt
run 1 run "$root/examples/kge.lua" --data data --nodes 2
says err.txt 'valid\.txt:3'
nothing_left

run 2 run "$root/examples/kge.lua" --data nowhere
says err.txt 'nowhere'

# Modules travel: those that are loaded, and what a literal name says. The disk is not looked at again, nowhere.
mkdir -p other/sub
echo 'return {v = require("deep").v}' >other/part.lua
echo 'return {v = 1}' >other/deep.lua
echo 'return {v = 10}' >other/sub/lazy.lua
cat >other/modules.lua <<'LUA'
local tide = require "tide"
local part = require "part" -- require "commented"
local _ = [[ require "in_a_string" ]]
local job = tide.job {name = "d", worker = function(w)
  local lazy = require("sub.lazy")
  local ok, err = pcall(require, "unnamed")
  w:report {v = part.v + lazy.v, unnamed = ok and 1 or 0}
  w:log(err.code .. " " .. err.message)
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  assert(io.open("other/part.lua", "w")):write("return {v = 1000}\n"):close()
  local run <close> = cluster:start(job)
  for r in run:events "report" do print(r.v, r.unnamed) end
end)
LUA
echo 'return 1' >other/unnamed.lua
run 0 run other/modules.lua
says out.txt '^22	0$'
says err.txt 'T0221 module `unnamed` has not come with the script'
sed -i 's/sub\.lazy/sub.lacy/' other/modules.lua
run 1 run other/modules.lua
says err.txt 'T0221.*module `sub.lacy` is not found'
says err.txt 'other/modules.lua:5'
nothing_left
finish
