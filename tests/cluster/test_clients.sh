#!/usr/bin/env bash
# Clients in Python against a running cluster: rows, wrong arguments, threads, forks, coroutines, runs; a node that is
# killed meanwhile.
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

python=/usr/bin/python3 # Debian's, which has numpy
"$python" -c 'import numpy' 2>/dev/null || exit 77
export PYTHONPATH=$root/scripts/python TIDE_PROGRAM=$TIDE PYTHONDONTWRITEBYTECODE=1
export TIDE_CLIENT_LIBRARY=${TIDE_BUILD_DIR:-$root/build}/libtide-client.so.0
[ -z "${TIDE_SANITIZED:-}" ] || exit 77 # the interpreter is not instrumented

run 0 up lab -n 3
run 0 submit --cluster lab --keep "$root/tests/cluster/clients.lua"
for _ in $(seq 200); do "$TIDE" jobs --cluster lab --json --all | grep -q '"state":"done"' && break; sleep 0.05; done
timeout 120 "$python" "$root/tests/cluster/clients.py" lab >clients.txt 2>&1 || fail "$(cat clients.txt)"

# The protocol as its page tells it: a push that another connection sends again is applied once.
timeout 60 "$python" "$root/tests/cluster/raw_client.py" "$(head -1 "$XDG_RUNTIME_DIR/tide/lab/endpoint")" fill-1.sums >raw.txt 2>&1
read -r before after <raw.txt
[ "$(sed -n 1p raw.txt)" = "$before $after" ] && [ "$after" != "$before" ] && [ "$(sed -n 2p raw.txt)" = "$after $after" ] ||
    fail "a client of the protocol alone: $(cat raw.txt)"
run 0 down lab -y
finish
