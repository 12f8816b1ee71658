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

# Predictions while training continues: Python, and HTTP by the dashboard.
run 0 submit --cluster lab "$root/examples/serve.lua" --seconds 120 # steer.py stops it
for _ in $(seq 200); do
    timeout 20 "$python" "$root/examples/serve.py" lab 3 1 2 >scores.txt 2>&1 && break
    sleep 0.05
done
says scores.txt '^1: -?[0-9]+\.[0-9]{2}$'
cat >ask.py <<'PY'
import asyncio
import tide
import tide.aio
def refused(kind, *call):
    try:
        c.actor(call[0]).call(*call[1:])
    except kind as error:
        return error
    raise SystemExit(f"{call}: no {kind.__name__}")
with tide.connect("lab") as c:
    assert refused(tide.PermissionError, "predict", "absent", 1).code == "T0801"
    error = refused(tide.ActorError, "predict", "score", 10**6, [1])
    assert error.code == "T0602" and "serve.lua:" in error.where and error.node, vars(error)
    refused(tide.UsageError, "nobody", "score")
    c.actor("rows").cast([1, "users"])  # of no interest to it
    predict = c.actor("predict")
    assert len(predict.call("score", 3, [1, 2])) == 2
    predict._address += 1 << 22  # of a later life of its slot: nobody has it
    try:
        raise SystemExit(f"a dead actor answered {predict.call('score', 3, [1, 2])}")
    except tide.DiedError:
        assert len(predict.call("score", 3, [1, 2])) == 2
async def main():
    async with tide.aio.connect("lab") as a:
        predict = a.actor("predict")
        assert len(await predict.call("score", 3, [1, 2], timeout=20)) == 2
        predict._actor._address += 1 << 22
        try:
            raise SystemExit(f"a dead actor answered {await predict.call('score', 3, [1, 2])}")
        except tide.DiedError:
            assert len(await predict.call("score", 3, [1, 2])) == 2
        try:
            raise SystemExit(f"score of no user: {await predict.call('score', 10**6, [1])}")
        except tide.ActorError as error:
            assert error.code == "T0602", vars(error)
asyncio.run(main())
PY
timeout 60 "$python" ask.py >ask.txt 2>&1 || fail "asking: $(cat ask.txt)"
if [ -e "${TIDE_BUILD_DIR:-$root/build}/tide_http.so" ]; then
    "$TIDE" dashboard --cluster lab --plain >url.txt 2>dashboard.txt &
    started+=($!)
    for _ in $(seq 200); do [ -s url.txt ] && break; sleep 0.05; done
    url=$(head -1 url.txt)
    post() { # STATUS NAME BODY [HEADER [CURL OPTIONS]]
        local code
        code=$(curl -s -m 20 -D head.txt -o body.txt -w '%{http_code}' -H "${4-Authorization: Bearer ${url##*token=}}" "${@:5}" \
            --data-binary "$3" "${url%%/#*}/api/call/$2")
        [ "$code" = "$1" ] || fail "POST $2 $3: $code instead of $1: $(cat body.txt)"
    }
    post 200 predict '{"method": "score", "arguments": [3, [1, 2]]}'
    says body.txt '^\{"value":\[-?[0-9.e-]+,-?[0-9.e-]+\]\}$'
    post 403 predict '{"method": "absent"}'
    post 422 predict '{"method": "score", "arguments": [1000000, [1]]}'
    says body.txt '"code":"T0602"'
    post 400 predict 'no json'
    post 400 predict '{"method": "score", "arguments": {"a": 1}}'
    post 400 predict '{"method": "score", "timeout_s": 0}'
    post 504 predict '{"method": "score", "arguments": [3, [1, 2]], "timeout_s": 1e-9}'
    post 404 nobody '{"method": "score"}'
    post 401 predict '{"method": "score"}' 'X-None: 1'

    # Answers without JSON, msgpack both ways, quotas, a member that dies and a cluster that ends.
    token="Authorization: Bearer ${url##*token=}"
    run 0 submit --cluster lab "$root/tests/cluster/answers.lua"
    for _ in $(seq 200); do
        curl -s -m 20 -o body.txt -H "$token" -d '{"method": "sum", "arguments": [1, 2]}' "${url%%/#*}/api/call/answers"
        grep -q total body.txt && break
        sleep 0.05
    done
    says body.txt '^\{"value":\{"total":3\}\}$'
    post 406 answers '{"method": "bytes"}'
    post 200 answers '{"method": "bytes"}' "$token" -H 'Accept: application/msgpack'
    [ "$(od -An -tx1 body.txt | tr -d ' \n')" = 81a576616c7565a2fffe ] || fail "bytes as msgpack: $(od -c body.txt)"
    printf '\x82\xa6method\xa3sum\xa9arguments\x92\x02\x05' >call.mp
    post 200 answers @call.mp "$token" -H 'Content-Type: application/msgpack'
    [ "$(od -An -tx1 body.txt | tr -d ' \n')" = 81a576616c756581a5746f74616c07 ] || fail "a sum as msgpack: $(od -c body.txt)"
    post 400 answers $'\xc1' "$token" -H 'Content-Type: application/msgpack' -H 'Accept: application/json'
    says body.txt '"code":"T0116"'
    post 200 limited '{"method": "ping"}'
    post 429 limited '{"method": "ping"}'
    says body.txt 'more than 0.01 times a second.*"retry_after_s":[0-9]'
    says head.txt '^Retry-After: (9[0-9]|100)'
