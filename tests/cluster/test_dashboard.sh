#!/bin/bash
# `tide dashboard`: odd bytes are refused, the page lives in a real browser, and nothing of it stays.
. "$(dirname "$0")/harness.sh"
export TIDE_SILENCE=${TIDE_SILENCE:-3}
plugin=${TIDE_BUILD_DIR:-$root/build}/tide_http.so
[ -e "$plugin" ] || { echo "skipped: tide_http.so is not built (libmicrohttpd-dev)"; exit 77; }
python=/usr/bin/python3

run 2 dashboard --port 0
run 3 dashboard --cluster nowhere
says err.txt 'no cluster'
run 0 dashboard --help
says out.txt 'loopback|this machine'

# One beside a script, which ends with it.
cat >short.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "short", worker = function(w) tide.sleep(1.5) w:report {examples = 1} end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
LUA
run 0 run --dashboard short.lua
says err.txt '^tide: dashboard http://127.0.0.1:[0-9]+/#token=[0-9a-f]{64}$'
[ "$(stat -c %a .tide/runs/*/dashboard.log)" = 600 ] || fail "others may read the address of a run's dashboard"
nothing_left
run 2 run --dashboard --detach --cluster lab short.lua
says err.txt 'T0107'

run 0 up --cluster lab -n 3
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
cat >job.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "tour", batch = 60, policies = {batching = "batching/lb-bsp"},
  tables = {w = tide.table {keys = tide.dense(1000), width = 8, update = "add"}},
  worker = function(w)
    local n = 0
    while not w:stopping() do
      n = n + 1
      local began <const> = tide.now()
      w.tables.w:pull({w.rng:below(1000), w.rng:below(1000)})
      tide.sleep(0.05)
      w:report {loss = w.batch / n, examples = w.batch, compute_s = tide.now() - began}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  print "said by the script"
  cluster:start(job):wait()
end)
LUA
"$TIDE" run --cluster lab job.lua >job.txt 2>&1 </dev/null &
started+=("$!")
"$TIDE" dashboard --cluster lab --file url >dashboard.txt 2>&1 </dev/null &
dashboard=$!
started+=("$dashboard")
wait_for 20 test -s url
[ "$(stat -c %a url)" = 600 ] || fail "others may read the address"
says dashboard.txt '^http://127.0.0.1:[0-9]+/#token=[0-9a-f]{64}$'
port=$(sed 's/.*127.0.0.1:\([0-9]*\).*/\1/' url)
tr '\0' ' ' <"/proc/$dashboard/cmdline" | grep -q "$(sed 's/.*token=//' url)" && fail "the token stands in the command line"
run 2 dashboard --cluster lab --port "$port"
says err.txt "port $port is taken"
state() { "$python" - url "$@" <<'PY'
import sys, urllib.request
url = open(sys.argv[1]).read().strip(); base, token = url.split("#token=")
print(urllib.request.urlopen(urllib.request.Request(base + sys.argv[2], headers={"Authorization": "Bearer " + token}), timeout=20).read().decode())
PY
}
goes_on() { state api/state | grep -q '"state":"running"'; }
wait_for 30 goes_on

