#!/bin/bash
# Tries what another user of the machine (A), a hostile node, a long source and a cloned repository could do to the
# user of a cluster (V). Each fails, and what V does continues. Two user ids take root; without it the parts that need
# them are left out. docs/guides/security.md has the list.
. "$(dirname "$0")/../cluster/harness.sh"
command -v python3 >/dev/null || { echo "skipped: no python3 to play the stranger"; exit 77; }
[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || { echo "skipped: two user ids take root and setpriv"; exit 77; }
python=/usr/bin/python3 # of everybody
[ -x $python ] || { echo "skipped: no $python"; exit 77; }
V=64901
A=64902
chmod 711 "$work"
cp "$TIDE" "$work/tide" && cp "$root/tests/cluster/stranger.py" "$work/stranger.py"
chmod 755 "$work/tide" "$work/stranger.py"
TIDE=$work/tide
as() { # UID COMMAND...: with a directory of its own, and no run directory unless it is V's
    local uid=$1
    shift
    mkdir -p "$work/home$uid" && chown "$uid" "$work/home$uid" && chmod 700 "$work/home$uid"
    (cd "$work/home$uid" && HOME=$work/home$uid exec setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@")
}
mkdir -m 700 "$work/runV" && chown $V "$work/runV"
v() { XDG_RUNTIME_DIR=$work/runV as $V timeout 40 "$TIDE" "$@"; }
a() { XDG_RUNTIME_DIR='' as $A timeout 40 "$@"; }
port_of() { sed -n 's/^tcp:127.0.0.1:\([0-9]*\)$/\1/p' "$1"; }

# ---- 1: a loopback port is its user's ----
XDG_RUNTIME_DIR=$work/runV as $V "$TIDE" node --controller --cluster lab --nodes 2 --listen tcp:127.0.0.1:0 >lab.log 2>&1 &
started+=($!)
wait_for 20 test -s "$work/runV/tide/lab/endpoint"
for pid in $(cut -d' ' -f1 "$work/runV/tide/lab/pids"); do started+=("$pid"); done
endpoint=$(cat "$work/runV/tide/lab/endpoint")
port=$(port_of "$work/runV/tide/lab/endpoint")
[ -n "$port" ] || fail "no port: $endpoint"
echo "V's secret" >"$work/home$V/secret"
chmod 600 "$work/home$V/secret"
chown $V "$work/home$V/secret"
v attach --cluster "$endpoint" -e "io.open('$work/home$V/secret'):read('a')" >out.txt 2>err.txt </dev/null
says out.txt "V's secret"
a "$TIDE" attach --cluster "$endpoint" -e "io.open('$work/home$V/secret'):read('a')" >out.txt 2>err.txt </dev/null &&
    fail "1: another user evaluates in the cluster"
says_not out.txt "V's secret"
# A's client finds V's listener to be another user's and hangs up: then nobody can tell any more whose it was.
told() { grep -qE 'refused a connection .*(of another user|nobody can tell)' lab.log; }
wait_for 20 told

# ---- 8: a node gets no file of who attaches that the line does not name, and writes none ----
# What a hostile node would send: it chooses the path, and the line may hold it as a part of another word.
ask() { # LINE: as the node of the session asks the client
    v attach --cluster "$endpoint" -e "local s = require('tide.console.session'); $1" >out.txt 2>err.txt </dev/null || true
}
secret=$work/home$V/secret
ask "return s.ask_client{op='console.file', path='$secret'}.text" # the line names it
says out.txt "V's secret"
for path in "'$work/home$V/' .. 'secret'" "('$secret.old'):sub(1, -5)" "('/x/$secret'):sub(4)"; do
    ask "local a, e = s.ask_client{op='console.file', path=$path}; return a and a.text or e.message"
    says_not out.txt "V's secret"
    says out.txt 'the line does not name this file'
done
ask "local a, e = s.ask_client{op='console.save', path='$work/home$V/' .. 'planted', text='x', first=true, last=true}; return e.message"
says out.txt 'the line does not name this file'
[ ! -e "$work/home$V/planted" ] || fail "8: a node writes a file that nobody named"

# ---- 1, the other way: a port that A took is nobody V talks to ----
a $python "$work/stranger.py" tcp:127.0.0.1:47811 listen 2.5 >taken.txt 2>&1 &
listener=$!
wait_for 5 grep -q listening taken.txt
v status --cluster tcp:127.0.0.1:47811 >out.txt 2>err.txt </dev/null && fail "1: A's listener is taken for a node"
says err.txt 'belongs to another user'
wait "$listener"
says taken.txt '^0 bytes came'

# ---- 6: silence of others takes no places ----
a $python "$work/stranger.py" "$endpoint" silent 2.5 >held.txt 2>&1 &
silent=$!
sleep 1
v status --cluster "$endpoint" >out.txt 2>err.txt </dev/null || fail "6: silent connections of A lock V out: $(cat err.txt)"
wait "$silent"

# ---- 5: a hello does not end a node that is heard ----
as $V $python "$work/stranger.py" "$endpoint" pose lab n2 n1 >posed.txt 2>&1
says posed.txt 'alive'
sleep 4
v nodes --cluster lab --plain >out.txt 2>err.txt </dev/null
[ "$(grep -c 'up' out.txt)" = 3 ] || fail "5: a hello ended a node: $(cat out.txt)"

# ---- 3: a client commands no node ----
as $V $python "$work/stranger.py" "$endpoint" command lab n2 >said.txt 2>&1
says said.txt 'an id of nobody: refused'
says said.txt 'a view of a client: refused'
# ---- 4: a client ends no actor, whatever it sends ----
before=$(v actors --cluster lab --plain 2>/dev/null </dev/null | grep -c store)
as $V $python "$work/stranger.py" "$endpoint" frames lab n2 >frames.txt 2>&1
says frames.txt '^192 frames, [0-9]+ closed'
sleep 2
v nodes --cluster lab --plain >out.txt 2>err.txt </dev/null
[ "$(grep -c 'up' out.txt)" = 3 ] || fail "3, 4: a client's frames ended a node: $(cat out.txt)"
after=$(v actors --cluster lab --plain 2>/dev/null </dev/null | grep -c store)
[ "$before" -ge 1 ] && [ "$before" = "$after" ] || fail "4: a client's frames ended a store: $before before, $after after"
v audit show --cluster lab --json >out.txt 2>err.txt </dev/null
says out.txt 'a frame of kind [0-9]+ in lane [0-9], which clients have no right to send'

# ---- 9: a session has its opener's right, and obeys its owner ----
mkdir -p "$work/home$V/lua"
cp -r "$root/lua/tide" "$work/home$V/lua/"
cp "$root/tests/security/sessions.lua" "$work/home$V/lua/tide/command/version.lua"
chown -R $V "$work/home$V/lua"
TIDE_LUA_PATH=$work/home$V/lua v version --cluster lab >out.txt 2>err.txt </dev/null ||
    fail "9: $(cat out.txt err.txt)"
says out.txt 'sessions obey their owners'

# ---- 7: compiling has budgets ----
python3 -c "print('local a local x = ' + 'a or ' * 25000 + '1\nreturn {}')" >"$work/home$V/long.lua"
python3 -c "print('local a local x = ' + 'a or ' * 100000 + '1\nreturn {}')" >"$work/home$V/longer.lua"
v policy check long.lua >out.txt 2>err.txt </dev/null && fail "7: long.lua is a policy"
says err.txt 'takes longer than its 1000 ms|`api = 1` is missing' # of a slow processor; it was compiled
v policy check longer.lua >out.txt 2>err.txt </dev/null && fail "7: longer.lua is a policy"
says err.txt 'the source has 500030 bytes; a policy may have 131072'
python3 -c "print('local a local x = ' + 'a or ' * 60000 + '1')" >"$work/home$V/line.lua"
chmod 644 "$work/home$V/"*.lua
v attach --cluster lab --role read <"$work/home$V/line.lua" >long.txt 2>&1 &
attach=$!
sleep 0.7
v status --cluster lab >out.txt 2>err.txt </dev/null || fail "7: a long line of a reader stops the node: $(cat err.txt)"
kill -0 "$attach" 2>/dev/null || fail "7: status had to wait for the long line of a reader"
kill -INT "$attach" 2>/dev/null
wait "$attach"
# ---- the dashboard: another user's connections leave places for the owner's ----
cat >"$work/holder.py" <<'PY'
import socket, sys, time
held = []
end = time.time() + 6
while time.time() < end:
    while len(held) < 100:
        try:
            s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)
            s.send(b"GET / HTTP/1.1\r\nHost: x")
            s.setblocking(False)
            held.append(s)
        except OSError:
            break
    for s in held[:]:
        try:
            if not s.recv(9):
                held.remove(s)
                s.close()
        except BlockingIOError:
            pass
        except OSError:
            held.remove(s)
            s.close()
    time.sleep(0.05)
PY
chmod 644 "$work/holder.py"
if cp "${TIDE_BUILD_DIR:-$root/build}/tide_http.so" "$work/" 2>/dev/null; then
    XDG_RUNTIME_DIR=$work/runV as $V "$TIDE" dashboard --cluster "$endpoint" --file url >dashboard.txt 2>&1 </dev/null &
    started+=($!)
    dashboard=$!
    wait_for 20 test -s "$work/home$V/url"
    page=$(sed -n 's/.*127.0.0.1:\([0-9]*\).*/\1/p' "$work/home$V/url")
    token=$(sed -n 's/.*token=//p' "$work/home$V/url")
    as $A $python "$work/holder.py" "$page" >/dev/null 2>&1 &
    started+=($!)
    sleep 1
    for _ in 1 2 3; do
        as $V $python -c "
import sys, urllib.request
ask = urllib.request.Request('http://127.0.0.1:$page/api/schema', headers={'Authorization': 'Bearer $token'})
sys.exit(urllib.request.urlopen(ask, timeout=4).status != 200)" >holder.txt 2>&1 || fail "the owner has no place: $(tail -1 holder.txt)"
    done
    kill $(pgrep -P "$dashboard") "$dashboard" # `as` is a shell whose child is the dashboard
fi

v down lab -y >/dev/null 2>&1

# ---- a process with keys shows nothing to others of its own user, unless it is told to; its cluster is found all the same
v keys init keyed >/dev/null 2>&1
shown() { # OPTIONS...: who may look into such a node
    XDG_RUNTIME_DIR=$work/runV as $V "$TIDE" node --keys keys/keyed/node --listen tcp:127.0.0.1:0 "$@" >keyed.log 2>&1 &
    started+=($!)
    wait_for 20 test -s "$work/runV/tide/keyed/endpoint"
    pid=$(cut -d' ' -f1 "$work/runV/tide/keyed/pids")
    started+=("$pid")
    stat -c %u "/proc/$pid/environ" >looked.txt
    v status --cluster keyed >out.txt 2>err.txt </dev/null || fail "a node with keys is not found: $(cat err.txt)"
    kill "$pid"
    wait
    rm -f "$work/runV/tide/keyed/endpoint"
}
shown
says looked.txt '^0$'
shown --debuggable
says looked.txt "^$V\$"

# ---- 2: a run directory that A planted ----
planted=/tmp/tide-$V
if [ -e "$planted" ]; then
    echo "left out: $planted is there"
else
    as $V sleep 120 &
    started+=($!)
    sleeps() { victim=$(pgrep -u $V -x sleep); }
    wait_for 20 sleeps
    started+=("$victim")
    a mkdir -p "$planted/local"
    a chmod -R 755 "$planted"
    a sh -c "echo tcp:127.0.0.1:47811 >$planted/local/endpoint; echo $victim \$(awk '{print \$22}' /proc/$victim/stat) >$planted/local/pids"
    for command in status 'attach -e 1' 'down -y' 'down local -y' 'up local -n 1'; do
        # shellcheck disable=SC2086
        XDG_RUNTIME_DIR='' as $V timeout 20 "$TIDE" $command >out.txt 2>err.txt </dev/null
        code=$?
        [ $code != 0 ] && [ $code != 124 ] || fail "2: $command ended with $code in A's directory"
        says err.txt 'must be a directory of yours'
        kill -0 "$victim" 2>/dev/null || fail "2: $command ended a process that A named"
    done
    kill "$victim"
    rm -rf "$planted"
    a ln -s "$work/runV" "$planted"
    XDG_RUNTIME_DIR='' as $V timeout 20 "$TIDE" status >out.txt 2>err.txt </dev/null
    says err.txt 'must be a directory of yours'
    rm -rf "$planted"
fi

# ---- 10: a cloned repository ----
mkdir repository
echo 'return {cluster = "tcp:127.0.0.1:9"}' >repository/tide.lua
(cd repository && timeout 20 "$TIDE" status >../out.txt 2>../err.txt </dev/null) && fail "10: a project's file gives an endpoint"
says err.txt 'never an endpoint'
finish
