#!/bin/bash
# The same seed gives the same run, whatever the environment, directory and stack limit of the process; Lua's own
# sources of chance included: the order of `pairs`, `tostring {}`, math.random.
. "$(dirname "$0")/harness.sh"

cat >chance.lua <<'EOF'
local tide = require "tide"
local job = tide.job {
  name = "chance",
  worker = function(w)
    for _ = 1, 3 do
      local words = {}
      for word in pairs {alpha = 1, beta = 2, gamma = 3, delta = 4, [print] = 5, [{}] = 6, [w.rank] = 7} do
        words[#words + 1] = tostring(word)
      end
      w:log(table.concat(words, " ") .. " " .. tostring {} .. " " .. math.random(1 << 40))
      tide.sleep(math.random() / 100)
    end
    local keys = {}
    for i = 1, 20 do keys[i] = math.random(0, 99) end
    w.tables.t:push(keys, w.tables.t:pull(keys))
    w:report {sum = w.tables.t:pull(keys):sum()}
  end,
  tables = {t = tide.table {keys = tide.dense(100), width = 4, init = tide.uniform {low = -1, high = 1}, update = {"add"}}},
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3, workers = 2}
  local run = cluster:start(job)
  for r in run:events "report" do print(("sum %.9g"):format(r.sum)) end
end)
EOF

run 0 sim --seed 7 chance.lua
cp err.txt first.txt
cp out.txt first-out.txt
first=$(hash_of err.txt)
says err.txt 'table: 0x'

run 0 sim --seed 7 chance.lua
same "$first" "$(hash_of err.txt)" "a second process"
cmp -s err.txt first.txt && cmp -s out.txt first-out.txt || fail "a second process prints something else"

mkdir elsewhere && cp chance.lua elsewhere/
cd elsewhere || exit 1
PADDING=$(head -c 9000 /dev/zero | tr '\0' x) LANG=de_DE.UTF-8 run 0 sim --seed 7 chance.lua
same "$first" "$(hash_of err.txt)" "another environment and directory"
cmp -s err.txt ../first.txt || fail "another environment and directory: it prints something else"
cd ..

for limit in 1000 unlimited; do
    code=0
    (ulimit -s $limit && exec timeout 60 "$TIDE" sim --seed 7 chance.lua >out.txt 2>err.txt) || code=$?
    [ $code = 0 ] || fail "stack limit $limit: exit code $code"
    same "$first" "$(hash_of err.txt)" "stack limit $limit"
done

run 0 sim --seed 8 chance.lua
[ "$(hash_of err.txt)" != "$first" ] || fail "another seed gives the same hash"
[ "$(grep -c 'table: 0x' err.txt)" = 18 ] || fail "18 lines of six workers were wanted"

run 0 sim --check-determinism --seed 9 chance.lua
says err.txt 'the same course'
run 0 sim chance.lua --seeds 1..4 --jobs 2 --json
[ "$(grep -c '"schema": *"tide.sim/1"' out.txt)" = 4 ] || fail "four records were wanted"
[ "$(grep -o '"hash": *"[0-9a-f]*"' out.txt | sort -u | wc -l)" = 4 ] || fail "four seeds, not four hashes"
# Planted: a worker sends what differs from process to process. The check finds it and shows the first such event.
cat >leak.lua <<'EOF'
local tide = require "tide"
local job = tide.job {
  name = "leak",
  worker = function(w)
    for i = 1, 300 do
      local uuid = i == 250 and require("tide.core").file_read "/proc/sys/kernel/random/uuid" or "the same"
      w:log(uuid)
      w:report {examples = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
EOF
run 1 sim --check-determinism --seed 3 leak.lua
says err.txt 'error\[T0219\]: the runs of seed 3 differ first at'
[ "$(grep -cE '^ +[0-9]+ [0-9a-f]{16} [0-9]+ (n1|n2|driver) ' err.txt)" = 2 ] || fail "the two events are not shown"

# How much a run talks does not change it.
run 0 sim --seed 7 --verbose chance.lua
same "$first" "$(hash_of err.txt)" "--verbose"
run 0 sim --seed 7 --json --quiet chance.lua
same "$first" "$(sed -n 's/.*"hash": *"\([0-9a-f]*\)".*/\1/p' out.txt)" "--json --quiet"
# What stands in the way is named.
mkdir alone && cp "$TIDE" alone/tide
code=0
alone/tide sim --seed 7 chance.lua >out.txt 2>err.txt || code=$?
[ $code = 1 ] || fail "without tide-sim the exit code is $code"
says err.txt 'error.T1001.: the program tide-sim is not beside tide'
if command -v cc >/dev/null && ! nm "$TIDE" | grep -q __asan_init; then
    cat >take.c <<'EOF'
#include <sys/mman.h>
__attribute__((constructor)) static void take(void) {
    mmap((void *)0x108000000000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}
EOF
    cc -shared -fPIC -o take.so take.c
    code=0
    LD_PRELOAD=$PWD/take.so "$(dirname "$TIDE")/tide-sim" sim --seed 7 chance.lua >out.txt 2>err.txt || code=$?
    [ $code = 1 ] || fail "with the address taken the exit code is $code"
    says err.txt 'the address range 0x108000000000 of [0-9]+ bytes is taken'
fi
finish
