#!/bin/bash
# The audit log: who connected and was refused, what was asked and evaluated; a changed, missing or cut line is named; a
# full disk refuses what would have to be noted, and runs continue; a killed node's log is whole up to its last line.
. "$(dirname "$0")/harness.sh"

run 0 up --cluster lab -n 1
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
logs=$XDG_RUNTIME_DIR/tide/lab
run 0 attach lab --role admin -e '1 + 41'
run 0 attach lab --role read -e '"Grüße \"\\"'
run 4 attach lab --role read -e 'core.actors()'
run 0 drain n1 --cluster lab -y
run 0 audit show --cluster lab --json
says out.txt '"credential":"uid [0-9]+".*"verb":"connect"'
says out.txt '"right":"admin".*"text":"1 \+ 41".*"verb":"console.eval"'
says out.txt 'Grüße'
says out.txt '"verb":"agent.console.open"'
says out.txt '"result":"allowed".*"verb":"agent.drain"'
run 0 audit show --cluster lab --last 1
run 0 audit verify --cluster lab
says err.txt 'records, whole'
for log in "$logs"/audit-*.log; do
    [ "$(stat -c %a "$log")" = 600 ] || fail "$log can be read by others"
done
run 2 audit grow --cluster lab
run 2 audit verify nowhere.log

# ---- what is done to a log is named
log=$(grep -l console.eval "$logs"/audit-*.log | head -1)
[ -s "$log" ] && [ -s "${log%.log}.head" ] || fail "no log of the evaluations, or no head of it"
damage() { # SED TEXT: of a copy, on which verify says TEXT
    rm -f audit-x.*
    sed "$1" "$log" >audit-x.log
    cp "${log%.log}.head" audit-x.head
    run 1 audit verify audit-x.log
    says err.txt "$2"
}
damage '2s/allowed/refused/' 'record 2 was changed'
damage '2d' 'T0804.*between record 1 and this one, 1 are missing'
damage '$d' 'the log ends with record'
damage '2{h;d};3{G}' 'audit-x.log:2'
damage '2s/.*/{}/' 'audit-x.log:2'
damage '$s/allowed/ALLOWED/' 'was changed'
rm -f audit-x.*
cp "$log" audit-x.log
run 0 audit verify audit-x.log

# ---- a node that is killed; one that continues in its log
run 0 down lab -y
mkdir logs
start() {
    "$TIDE" node --cluster solo --name a --audit logs >solo.log 2>&1 &
    solo=$!
    started+=("$solo")
    wait_for 20 test -s "$XDG_RUNTIME_DIR/tide/solo/endpoint"
}
start
for i in 1 2 3; do run 0 attach solo -e "$i"; done
kill -KILL "$solo"
{ wait "$solo"; } 2>/dev/null
run 0 audit verify --dir logs
before=$(wc -l <logs/audit-a.log)
rm -f "$XDG_RUNTIME_DIR/tide/solo/endpoint"
start
run 0 attach solo -e 4
run 0 audit verify --dir logs
[ "$(wc -l <logs/audit-a.log)" -gt "$before" ] || fail "a node that starts again does not go on in its log"
kill -TERM "$solo"
wait "$solo"

# ---- a full disk
if [ "$(id -u)" = 0 ] && mkdir full && mount -t tmpfs -o size=16k tmpfs full 2>/dev/null; then
    rm -f "$XDG_RUNTIME_DIR/tide/solo/endpoint"
    "$TIDE" node --cluster solo --name a --audit full >solo.log 2>&1 &
    solo=$!
    started+=("$solo")
    wait_for 20 test -s "$XDG_RUNTIME_DIR/tide/solo/endpoint"
    run 0 attach solo -e 1
    cat /dev/zero >full/rest 2>/dev/null
    for i in 1 2 3 4 5 6 7 8; do
        timeout 20 "$TIDE" attach solo -e "('$(printf '%01000d' 0)'):len()" >out.txt 2>err.txt </dev/null
    done
    says err.txt 'T0803'
    says solo.log 'the audit log: .*[Nn]o space'
    run 0 status --cluster solo # who looks is not noted
    rm full/rest
    run 0 attach solo -e 2
    run 0 audit verify --dir full
    kill -TERM "$solo"
    wait "$solo"
    umount full
else
    echo "left out: no file system of 16 KiB can be mounted"
fi
nothing_left
finish
