#!/usr/bin/env bash
# The short examples, as a person runs them and under `tide sim`, and what they stand on: tensors, kernels of one's own.
source "$(dirname "$0")/harness.sh"

run 0 run "$root/tests/cluster/tensors.lua"
says out.txt '^tensors ok$'

run 0 run "$root/examples/kmeans.lua" --points 4000
says out.txt '^step  8  mean squared distance [0-9.]+$'
run 0 sim --seed 1 "$root/examples/kmeans.lua" --points 4000
says out.txt '^step  8  mean squared distance [0-9.]+$'
run 0 run "$root/examples/pagerank.lua" --pages 1000
says out.txt '^step 20  change [0-9.e-]+  sum of ranks (1\.00000|0\.99999)'
says out.txt '^page 0 has rank '
run 0 sim --seed 1 "$root/examples/pagerank.lua" --pages 1000
says out.txt '^page 0 has rank '

# A recommender, whose loss is PyTorch's; and actors as environments.
for name in recommender reinforce; do
    [ "$(wc -l <"$root/examples/$name.lua")" -le 120 ] || fail "$name.lua has more than 120 lines"
done
for nodes in 1 2; do
    run 0 run "$root/examples/recommender.lua" --nodes $nodes
    says out.txt '^steps 200  loss 0\.2092[45][0-9]$'
done
run 0 sim --seed 1 "$root/examples/recommender.lua"
says out.txt '^steps 200  loss 0\.2092[45][0-9]$'
run 0 run "$root/examples/reinforce.lua" --rounds 30
says out.txt '^round  30  (1[0-9][0-9]|200)\.[0-9] steps upright$'
run 0 sim --seed 1 "$root/examples/reinforce.lua" --rounds 10
says out.txt '^round  10  [0-9. ]+ steps upright$'

# The short scripts, one a task, on processes and simulated nodes: what they print is what they are for.
gallery() {
    local name=$1 pattern
    shift
    [ "$(wc -l <"$root/examples/gallery/$name.lua")" -le 80 ] || fail "$name.lua has more than 80 lines"
    run 0 run "$root/examples/gallery/$name.lua"
    for pattern in "$@"; do says out.txt "$pattern"; done
    run 0 sim --seed 1 "$root/examples/gallery/$name.lua"
    for pattern in "$@"; do says out.txt "$pattern"; done
}
gallery logistic '^step  1  loss 0\.6931  right 0\.0 %$' '^step 20  loss 0\.60[0-9]+  right 9[0-9]\.[0-9] %$'
gallery factors '^epoch 10  squared error 0\.05[0-9]+$' '^held out: root of the mean squared error 0\.2[0-9]+$' ' 9[0-9]\.[0-9]%$'
gallery words '^epoch 3  loss of a pair 2\.4[0-9]+$' '^nearest word of the same topic: ([89][0-9]|100) %$'
gallery graph '^epoch 200  loss 0\.00[0-9]$' '^held out: mean reciprocal rank (0\.[5-9][0-9]|1\.00), among the first ten ([89][0-9]|100) %$'
gallery net '^epoch 12  loss 0\.0[0-9]+  held out 0\.0[0-9]+$' '^right 9[89]\.[0-9] %, called 1 50\.6 %$' '^parameters\s3\s32$'
gallery actors '^a\s5$' '^rose\s4$' '^is\s3$'
gallery rate '^step  20  squared error 7\.[0-9]+$' ', half the rate$' '^off the true line 0\.0[0-9]+, rate 0\.0[0-9]+$'
gallery policy '^equal shares: 70 70 70$' "^by speed: the slow worker has a third of a fast one's share$"

# A kernel of one's own: built with the public headers alone.
cp "$root/examples/own_kernel.lua" "$root/examples/saxpy.c" .
build_kernel() { cc -O2 -Wall -Wextra -Werror -shared -fPIC "$1" -I"$root/runtime/include" -o saxpy.so; }
build_kernel saxpy.c || { echo "FAILED: the example does not compile"; failures=$((failures + 1)); }
run 0 run own_kernel.lua
says out.txt '^2000 numbers, y = 7, row = 5, module version 1$'
run 0 sim --seed 1 own_kernel.lua
says out.txt '^2000 numbers, y = 7, row = 5'
sed 's/version = "1"/version = "2"/' saxpy.c >two.c
build_kernel two.c
run 0 run own_kernel.lua
says out.txt 'module version 2$'

sed 's/= TIDE_KERNEL_ABI, /= TIDE_KERNEL_ABI + 1, /' saxpy.c >three.c
build_kernel three.c
run 1 run own_kernel.lua
says err.txt 'error\[T0909\].*build it again'
echo "not a library" >saxpy.so
run 1 run own_kernel.lua
says err.txt 'error\[T0909\]: .*saxpy.so: it is no shared object'
rm saxpy.so
run 1 run own_kernel.lua
says err.txt 'error\[T0909\]: .*saxpy.so.*no such file'
build_kernel saxpy.c
sed 's/own.saxpy {a = 3/own.saxpy {b = 3/' own_kernel.lua >wrong.lua
run 1 run wrong.lua
says err.txt "kernel saxpy: no parameter is named 'b'; there are: a, x, y"
sed 's/own.saxpy /own.saxpi /' own_kernel.lua >wrong.lua
run 1 run wrong.lua
says err.txt 'error\[T0901\].*has no kernel `saxpi`'
says err.txt 'saxpy'
finish
