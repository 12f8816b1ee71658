#!/bin/bash
# The memory cap of a run: its tables take so much on each node and no more, whatever others take; people see it. Tables
# of a run that was submitted with --keep stay.
. "$(dirname "$0")/harness.sh"

cat >caps.lua <<'LUA'
local tide = require "tide"
local core = require "tide.core"
local WIDTH <const>, AT_ONCE <const> = 256, 64
local function worker(w)
  local rows, keys, err = tide.tensor.zeros("f32", AT_ONCE, WIDTH), {}, nil
  for first = 0, (w.params.rows or 16384) - 1, AT_ONCE do
    for i = 1, AT_ONCE do keys[i] = first + i end
    local ok
    ok, err = pcall(w.tables.t.push, w.tables.t, keys, rows)
    if not ok then break end
    err = nil
  end
  local text <const> = "^on node n[12] %(%d+%) run %d+ uses [%d.]+ MiB of its 4.0 MiB of memory: %d+ more rows of table "
    .. "'greedy%-%d+.t' would be too much; try again in %d+ ms$"
  for i = 1, AT_ONCE do keys[i] = i end
  w.tables.t:push(keys, rows) -- they are there
  local own <const> = core.memory(tonumber(w.params.number) or 0) or {}
  w:report {refused = err and err.name == "EBUSY" and 1 or 0, told = err and (err.message:find(text) or error(err, 0)) or 0,
            within = own.used_bytes and own.used_bytes <= 4.5 * 2^20 and own.used_bytes > 3 * 2^20 and 1 or 0}
end
local function table_of(consistency, technique)
  return tide.table {keys = tide.hashed {}, width = WIDTH, consistency = consistency, technique = technique}
end
local greedy = tide.job {name = "greedy", memory = "4MiB", tables = {t = table_of()}, worker = worker,
                         params = {number = 1, rows = 16384}}
local modest = tide.job {name = "modest", tables = {t = table_of()}, worker = worker,
                         params = {rows = 8192}}
local many = {}
for i = 1, 12 do many["t" .. i] = table_of() end
local tables = tide.job {name = "tables", memory = "1MiB", tables = many, worker = worker}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 2}
  local small <close> = cluster:start(greedy, nil, {slots = 2})
  local other <close> = cluster:start(modest, nil, {slots = 2})
  small:wait()
  other:wait()
  local a <const>, b <const> = small.history[1], other.history[1]
  print(("greedy: refused %g, told %g, within %g; modest: refused %g"):format(a.refused, a.told, a.within, b.refused))
  local large <close> = cluster:start(greedy, {rows = 1024, number = 3}, {slots = 1, memory = "64MiB"})
  large:wait()
  print(("with more: refused %g"):format(large.history[1].refused))
  local ok, err = pcall(cluster.start, cluster, tables, nil, {slots = 1})
  print(ok, err.code, err.message:match "run %d uses its 1.0 MiB of memory: there is no room for another table")
  ok, err = pcall(cluster.start, cluster, greedy, nil, {slots = 1, memory = "64kB"})
  print(ok, err.code, err.message)
end)
LUA
for how in run sim; do
  run 0 $how caps.lua
  says out.txt '^greedy: refused 2, told 2, within 2; modest: refused 0'
  says out.txt '^with more: refused 0'
  says out.txt '^false	T0601	run 4 uses its 1.0 MiB of memory: there is no room for another table'
  says out.txt '^false	T0113	cluster:start: `memory` is the string "64kB", not a size such as "64MiB" from 1 MiB on'
done

cat >bad.lua <<'LUA'
local tide = require "tide"
tide.job {name = "bad", memory = "much", worker = function() end}
LUA
run 1 run bad.lua
says err.txt 'T0203.*job `bad`: `memory` is the string "much", not a size'

cat >stays.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "stays", tables = {t = tide.table {keys = tide.dense(100), width = 4}},
  worker = function(w)
    w.tables.t:push({7}, {{1, 2, 3, 4}})
    w:report {examples = 1}
    while w.params.wait and not w:stopping() do w:report {examples = 1} end
  end,
  params = {wait = true},
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  cluster:start(job):wait()
end)
LUA
run 0 up lab -n 1 --workers 2
run 2 submit --cluster lab --memory 5kB stays.lua
says err.txt 'T0104.*--memory: .5kB. is not from 1 MiB on'
run 0 submit --cluster lab --slots 1 --memory 8MiB --keep stays.lua
begun() { "$TIDE" job show stays-1 --cluster lab | grep -q 'report *[1-9]'; }
wait_for 10 begun
run 0 job show stays-1 --cluster lab
says out.txt '^memory +8 MiB on each node: n1 [0-9]+.* KiB$'
run 0 jobs --cluster lab
says out.txt '^job +state +slots +memory'
says out.txt '^stays-1 +running +1 of 1 +8 MiB'
run 0 job stop stays-1 --cluster lab
run 1 job wait stays-1 --cluster lab --timeout 20s
run 0 tables --cluster lab
says out.txt '^stays-1.t .* 1 '
run 0 table drop stays-1.t --cluster lab --yes
run 0 down lab --yes
nothing_left
finish
