#!/usr/bin/env bash
# Three network namespaces as three machines: TLS between them, keys of people, what outsiders see, keys taken back.
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/netns.sh"
netns_begin "$(readlink -f "${TIDE:-$here/../build/tide}")" 2
pass=0
ok() { pass=$((pass + 1)); echo "ok - $*"; }
fail() { echo "not ok - $*"; cat ./*.log; exit 1; }
# wait_for SECONDS COMMAND...: until it succeeds
wait_for() { local k n=$1; shift; for ((k = 0; k < n * 10; k++)); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
at=tcp:10.77.0.1:7700

"$tide" keys init lab 2>init.txt || fail "tide keys init"
"$tide" keys issue --role read --name alice 2>/dev/null || fail "tide keys issue"
"$tide" keys issue --role admin --name carol 2>/dev/null || fail "keys of carol"
"$tide" keys init other >/dev/null 2>&1 || fail "a second authority"
"$tide" keys issue --role node --name n9 --dir keys/lab >/dev/null 2>&1 || fail "keys of one node"
[ "$(stat -c %a keys/lab/node/key.pem keys/lab/ca/key.pem | sort -u)" = 600 ] || fail "keys that others can read"
ok "keys are made, and only their owner reads them"

inside 0 "$tide" node --listen $at >none.log 2>&1 && fail "a node without keys listens to other machines"
grep -q "tide keys init" none.log || fail "the refusal names no remedy"
chmod 644 keys/other/node/key.pem
inside 0 "$tide" node --keys keys/other/node --listen $at >open.log 2>&1 && fail "a key that others can read is taken"
grep -q "key.pem can be read by others" open.log || fail "the open key is not named"
chmod 600 keys/other/node/key.pem
inside 0 "$tide" node --keys keys/lab/node --listen tcp:0.0.0.0:7700 >any.log 2>&1 && fail "an address that is none"
ok "what cannot work is refused before anything listens"

inside 0 "$tide" node --keys keys/lab/node --listen $at >c0.log 2>&1 &
export TIDE_CLUSTER=$at
wait_for 10 inside 0 "$tide" status --keys keys/lab/admin || fail "the first node"
for k in 1 2; do inside $k "$tide" node --keys keys/lab/node --join $at >"n$k.log" 2>&1 & done
three() { [ "$(inside 1 "$tide" nodes --plain --keys keys/lab/alice | grep -c up)" = 3 ]; }
wait_for 15 three || fail "three machines in one cluster, seen by a person who may look"
ok "three machines are one cluster"

inside 1 "$tide" node --keys keys/other/node --join $at --cluster lab >foreign.log 2>&1 && fail "keys of another cluster"
grep -q "of cluster 'other', not 'lab'" foreign.log || fail "keys of another cluster are not told"
inside 1 "$tide" node --keys keys/lab/alice --join $at >person.log 2>&1 && fail "a person's keys make a node"
grep -q "its keys give the right read" person.log || fail "a person's keys are not told"
inside 1 "$tide" node --keys keys/lab/node-n9 --name n8 --join $at >name.log 2>&1 && fail "another node's keys"
grep -q "its keys are of node 'n9'" name.log || fail "another node's keys are not told"
inside 2 python3 - <<'PY' || fail "plain bytes get an answer from a node under TLS"
import socket, sys
s = socket.create_connection(("10.77.0.1", 7700), 5)
s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
s.settimeout(7)
got = s.recv(4096)
sys.exit(0 if len(got) < 20 else 1)  # an alert at most
PY
ok "outsiders stay outside, and are told why"

cp -r "$here/../examples" .
inside 2 "$tide" run --keys keys/lab/admin examples/mf.lua --epochs 3 >mf.log 2>&1 || fail "training over three machines"
grep -q "test RMSE" mf.log || fail "training says nothing"
inside 2 "$tide" run --keys keys/lab/alice examples/mf.lua --epochs 1 >reader.log 2>&1 && fail "who may look runs a script"
ok "a script trains on all of them, for those who may"

cat >long.lua <<'L'
local tide = require "tide"
local job = tide.job {name = "long", workers = 1, tables = {t = tide.table {keys = tide.dense(8), width = 1},
    big = tide.table {keys = tide.dense(4096), width = 16, update = "add"}},
  worker = function(w) while not w:stopping() do tide.sleep(0.05) w:report {examples = 1} end end}
tide.main(function() local c <close> = tide.cluster {} local r <close> = c:start(job) r:wait() end)
L
# Each command that attaches, with the keys of --keys; what it starts has them too.
with_keys() { inside 1 timeout 30 "$tide" "$@" >command.log 2>&1 </dev/null || fail "tide $*"; }
with_keys submit --keys keys/lab/carol long.lua
with_keys run --detach --keys keys/lab/admin --cluster $at long.lua

library=$(dirname "$tide")/libtide-client.so.0
if /usr/bin/python3 -c 'import numpy' 2>/dev/null && [ -z "${TIDE_SANITIZED:-}" ] && [ -e "$library" ]; then
    inside 1 env PYTHONPATH="$here/../scripts/python" TIDE_CLIENT_LIBRARY="$library" PYTHONDONTWRITEBYTECODE=1 \
        timeout 60 /usr/bin/python3 - $at >client.log 2>&1 <<'PY' || fail "a client with keys"
import sys
import numpy as np
import tide
def refused(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
        return
    raise SystemExit(f"no {kind.__name__} with {text!r}")
at, all_keys, ones = sys.argv[1], np.arange(4096), np.ones((4096, 16), np.float32)
with tide.connect(endpoint=at, keys="keys/lab/admin", right="operate") as c:
    c.table("long-2.big").push(all_keys, ones)
with tide.connect(endpoint=at, keys="keys/lab/alice") as c:
    assert (c.table("long-2.big").pull(all_keys) == ones).all()
    refused(tide.PermissionError, "operate", lambda: c.table("long-2.big").push([1], ones[:1]))
refused(tide.PermissionError, "has no keys", lambda: tide.connect(endpoint=at))
refused(tide.Error, "cluster", lambda: tide.connect(endpoint=at, keys="keys/other/node"))
PY
    ok "a client reads and writes rows under TLS, as far as its keys allow"
fi
for command in status nodes tables actors links jobs "stat --count 1" top events log metrics doctor "why n2/agent" "job show long-2" \
    "job logs long-2" "table show long-2.t" "trace --for 100ms out.json" "checkpoint save $PWD/ckpt" \
    "move long-2.t 0-3 n2 --dry-run" "attach -e 1" "job stop long-2" "job stop long-3"; do
    with_keys $command --keys keys/lab/admin
done
url() { grep -q '^http' page.url; }
inside 1 ip addr add 127.0.0.1/32 dev lo # for the page
inside 1 "$tide" dashboard --keys keys/lab/admin --file page.url >page.log 2>&1 &
page=$!
wait_for 10 url || fail "tide dashboard"
kill $page
inside 1 "$tide" launch local -n 1 --keys keys/lab/admin --node-keys keys/lab/node >launch.log 2>&1 &
launcher=$!
wait_for 15 grep -q 'local-1  joined' launch.log || fail "tide launch"
with_keys drain local-1 -y --keys keys/lab/admin
kill -INT $launcher
ok "every command attaches with the keys that it is given, and hands them on"

serial=$("$tide" keys show --dir keys/lab --plain | awk '$3 == "alice" {print $1}')
"$tide" keys revoke "$serial" --dir keys/lab 2>/dev/null || fail "tide keys revoke"
gone() { inside 1 "$tide" status --keys keys/lab/alice 2>&1 | grep -q revoked; }
wait_for 10 gone || fail "revoked keys still open the cluster"
inside 1 "$tide" status --keys keys/lab/admin >/dev/null || fail "the others' keys work no more"
grep -q "keys read again" c0.log || fail "the list was not read again"
ok "keys that were taken back open nothing, without a restart"

# What a process with keys leaves, and shows: no core dump, no key anywhere.
checked=0
for link in /proc/[0-9]*/exe; do
    process=${link%/exe}
    [ "$(readlink "$link" 2>/dev/null)" = "$tide" ] && tr '\0' ' ' <"$process/cmdline" | grep -q -- '--keys keys/lab/node' || continue
    [ "$(readlink "$process/cwd")" = "$PWD" ] || continue
    grep -q '^Max core file size  *0 ' "$process/limits" || fail "a node with keys may leave a core dump"
    grep -q '^NoNewPrivs:	1' "$process/status" || fail "a node may gain privileges"
    checked=$((checked + 1))
    for key in keys/*/*/key.pem; do
        secret=$(sed -n 2p "$key" | tail -c 40)
        cat "$process/cmdline" "$process/environ" | grep -aqF -- "$secret" && fail "a key is in arguments or environment"
    done
done
[ "$checked" -ge 3 ] || fail "$checked nodes were looked at, not 3"
grep -rlE "PRIVATE KEY" ./*.log .tide run 2>/dev/null && fail "a key is in a log"
for key in keys/*/*/key.pem; do
    secret=$(sed -n 2p "$key" | tail -c 40)
    [ ${#secret} -ge 30 ] || fail "no secret in $key"
    found=$(grep -rlF --exclude=key.pem -- "$secret" . "${XDG_RUNTIME_DIR:-/nowhere}" 2>/dev/null) && fail "a key is in $found"
done
ok "keys are in their files alone, and processes that hold them show nothing"
inside 1 "$tide" jobs -a --json --keys keys/lab/admin | grep -q '"user":"carol"' || fail "no run is carol's"
grep -q 'tide://lab/read/alice' run/tide/lab/audit-*.log || fail "the audit log does not name alice"
grep -q 'revoked' run/tide/lab/audit-*.log || fail "the audit log does not tell of revoked keys"
"$tide" audit verify --dir run/tide/lab >/dev/null 2>&1 || fail "an audit log is not whole"
ok "the audit log says who came, and who was refused"
echo "1..$pass"
