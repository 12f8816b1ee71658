#!/bin/bash
# The example of three jobs that share a cluster: both policies train all of them to the same result, one seed is one
# run, and the chart is written.
. "$(dirname "$0")/harness.sh"
run 0 sim --seed 1 "$root/examples/pollux.lua" --scale 0.4 --apart 6 --chart pollux.svg
for job in net logistic kmeans; do
    [ "$(grep -oE "$job +done .*loss [0-9.]+" out.txt | grep -oE '[0-9.]+$' | sort -u | wc -l)" = 1 ] ||
        fail "$job: other losses under the other policy"
done
says out.txt 'scheduling/goodput +mean completion .*[1-9][0-9]* resizes'
grep -q '<svg' pollux.svg || fail "no chart"
finish
