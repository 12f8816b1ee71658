#!/bin/bash
# The example of three jobs that share a cluster: sizes that change while they train leave the results what they were, but
# for the regression, whose workers see each other's steps as they come; and it shows who had which slots.
. "$(dirname "$0")/harness.sh"
run 0 sim --seed 1 "$root/examples/pollux.lua" --scale 0.3 --apart 4
for job in net kmeans; do
    [ "$(grep -oE "$job +done .*loss [0-9.]+" out.txt | grep -oE '[0-9.]+$' | sort -u | wc -l)" = 1 ] ||
        fail "$job: other losses under the other policy"
done
[ "$(grep -c 'logistic *done' out.txt)" = 2 ] || fail "the regression is not done"
says out.txt 'scheduling/goodput +mean completion .*[1-9][0-9]* resizes'
[ "$(grep -cE '^net +[.1-4 ]*[1-4]' out.txt)" = 2 ] || fail "no charts"
finish
