#!/bin/bash
# Readers of checkpoints: they follow a run while it trains, see one generation for all keys of a lookup, never say that
# they are less behind than they are, and serve when training was killed. Damage, an older directory and another table
# are errors that leave what was served.
. "$(dirname "$0")/harness.sh"

# Pushes only add, so the sum of all rows never falls from a generation to the next.
cat >train.lua <<'END'
local tide = require "tide"
local N <const> = 2000
local job = tide.job {
  name = "pub", checkpoint = {dir = "ckpt", every = "200ms", keep = 3},
  tables = {rows = tide.table {keys = tide.hashed(), width = 4}},
  worker = function(w)
    local keys <const>, ones <const> = tide.range(1, N), tide.tensor.zeros("f32", N, 4)
    ones:fill(1)
    w.tables.rows:push(keys, ones)
    while not w:stopping() do
      w.tables.rows:push({w.rng:below(N) + 1}, {{1, 1, 1, 1}})
      w:report {examples = 1}
      tide.sleep(0.002)
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
END
cat >serve.lua <<'END'
local tide = require "tide"
local opt = tide.options {seconds = {"to serve", default = 2.0}, table = {"name", default = "rows"}}
tide.main(function()
  local r <close> = tide.reader {dir = "ckpt", table = opt.table, every = "50ms"}
  local keys, seen = tide.range(1, 2001), {}
  local until_s = tide.now() + opt.seconds
  while tide.now() < until_s do
    local rows, found, n = r:pull(keys)
    assert(found[1] == 1 and found[2001] == 0 and rows[2001 * 4] == 0, "key 2001 was never pushed")
    assert(not seen.sum or (n == seen.n and rows:sum() == seen.sum) or (n > seen.n and rows:sum() >= seen.sum),
      "a version changed, or an older one is served")
    if n ~= seen.n then seen.count = (seen.count or 0) + 1 end
    seen.n, seen.sum = n, rows:sum()
    tide.sleep(0.01)
  end
  local info = r:info()
  print(("served %d versions; %d generations loaded, %d rows read; problem %s"):format(seen.count, info.loaded, info.read,
    r.problem and r.problem.code or "none"))
  print(("behind %s"):format(r:behind() >= 0 and r:behind() < 600 and "known" or "unknown"))
end)
END
"$TIDE" run train.lua >train.txt 2>&1 &
trainer=$!
started+=("$trainer")
for _ in $(seq 300); do
    [ -n "$(ls ckpt/*/MANIFEST.json 2>/dev/null)" ] && break
    sleep 0.1
done
run 0 run serve.lua --seconds 2
says out.txt 'served ([2-9]|[1-9][0-9]) versions; [0-9]* generations loaded, [0-9]* rows read; problem none'
says out.txt 'behind known'

# Training is killed: readers serve, also new ones.
kill -KILL "$trainer"
wait "$trainer" 2>/dev/null
run 0 run serve.lua --seconds 0.5
says out.txt 'served 1 versions.*problem none'
run 1 run serve.lua --table columns
says err.txt "no table 'columns'"

# A reader that has a generation keeps it when the directory is damaged, begins anew, or holds another table.
cat >keeps.lua <<'END'
local tide, core = require "tide", require "tide.core"
local function job(width)
  return tide.job {name = "k" .. width, tables = {t = tide.table {keys = tide.hashed(), width = width}},
    worker = function(w) while not w:stopping() do tide.sleep(0.02) end end}
end
local narrow <const>, wide <const> = job(1), job(2)
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local run = cluster:start(narrow)
  run.tables.t:push({5}, {{1}})
  cluster:checkpoint "k"
  local r <close> = tide.reader {dir = "k", table = "t"}
  local function kept(code, text)
    local newer <const>, err <const> = r:refresh()
    assert(newer == nil and err.code == code and tostring(err.message):find(text, 1, true), tostring(err))
    assert(r.problem == err and r:pull {5}[1] == 1, "what was served is gone")
  end
  run.tables.t:push({5}, {{1}})
  cluster:checkpoint "k"
  local file <close> = assert(io.popen "ls k/000002/*.safetensors")
  local path <const> = file:read "l"
  local f <close> = assert(io.open(path, "r+"))
  f:seek("set", 300)
  f:write "X"
  f:flush()
  kept("T0703", path)
  os.execute "mv k k-damaged"
  kept("T0702", "no checkpoint")
  run:stop()
  run:close()
  local other = cluster:start(wide)
  other.tables.t:push({5}, {{7, 7}})
  cluster:checkpoint "k"
  kept("T0705", "of another table")
  other:stop()
  print "all kept"
end)
END
run 0 run keeps.lua
says out.txt 'all kept'

