#!/bin/bash
# Training on four node processes learns: the loss falls, and the ranking is far better than chance.
. "$(dirname "$0")/harness.sh"
mkdir data && make_triples 1 data

train() {
    run 0 run "$root/examples/kge.lua" --data data --dim 16 --batch 128 --neg 32 --nodes 4 --json "$@"
}
value() { sed -n "s/.*\"$1\": *\\([-0-9.e]*\\).*/\\1/p" out.txt; }
more() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }

for model in complex rescal; do
    train --model $model --epochs 1
    mrr_1=$(value mrr)
    loss_1=$(value loss)
    train --model $model --epochs 15
    mrr_15=$(value mrr)
    more "$mrr_15" "$mrr_1" || fail "$model: MRR does not rise: $mrr_1, then $mrr_15"
    more "$mrr_15" 0.3 || fail "$model: MRR $mrr_15 after 15 epochs, chance is 0.08"
    more "$loss_1" "$(value loss)" || fail "$model: the loss does not fall"
    says err.txt '^$|^[^e]' # no error on stderr
    nothing_left
done
remote=$(value accesses_remote)
more "$remote" 0 || fail "four nodes and no remote access"
more "$(value wire_bytes)" 0 || fail "no bytes on the wire"

run 0 run "$root/examples/kge.lua" --data data --dim 8 --epochs 2 --nodes 2 --workers 2 --save out.safetensors
says out.txt 'MRR 0\.[0-9]+'
says out.txt 'what next'
says err.txt 'tide: again: tide run '
[ -s out.entities.safetensors ] && [ -s out.relations.safetensors ] || fail "the tables were not written"
nothing_left

# Clustered by relation, each node has the rows of its relations, and the result is as good.
rescal() {
    run 0 run "$root/examples/kge.lua" --data data --model rescal --dim 16 --batch 128 --neg 32 --nodes 2 --epochs 8 \
        --json "$@"
}
rescal --technique static
scattered=$(value wire_bytes)
rescal --technique static --cluster
more "$scattered" "$(value wire_bytes)" || fail "clustered: $(value wire_bytes) bytes on the wire, $scattered without"
more "$(value mrr)" 0.3 || fail "clustered: MRR $(value mrr)"
run 0 run "$root/examples/kge.lua" --data data --dim 8 --epochs 2 --nodes 2 --cluster --technique intent
says out.txt 'MRR 0\.[0-9]+'
nothing_left

# One example after the other: what the next ones need has come when their turn is.
mkdir wide
awk 'BEGIN { srand(3); for (i = 0; i < 4000; i++) {
    part = i % 20 == 0 ? "valid" : (i % 20 == 1 ? "test" : "train")
    printf "e%d\tr%d\te%d\n", int(rand() * 4000), int(rand() * 8), int(rand() * 4000) > ("wide/" part ".txt") } }'
for technique in relocate intent; do
    for sampling in preloc local; do
        run 0 run "$root/examples/kge.lua" --data wide --mode steps --neg 4 --dim 8 --epochs 2 --nodes 2 --cluster \
            --technique $technique --sampling $sampling --json
        more "$(value local_share)" 0.9 ||
            fail "steps, $technique, $sampling: $(value local_share) of the accesses are local"
    done
done
# Mini-batches: a pool drawn from what is here leaves the triples' own entities to come.
for sampling in preloc local; do
    run 0 run "$root/examples/kge.lua" --data wide --batch 64 --neg 256 --dim 8 --epochs 2 --nodes 2 \
        --sampling $sampling --json
    says out.txt "\"sampling\": *\"$sampling\""
    if [ $sampling = preloc ]; then drawn=$(value wire_bytes); fi
done
more "$(value local_share)" 0.85 || fail "batches, local: $(value local_share) of the accesses are local"
more "$drawn" "$(value wire_bytes)" || fail "batches, local: $(value wire_bytes) bytes, $drawn without"
nothing_left

# By buckets: an epoch has every triple once, whoever does it, who has asked for its entities since others used them.
cat >buckets.lua <<'LUA'
local tide = require "tide"
local data = tide.data.triples(arg[1])
local function epoch_of(workers, epoch, crowded)
  local seen, count, asked = {}, 0, 0
  for rank = 1, workers do
    local passed = {done = function() return true end, wait = function() return true end}
    local w = {rank = rank, workers = workers, crowded = crowded, seed = 7, barrier = function() return passed end}
    local here = {}
    local entities = {slot = function(_, key) return 3 * key % 4096 end}
    function entities.localize(_, keys)
      for _, key in ipairs(keys:totable()) do
        assert(key < data.entity_count)
        here[key], asked = true, asked + 1
      end
      return passed
    end
    for pair in data:cut(rank, workers, 7):buckets(w, {entities = entities}):epoch(epoch) do
      assert(pair.first == 0 and pair.count == pair.triples:rows())
      for i = 1, 3 * pair.count, 3 do
        local s, r, o = pair.triples[i], pair.triples[i + 1], pair.triples[i + 2]
        assert(here[s] and here[o])
        local name = ("%d %d %d"):format(s, r, o)
        seen[name], count = (seen[name] or 0) + 1, count + 1
      end
    end
  end
  return seen, count, asked
end
tide.main(function()
  local train, expected = data:whole "train", {}
  for i = 1, #train, 3 do
    local name = ("%d %d %d"):format(train[i], train[i + 1], train[i + 2])
    expected[name] = (expected[name] or 0) + 1
  end
  for _, workers in ipairs {1, 2, 3, 8} do -- eight have more columns than data/ has entities in some
    for epoch = 1, 2 do
      local seen, count, asked = epoch_of(workers, epoch, epoch == 2)
      assert(count == train:rows())
      assert(asked <= 2 * count) -- none for which there is no use
      for name, n in pairs(expected) do assert(seen[name] == n, name) end
    end
  end
  local ok, err = pcall(function() tide.data.images():buckets({}) end)
  print(not ok and tostring(err))
end)
LUA
head -30 wide/train.txt >few.txt && mkdir few && cp few.txt few/train.txt && head -3 few.txt | tee few/valid.txt >few/test.txt
for set in data few; do
    run 0 run buckets.lua "$set"
    says out.txt 'T0401.*only triples have entities to make buckets of'
done
for nodes in 1 3; do
    run 0 run "$root/examples/kge.lua" --data data --mode steps --neg 4 --dim 16 --epochs 10 --nodes $nodes \
        --technique relocate --order buckets --json
    more "$(value mrr)" 0.3 || fail "buckets on $nodes nodes: MRR $(value mrr)"
    more "$(value local_share)" 0.97 || fail "buckets on $nodes nodes: $(value local_share) of the accesses are local"
done
run 0 run "$root/examples/kge.lua" --data few --mode steps --dim 8 --epochs 2 --nodes 4 --workers 3 --technique relocate \
    --order buckets
mkdir two && for part in train valid test; do printf 'a\tr\tb\n' >"two/$part.txt"; done
run 0 run "$root/examples/kge.lua" --data two --dim 8 --epochs 1 --nodes 2
says out.txt '^  b +a$' # the neighbours of both
run 1 run "$root/examples/kge.lua" --order buckets --mode steps --cluster --technique relocate
says err.txt 'buckets pass from worker to worker: --order buckets needs --mode steps, --technique relocate, no --cluster'
nothing_left
finish
