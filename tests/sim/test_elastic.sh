#!/bin/bash
# The two published balancers under tide sim: who is slow, who moves, what it wins, and the same again for the same seed.
. "$(dirname "$0")/harness.sh"
examples=$root/examples

# ms of the last column of examples/psld.lua
at_end() { sed -n 's/.* at the end *\([0-9]*\)\.[0-9]* ms$/\1/p' out.txt; }
psld() { run 0 sim --seed 2 "$examples/psld.lua" --iterations 200 "$@"; }

psld --who static
static=$(at_end)
psld --who oracle
oracle=$(at_end)
psld --who psld
psld=$(at_end)
first=$(hash_of err.txt)
[ $((psld * 25)) -le $((static * 10)) ] || fail "psld takes $psld ms, static $static: less than 2.5 times as fast"
[ $((psld * 9)) -le $((oracle * 10)) ] || fail "psld takes $psld ms, the oracle $oracle: less than 0.9 of it"
psld --who psld
same "$first" "$(hash_of err.txt)" "slots that move"
psld --who psld --factor 1
calm=$(at_end)
[ "$calm" -le 26 ] || fail "without a straggler psld takes $calm ms"

# A quarter of the others' bandwidth: the server is not busy, and slow all the same.
link=(--slow link --cost 0 --width 256)
psld --who static "${link[@]}"
static=$(at_end)
psld --who psld "${link[@]}"
psld=$(at_end)
[ $((psld * 2)) -le "$static" ] || fail "behind a slow link psld takes $psld ms, static $static"
psld --who psld --factor 1 "${link[@]}"
calm=$(at_end)
[ "$calm" -le 110 ] || fail "with equal links psld takes $calm ms"

# BOA: speeds 1 : 1.6 : 3; the step that others are measured by, 404 ms; the straggler moves at step 40.
settled() { sed -n 's/.*: median \([0-9]*\)\.[0-9] ms, the best split gives \([0-9]*\)\.[0-9] ms$/\1 \2/p' out.txt; }
run 0 sim --seed 3 "$examples/boa.lua"
read -r time best <<<"$(settled)"
[ $((time * 100)) -le $((best * 105)) ] || fail "boa takes $time ms, the best split $best"
run 0 sim --seed 3 "$examples/boa.lua" --policy batching/equal
read -r equal best <<<"$(settled)"
[ $((time * 15)) -le $((equal * 10)) ] || fail "boa takes $time ms, equal shares $equal"
run 0 sim --seed 3 "$examples/boa.lua" --speeds 1,1,1,3 --batch 128 --per 3.98 --at 7.3 --wander 40 --steps 60
for step in 1 10 52; do
    ms=$(sed -n "s/^ *$step  *\([0-9]*\)\.[0-9] .*/\1/p" out.txt)
    [ "$step" = 1 ] && [ "$ms" = 404 ] && continue
    [ "$step" != 1 ] && [ "${ms:-999}" -le 177 ] || fail "step $step takes $ms ms"
done

# Both PSLD policies: one server that is always busy gets company, and what is too much goes when there is less to do.
cat >scale.lua <<'END'
local tide = require "tide"
local KEYS <const> = 240
local job = tide.job {
  name = "scale", stop = {epochs = 330}, policies = {placement = "placement/psld", scaling = {policy = "scaling/psld", params = {most = 4}}},
  tables = {model = {keys = {"dense", KEYS}, width = 4}},
  worker = function(w)
    local keys, ones = {}, tide.tensor.zeros("f32", KEYS, 4)
    for i = 1, KEYS do keys[i] = i - 1 end
    ones:fill(1)
    while not w:stopping() do
      if w.reports > 210 then tide.sleep(0.1) end
      w.tables.model:push(keys, ones)
      local rows = w.tables.model:pull(keys)
      assert(rows:min() >= w.reports + 1, "an own push is missing")
      w:report {examples = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {servers = 1, nodes = 2}
  cluster:serve_cost("s1", "100us")
  local known, began, most, last = {s1 = true}, tide.now(), 1, 0
  local run = cluster:start(job)
  for r in run:events "report" do
    local servers = 0
    for _, n in ipairs(cluster:agents()) do
      if n.name:find "^s" then
        servers = servers + 1
        if not known[n.name] then cluster:serve_cost(n.name, "100us") end
        known[n.name] = true
      end
    end
    most = math.max(most, servers)
    if r.n % 30 == 0 then
      print(("step %d servers %d %.1f ms"):format(r.n, servers, 1e3 * (tide.now() - began) / 30))
      began = tide.now()
    end
    last = r.n
  end
  run:wait()
  local keys = {}
  for i = 1, KEYS do keys[i] = i - 1 end
  local rows, all = run.tables.model:pull(keys), true
  for i = 1, #rows do all = all and rows[i] == 2 * last end
  print("exact", all, "most", most)
end)
END
run 0 sim --seed 1 scale.lua
says out.txt '^exact	true	most	[34]$'
says out.txt '^step 330 servers [12] '
finish
