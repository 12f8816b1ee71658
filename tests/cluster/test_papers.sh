#!/bin/bash
# The scripts of examples/papers/ run in their small form, and all.lua makes a page of them: a chart and a table each. What
# must hold of a paper at any size the scripts check themselves. One part can be made anew and leaves the others.
. "$(dirname "$0")/harness.sh"
papers=$root/examples/papers

"$TIDE" run "$papers/all.lua" --small --out page >out.txt 2>err.txt </dev/null || fail "$(tail -n 5 out.txt; tail -n 5 err.txt)"
for script in "$papers"/*.lua; do
    name=$(basename "$script" .lua)
    case $name in all | paper | published) continue ;; esac
    [ "$(wc -l <"$script")" -le 100 ] || fail "$name.lua has more than 100 lines"
    says page/papers.md "<!-- $name -->"
    says "page/images/papers/$name.svg" '</svg>'
done
cp page/papers.md before.md
sed -i 's/| equal, three speeds/| altered/' page/papers.md
run 0 run "$papers/all.lua" --small --out page --only boa
cmp before.md page/papers.md || fail "a part made anew changes others"

run 1 run "$papers/all.lua" --only nothing --out page
says err.txt 'nothing'
finish
