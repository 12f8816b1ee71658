#!/usr/bin/env bash
# The reference manual is complete, and docs/reference is made of the annotations as they are now.
source "$(dirname "$0")/harness.sh"

run 0 run "$root/tests/cluster/reference.lua"
says out.txt '^all looked at$'
says_not out.txt '^untold'

run 0 run "$root/scripts/reference.lua" --out made # fails where a public function has no text
diff -r "$root/docs/reference" made >diff.txt || { fail "docs/reference is old: ./dev reference"; head -20 diff.txt; }
"${LUA:-lua5.4}" -e 'assert(loadfile "made/tide.meta.lua") assert(loadfile "made/tide.nn.meta.lua")' \
    || fail "the definitions for editors do not parse"

run 0 help tensor.axpy
says out.txt '^tensor:axpy\(a, x\)$'
says out.txt 'Adds a times x'
run 0 help run
says out.txt '^Starts a local cluster, runs a script' # the command comes first
run 0 help summary.by_node
says out.txt '^summary:by_node'
run 0 help json
says out.txt 'tide.json.encode\(value\)'
run 2 help tensor.axpi
says err.txt 'did you mean `tensor:axpy`'

# The same at the console.
run 0 up -n 1 --cluster reference
run 0 attach --cluster reference -e 'help "tensor.axpy"'
says out.txt '^tensor:axpy\(a, x\)'
run 0 down --cluster reference -y
finish