# What a reader has is what the table had at the cut, and what a restore brings back, of a table whose keys go.
cat >equal.lua <<'END'
local tide = require "tide"
local job = tide.job {
  name = "eq",
  tables = {t = tide.table {keys = tide.hashed {limit = 150, evict = "lfu", expire = {unused = "1h"}}, width = 2,
    init = tide.uniform {low = 1, high = 2}}},
  worker = function(w) while not w:stopping() do tide.sleep(0.02) end end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  local t <const>, all <const>, rng <const> = run.tables.t, tide.range(1, 2000), tide.random(3)
  local reader, kept
  for wave = 1, 6 do
    for _ = 1, 40 do
      local keys, rows = {}, {}
      for i = 1, 50 do keys[i], rows[i] = math.floor(2000 ^ rng:uniform()) * (wave > 3 and 7 or 1) % 2000 + 1, {1, wave} end
      t:push(keys, rows)
    end
    local info = cluster:checkpoint("eq-ckpt", {keep = 8})
    reader = reader or tide.reader {dir = "eq-ckpt", table = "t"}
    reader:refresh()
    local served <const>, found <const>, n <const> = reader:pull(all)
    kept = t:pull(all)
    assert(n == info.generation, "an older generation is served")
    assert(reader:info().rows == found:sum(), "not the keys with a row are counted")
    for i = 1, #kept do
      if served[i] ~= kept[i] then error(("wave %d: key %d is served as %g, is %g (found %d)"):format(wave, (i + 1) // 2,
        served[i], kept[i], found[(i + 1) // 2])) end
    end
    print(("generation %d: %s, %d rows, equal"):format(n, info.full and "full" or "changes", info.rows))
  end
  for i = 1, 400 do t:push({i + 3000}, {{1, 1}}) end
  cluster:restore "eq-ckpt"
  local again <const> = t:pull(all)
  for i = 1, #kept do assert(again[i] == kept[i], "restored otherwise") end
  print "restored equal"
  print(reader:info().read, reader:info().loaded)
  run:stop()
end)
END
run 0 run equal.lua
says out.txt 'generation 6: changes, [0-9]* rows, equal'
says out.txt 'restored equal'

# A row that changed is counted once, though a version may have it twice.
cat >count.lua <<'END'
local tide = require "tide"
local job = tide.job {name = "c", tables = {t = tide.table {keys = tide.hashed(), width = 1}},
  worker = function(w) while not w:stopping() do tide.sleep(0.02) end end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local run = cluster:start(job)
  run.tables.t:push(tide.range(1, 100), tide.tensor.zeros("f32", 100, 1))
  cluster:checkpoint "c"
  local r <close> = tide.reader {dir = "c", table = "t"}
  local ok, err = pcall(tide.reader, {dir = "c", table = "t", every = "0s"})
  assert(not ok and err.message:find "r:refresh", "it would follow nothing")
  run.tables.t:push({5, 101}, {{1}, {1}})
  cluster:checkpoint "c"
  assert(r:refresh())
  print(r:info().rows .. " rows")
  run:stop()
end)
END
run 0 run count.lua
says out.txt '^101 rows'

# Increments for other servers: what changed since a generation, and what went. More than the chain has are all rows.
run 0 table export t --dir eq-ckpt --since 3 --out patch.safetensors
says err.txt 'eq-1.t: [1-9][0-9]* rows and [1-9][0-9]* keys that are gone, from generation 3 to 6'
grep -q '"gone":' patch.safetensors || fail "the patch has no tensor of deleted keys"
run 0 table export t --dir eq-ckpt --out all.safetensors
says err.txt 'eq-1.t: 300 rows and .* from generation 0 to 6'
run 1 table export t --dir eq-ckpt --since 9 --out patch.safetensors
says err.txt 'ends at generation 6'
run 2 table export t --dir eq-ckpt --out patch.csv
says err.txt 'FILE.safetensors'
# The example of the page.
awk '/^```lua/ { block = ""; on = 1; next } /^```/ { if (on && block ~ /tide.reader {dir/) printf "%s", block; on = 0; next }
    on { block = block $0 "\n" }' "$root/docs/guides/large-tables.md" >page.lua
run 0 run page.lua
says out.txt '2.0.1.0.true'
finish
