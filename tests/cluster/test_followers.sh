#!/bin/bash
# Increments over links, with TLS: a reader without the checkpoint's directory follows a run, sees one generation for all
# keys, catches up after it slept, and serves when training was killed, also anew from what it had.
. "$(dirname "$0")/harness.sh"

cat >train.lua <<'END'
local tide = require "tide"
local N <const> = 2000
local job = tide.job {
  name = "pub", checkpoint = {dir = "ckpt", every = "200ms", keep = 3},
  tables = {rows = tide.table {keys = tide.hashed(), width = 4}, closed = tide.table {keys = tide.hashed(), width = 1,
    clients = "none"}},
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
  local cluster <close> = tide.cluster {}
  cluster:start(job):wait()
end)
END
# Pushes only add, so the sum of all rows never falls from a generation to the next.
cat >serve.lua <<'END'
local tide = require "tide"
local opt = tide.options {at = {"endpoint", default = ""}, generations = {"to see", default = 2}}
tide.main(function()
  local r <close> = tide.reader {cluster = opt.at, keys = "keys/lab/alice", dir = "cache", table = "rows", every = "50ms"}
  local keys, seen, count = tide.range(1, 2001), {n = 0, sum = 0}, 0
  local deadline <const> = tide.now() + 60
  while count < opt.generations and tide.now() < deadline do
    local rows, found, n = r:pull(keys)
    assert(found[1] == 1 and found[2001] == 0, "key 2001 was never pushed")
    assert((n == seen.n and rows:sum() == seen.sum) or (n > seen.n and rows:sum() >= seen.sum),
      "a version changed, or an older one is served")
    if n ~= seen.n then
      count = count + 1
      print(("generation %d, behind %.3f"):format(n, r:behind()))
      io.stdout:flush()
    end
    seen.n, seen.sum = n, rows:sum()
    tide.sleep(0.02)
  end
  print(count >= opt.generations and "served" or "saw too few")
end)
END
port=$((20000 + $$ % 20000))
at=tcp:127.0.0.1:$port
run 0 keys init lab
run 0 keys issue --role read --name alice
"$TIDE" node --keys keys/lab/node --cluster lab --workers 1 --listen "$at" >node.log 2>&1 &
node=$!
started+=("$node")
up() { "$TIDE" nodes --cluster "$at" --keys keys/lab/alice --plain 2>/dev/null | grep -q up; }
wait_for 30 up
run 0 submit --cluster "$at" --keys keys/lab/admin train.lua
published() { [ -n "$(ls ckpt/*/MANIFEST.json 2>/dev/null)" ]; }
wait_for 60 published
mkdir elsewhere
ln -s ../keys elsewhere/keys
cp serve.lua elsewhere/
cd elsewhere || exit 1
run 0 run serve.lua --at "$at" --generations 3
says out.txt '^served'
says out.txt 'generation [0-9]*, behind [0-9]'
compgen -G 'cache/0*/*closed*' >/dev/null && fail "files of another table were copied"
run 1 table follow closed --dir other --once --cluster "$at" --keys keys/lab/alice
says err.txt 'no run publishes a table `closed`'

# The example of the page.
{
    echo 'local tide = require "tide" tide.main(function()'
    awk '/^```lua/ { block = ""; on = 1; next } /^```/ { if (on && block ~ /tide.reader {cluster/) printf "%s", block; on = 0; next }
        on { block = block $0 "\n" }' "$root/docs/guides/large-tables.md" |
        sed "s|tcp:10.0.0.7:7700|$at|; s|\"users\"|\"rows\"|; s|\"cache\"|\"page\"|"
    echo 'print("page", r:info().rows) end)'
} >page.lua
run 0 run page.lua
says out.txt '^page.2000'

# A reader that sleeps: it comes back to what is new.
"$TIDE" run serve.lua --at "$at" --generations 100000 >slept.txt 2>&1 &
reader=$!
started+=("$reader")
saw() { [ "$(grep -c '^generation' slept.txt)" -ge "$1" ]; }
wait_for 30 saw 2
follower=$(pgrep -P "$reader" -f 'table follow' | head -1)
[ -n "$follower" ] || fail "no process copies"
started+=("$follower")
before=$(grep -c '^generation' slept.txt)
kill -STOP "$reader" "$follower"
sleep 3
kill -CONT "$reader" "$follower"
wait_for 60 saw $((before + 2)) # catches up

# Training is killed: what was copied is served, also by a reader that begins now.
kill -KILL "$node"
host=$(pgrep -f "^$TIDE .*train.lua" | head -1)
[ -z "$host" ] || kill -KILL "$host"
at_death=$(grep -c '^generation' slept.txt)
sleep 0.5
kill -0 "$reader" || fail "the reader died with training"
grep -q error slept.txt && fail "the reader failed: $(cat slept.txt)"
kill "$reader"
wait "$reader" 2>/dev/null
run 0 run serve.lua --at "$at" --generations 1
says out.txt '^served'
[ "$at_death" -ge "$before" ] || fail "lines went"
finish
