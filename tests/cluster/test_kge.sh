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
rescal
scattered=$(value wire_bytes)
rescal --cluster
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
nothing_left
finish