fi
[ -n "${url:-}" ] || run 0 submit --cluster lab "$root/tests/cluster/answers.lua"
cat >steer.py <<'PY'
import tide
with tide.connect("lab") as c:
    run = c.runs.get(next(r.name for r in c.runs.list() if r.job == "serve"))
    try:
        run.pause()
        raise SystemExit("a client with the right read paused a run")
    except tide.PermissionError as error:
        assert error.code == "T0801", vars(error)
with tide.connect("lab", right="operate") as c:
    run = c.runs.get(next(r.name for r in c.runs.list() if r.job == "serve"))
    run.pause()
    assert run.show()["state"] == "paused", run.show()
    run.resume()
    assert run.show()["state"] == "running", run.show()
    try:
        run.set(absent=0.1)
        raise SystemExit("a param that the run has not was set")
    except tide.Error as error:
        assert error.code == "T0115" and "absent" in error.message, vars(error)
    limited = c.actor("limited")
    assert limited.call("ping") == 1
    try:
        raise SystemExit(f"beyond the quota: {limited.call('ping')}")
    except tide.BusyError as error:
        assert 90 < error.retry_after <= 100, vars(error)
    run.stop(within=30)
    try:
        raise SystemExit(f"a run that was stopped ended well: {run.wait(30)}")
    except tide.ActorError as error:
        assert f"{run.name}: stopped" in str(error), error
    assert run.show()["state"] == "stopped", run.show()
PY
cat >taken.lua <<'LUA'
local tide = require "tide"
local Other = tide.actor {name = "other", opens = "read", ping = function() end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local _ <close> = cluster:group(Other, {}, {publish = "limited"})
end)
LUA
run 1 run --cluster lab taken.lua
says err.txt 'T0512.*the name `limited` is taken on node'
timeout 90 "$python" steer.py >steer.txt 2>&1 || fail "steering: $(cat steer.txt)"
cat >notebook.py <<'PY'
import json
import sys
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), "cell", "exec"), globals())
PY
TIDE_CLUSTER=lab TIDE_EXAMPLES=$root/examples timeout 120 "$python" notebook.py "$root/examples/notebook.ipynb" >cells.txt 2>&1 ||
    fail "the notebook: $(cat cells.txt)"
says cells.txt 'reports, first and last loss'
if [ -n "${url:-}" ]; then
    curl -s -m 30 -o died.txt -w '%{http_code}' -H "$token" -d '{"method": "slow", "arguments": [60], "timeout_s": 30}' \
        "${url%%/#*}/api/call/answers" >died_code.txt &
    asking=$!
    post 504 answers '{"method": "slow", "arguments": [60], "timeout_s": 0.2}'
    kill_node n2
    wait "$asking"
    [ "$(cat died_code.txt)" = 502 ] || fail "a member died: $(cat died_code.txt) $(cat died.txt)"
    says died.txt '"code":"T0508"'
fi
run 0 down lab -y
if [ -n "${url:-}" ]; then
    for _ in $(seq 100); do
        post_code=$(curl -s -m 20 -D head.txt -o body.txt -w '%{http_code}' -H "$token" -d '{"method": "sum"}' "${url%%/#*}/api/call/answers")
        [ "$post_code" = 503 ] && break
        sleep 0.05
    done
    says head.txt '^HTTP/1.1 503'
    says head.txt '^Retry-After: 1'
    says body.txt '"code":"T0501"'
fi

# The node that serves a client stalls, then is killed.
run 0 up lab -n 3
run 0 submit --cluster lab --keep "$root/tests/cluster/clients.lua"
for _ in $(seq 200); do "$TIDE" jobs --cluster lab --json --all | grep -q '"state":"done"' && break; sleep 0.05; done
if [ -n "${url:-}" ]; then # the dashboard is with the new cluster, and takes calls of it
    run 0 submit --cluster lab "$root/tests/cluster/answers.lua"
    for _ in $(seq 200); do
        curl -s -m 20 -o body.txt -H "$token" -d '{"method": "sum", "arguments": [4]}' "${url%%/#*}/api/call/answers"
        grep -q total body.txt && break
        sleep 0.05
    done
    says body.txt '"total":4'
fi
timeout 120 "$python" "$root/tests/cluster/clients_faults.py" lab >faults.txt 2>&1 || fail "$(cat faults.txt)"
run 0 down lab -y
finish
