#!/bin/bash
# The dashboard's page on an address over TLS: nobody without a token or certificate, rights by either, tokens that end and
# are revoked while it serves, keys that are expired or open to others.
. "$(dirname "$0")/harness.sh"
plugin=${TIDE_BUILD_DIR:-$root/build}/tide_http.so
[ -e "$plugin" ] || { echo "skipped: tide_http.so is not built (libmicrohttpd-dev)"; exit 77; }
python=/usr/bin/python3

run 0 keys init lab
run 2 keys page
run 2 keys page 'not a name'
says err.txt 'T0802.*is no name or numeric address'
run 0 keys page lab.example 127.0.0.1
says err.txt 'tide dashboard --tls keys/lab/page --listen'
[ "$(stat -c %a keys/lab/page/key.pem)" = 600 ] || fail "others may read the page's key"
run 2 keys token --role read
token() { # NAME ROLE: a token, for a variable
    "$TIDE" keys token --role "$2" --name "$1" 2>/dev/null </dev/null | grep -o '[0-9a-f]\{64\}'
}
run 2 keys token --role node --name n1
reader=$(token alice read) worker=$(token bob operate) old=$(token carol read) gone=$(token dora operate)
[ "$(stat -c %a keys/lab/page/tokens)" = 600 ] || fail "others may read tokens"
[ ${#reader} = 64 ] || fail "no token"
grep -rq "$reader" keys/lab/ca && fail "the authority keeps tokens"
sed -i "s/ carol [0-9]* / carol 1000000000 /" keys/lab/page/tokens
run 0 keys issue --role read --name eve
run 0 keys show
says out.txt 'alice +[0-9-]+ +valid +keys/lab/page/tokens'

run 0 up --cluster lab -n 1
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

# What is not served at all.
run 2 dashboard --cluster lab --listen "0.0.0.0:$port"
says err.txt 'T0103.*over TLS alone'
run 2 dashboard --cluster lab --tls keys/lab/page
run 2 dashboard --cluster lab --tls keys/lab/page --listen lab.example
says err.txt 'T0104.*no numeric address'
refused() { # WORDS: a dashboard with the keys in `bad` says so
    "$TIDE" dashboard --cluster lab --tls bad --listen "127.0.0.1:$port" >out.txt 2>err.txt </dev/null && fail "served: $1"
    says err.txt "$1"
}
cp -r keys/lab/page bad
chmod 644 bad/key.pem
refused 'key.pem can be read by others'
cp keys/lab/page/key.pem bad/key.pem && chmod 600 bad/key.pem && chmod 640 bad/tokens
refused 'tokens can be read by others'
chmod 600 bad/tokens && echo 'nonsense' >>bad/tokens
refused 'a line of the page.s tokens is none'
rm bad/tokens
cp keys/lab/admin/key.pem bad/key.pem
refused 'key.pem does not fit'
if openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -days 0 -keyout bad/key.pem -out bad/cert.pem 2>/dev/null; then
    chmod 600 bad/key.pem
    sleep 1.1
    refused 'cert.pem expired on [0-9]{4}-'
fi
rm -r bad/cert.pem
refused 'holds no keys'

"$TIDE" dashboard --cluster lab --tls keys/lab/page --listen "127.0.0.1:$port" --file url >dashboard.txt 2>&1 </dev/null &
dashboard=$!
started+=("$dashboard")
wait_for 20 test -s url
says url "^https://127.0.0.1:$port/#token=[0-9a-f]{64}$"
own=$(sed 's/.*token=//' url)

cat >ask.py <<'PY'
import http.client, json, ssl, sys
port, token, method, path, person = sys.argv[1:6]
context = ssl.create_default_context(cafile="keys/lab/page/cert.pem")
if person:
    context.load_cert_chain(f"keys/lab/{person}/cert.pem", f"keys/lab/{person}/key.pem")
c = http.client.HTTPSConnection("127.0.0.1", int(port), timeout=20, context=context)
c.request(method, path, body=json.dumps({"seconds": 0.1} if path == "/api/trace" else {"method": "reload"}) if method == "POST" else None, headers={"Authorization": "Bearer " + token} if token else {})
answer = c.getresponse()
print(answer.status, answer.read().decode("utf-8", "replace")[:400])
PY
asks() { "$python" ask.py "$port" "$1" "$2" "$3" "${4:-}" >answer.txt 2>&1 || fail "no answer: $(tail -3 answer.txt)"; }
expect() { grep -Eq "$1" answer.txt || fail "$2: $(cat answer.txt)"; }
ready() { asks "$own" GET /api/state && grep -q '^200' answer.txt; }
wait_for 20 ready
asks "$own" GET /api/me; expect '^200 .*"right":"admin"' "the owner"
asks "$reader" GET /api/me; expect '^200 .*"person":"alice","right":"read"' "a reader"
asks "$reader" GET /api/actors; expect '^200 ' "a reader looks"
asks "$reader" POST /api/trace; expect '^403 .*requires the right `operate`, and alice has `read`.*tide keys token' "a right that is missing"
asks "$worker" POST /api/trace; expect '^200 ' "a person with operate records"
asks "" GET /api/state; expect '^401 .*no token' "without a token"
asks "$(printf '0%.0s' {1..64})" GET /api/state; expect '^401 .*another token' "a wrong token"
asks "$old" GET /api/state; expect '^401 .*has expired' "an old token"
asks "" GET /api/me eve; expect '^200 .*"person":"eve","right":"read"' "a certificate counts as its person"
asks "" POST /api/trace eve; expect '^403 ' "a certificate has its right alone"

# A published actor is called with the right of the token, not with that of the dashboard's owner.
cat >actor.lua <<'LUA'
local tide = require "tide"
local Model = tide.actor {name = "model", opens = "operate", reload = function() return "done" end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local _ <close> = cluster:group(Model, {}, {publish = "model"})
  tide.sleep(120)
end)
LUA
run 0 submit --cluster lab actor.lua
published() { asks "$own" POST /api/call/model && grep -q '^200' answer.txt; }
wait_for 20 published
asks "$worker" POST /api/call/model; expect '^200 .*done' "a person with operate calls"
asks "$reader" POST /api/call/model; expect '^403 .*requires the right `operate`' "a reader calls what opens to operate"

# Plain HTTP at the address is no page, nor is TLS below 1.3.
"$python" - "$port" <<'PY' || fail "plain bytes, or TLS 1.2, are answered"
import socket, ssl, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20)
s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
assert not s.recv(100).startswith(b"HTTP")
context = ssl.create_default_context(cafile="keys/lab/page/cert.pem")
context.maximum_version = ssl.TLSVersion.TLSv1_2
try:
    context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1]))), server_hostname="127.0.0.1")
    sys.exit(1)
