#!/bin/bash
# Every Lua block of docs/scripting.md is a script that runs.
. "$(dirname "$0")/harness.sh"

awk '/^```lua$/ { n++; inside = 1; next } /^```$/ { inside = 0 } inside { print > ("block" n ".lua") }' \
    "$root/docs/scripting.md"
for script in block*.lua; do
    run 0 run "$script"
    cp out.txt "${script%.lua}.out"
    nothing_left
done
says block1.out 'row 7 begins with[[:space:]]+9'
says block2.out 'rows of all[[:space:]]+165'
says block3.out 'mean size'
says block4.out 'sum of squares[[:space:]]+333833500(\.0)?[[:space:]]+of[[:space:]]+1000'
says block5.out 'pass[[:space:]]+3[[:space:]]+10000'
says block6.out 'within its deadline:[[:space:]]+false'
says block7.out 'sum[[:space:]]+3'
finish