# Behind a proxy its address is a Host and an Origin, and the page may lie below a path; else both are refused.
run 2 dashboard --cluster lab --served-as lab.org/x
says err.txt 'is no address of a page'
behind() { # PORT TOKEN HOST ORIGIN: the status of a request that a proxy passes on
    "$python" -c 'import http.client, sys
port, token, host, origin = sys.argv[1:]
c = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
c.request("GET", "/api/state", headers={"Host": host, "Origin": origin, "Authorization": "Bearer " + token})
print(c.getresponse().status)' "$@" 2>/dev/null
}
free=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$TIDE" dashboard --cluster lab --port "$free" --served-as https://lab.org/tide --file served >served.txt 2>&1 </dev/null &
served=$!
started+=("$served")
wait_for 20 test -s served
says served '^https://lab.org/tide/#token=[0-9a-f]{64}$'
token=$(sed 's/.*token=//' served)
ready() { [ "$(behind "$free" "$token" lab.org https://lab.org)" = 200 ]; }
wait_for 20 ready
[ "$(behind "$free" "$token" evil.org https://lab.org)" = 403 ] || fail "another Host behind a proxy"
[ "$(behind "$free" "$token" lab.org https://evil.org)" = 403 ] || fail "another Origin behind a proxy"
[ "$(behind "$port" "$(sed 's/.*token=//' url)" lab.org https://lab.org)" = 403 ] || fail "a proxy that nobody named"
kill -INT "$served"
wait "$served"
grep -q 'href="/\|src="/' "$root/lua/tide/dashboard/page/index.html" && fail "the page has links that leave a prefix"
state metrics >metrics.txt; grep -q '^tide_node_up{node="n1"} 1' metrics.txt || fail "there are no metrics"
state api/policy/tour-1 >policy.txt; grep -q '"what":"load"' policy.txt || fail "there are no decisions"
state api/runs >runs.txt; grep -q '"state":"running"' runs.txt || fail "the run is not in the list of runs"
id=$(grep -o '"id":"[^"]*"' runs.txt | tail -1 | cut -d'"' -f4)
state "api/run/$id" >run.txt; grep -q 'said by the script' run.txt || fail "the run's log is not there: $(cat run.txt)"
state "api/runs?filter=tour%20RUNNING" >found.txt; grep -q '"fit":1' found.txt || fail "the filter finds no run: $(cat found.txt)"
run 0 runs tag short later # a run that is over, and is read no more but for its notes
state "api/runs?filter=later%20short" >found.txt; grep -q '"fit":1' found.txt || fail "a tag of a run that is over is not seen"
state "api/runs?filter=nosuch" >found.txt; grep -q '"fit":0' found.txt || fail "the filter finds another run"
state "api/runs?filter=state%3Drunning%20tag!=later&sort=started&descending=1" >found.txt; grep -q '"fit":1' found.txt || fail "conditions: $(cat found.txt)"
state "api/runs?filter=loss%3C-1" >found.txt; grep -q '"fit":0' found.txt || fail "a condition that none fits"
state "api/scatter?x=started&y=seed" >found.txt; grep -q "\"points\":\[\[[0-9.e+]*,.*$id" found.txt || fail "no scatter chart: $(cat found.txt)"
state "api/scatter?x=n&y=loss&colour=elapsed_s&runs=$id" >found.txt; grep -q '"points":\[\[1,' found.txt || fail "no points of reports: $(cat found.txt)"
state "api/histogram?runs=$id" >found.txt; grep -q '"columns":\[\]' found.txt || fail "a histogram of nothing: $(cat found.txt)"
state api/actors >found.txt; grep -q '"name":"agent","node":"n1"' found.txt || fail "no actors: $(head -c 600 found.txt)"
state "api/stack?of=tour-1/1" >found.txt; grep -q 'job.lua:' found.txt || fail "no stack: $(cat found.txt)"
table=$(state api/state | grep -o '"name":"[^"]*w"' | head -1 | cut -d'"' -f4)
hottest() { state "api/hottest?table=${table:-none}&count=5" >found.txt; grep -q '"reads":[1-9]' found.txt; }
wait_for 30 hottest # of the first 64 accesses of a node there is none
state api/me >found.txt; grep -q '"right":"admin"' found.txt || fail "not the owner: $(cat found.txt)"
state "api/run/$id/log?search=SAID&rank=0" >found.txt; grep -q 'said by the script' found.txt || fail "the log is not searched"
state "api/run/$id/log?rank=9" >found.txt; grep -q said found.txt && fail "a line of another rank"
state "api/curve?runs=$id&field=loss&x=examples" >curve.txt; grep -q '"mean":true' curve.txt || fail "no curve: $(cat curve.txt)"
state "api/curve?runs=$id&field=loss&x=n&format=csv" >curve.csv
[ "$(head -1 curve.csv | tr -d '\r')" = "run,name,n,loss" ] || fail "no curve as CSV: $(head -1 curve.csv)"
grep -q "^$id,tour-1,2,[0-9.]" curve.csv || fail "the curve as CSV has no points"
"$python" "$root/tests/browser/wire.py" url || fail "the wire"

if [ -n "${TIDE_SANITIZED:-}" ]; then
    echo "the page is not tried: sanitizers say nothing of it"
elif command -v chromedriver >/dev/null && [ -x /usr/bin/chromium ] && "$python" -c 'import selenium' 2>/dev/null; then
    run 0 status --cluster lab --json
    cp out.txt status.json
    "$python" "$root/tests/browser/page.py" url "$work" >page.txt 2>&1 &
    page=$!
    started+=("$page")
    # What the page waits for.
    while kill -0 "$page" 2>/dev/null; do
        if [ -e event ]; then
            rm event
            "$TIDE" attach --cluster lab -e 'core.event("test", "marked by the test")' >/dev/null 2>event.txt </dev/null
        fi
        if [ -e kill ]; then rm kill; kill_node n3; fi
        if [ -e end ]; then rm end; "$TIDE" down lab -y >/dev/null 2>&1 </dev/null; fi
        sleep 0.1
    done
    wait "$page" || fail "the page"
    cat page.txt
    [ -n "${TIDE_PICTURES:-}" ] && cp ./*.png "$TIDE_PICTURES/"
else
    echo "the page is not tried: chromium, chromedriver or selenium is not here"
fi
"$TIDE" down lab -y >/dev/null 2>&1 </dev/null
knows() { state api/state | grep -q 'no cluster .lab. runs here'; }
wait_for 20 knows
kill -0 "$dashboard" 2>/dev/null || fail "the dashboard ended by itself: $(tail -3 dashboard.txt)"
kill -INT "$dashboard"
wait "$dashboard"
[ $? = 0 ] || fail "Ctrl-C does not end it in order"
"$TIDE" down lab -y >/dev/null 2>&1 </dev/null
finish