except (ssl.SSLError, ConnectionError):
    pass
PY

# Tokens and certificates that are revoked end while it serves; new ones count.
asks "$gone" GET /api/state; expect '^200 ' "before it is revoked"
curl -sN --max-time 60 --cacert keys/lab/page/cert.pem -H "Authorization: Bearer $gone" "https://127.0.0.1:$port/api/stream?after=0" >stream.txt 2>/dev/null </dev/null &
stream=$!
started+=("$stream")
wait_for 20 grep -q '^event: state' stream.txt
for name in dora eve; do
    serial=$(awk -v name="$name" '$3 == name {print $1}' keys/lab/ca/issued)
    run 0 keys revoke "$serial"
done
is_gone() { asks "$gone" GET /api/state && grep -q '^401' answer.txt; }
wait_for 20 is_gone
no_certificate() { asks "" GET /api/me eve && grep -q '^401' answer.txt; }
wait_for 20 no_certificate # it may have read the list between the two
wait "$stream" || fail "a stream continues after its token was revoked"
late=$(token frank read)
is_in() { asks "$late" GET /api/me && grep -q '"person":"frank"' answer.txt; }
wait_for 20 is_in
kill -INT "$dashboard"
wait "$dashboard" || fail "Ctrl-C does not end it in order"
grep -q "$reader\|$own" "$XDG_RUNTIME_DIR"/tide/lab/*.log 2>/dev/null && fail "a token is in a log"
run 0 down lab -y
finish
