#!/usr/bin/env python3
"""Bytes that no browser sends, to the dashboard whose address is in a file: wire.py FILE. Whatever they are, the answer is
a refusal or a closed connection, and those who ask properly are served."""
import json
import re
import socket
import sys
import time

URL = open(sys.argv[1], encoding="ascii").read().strip()
PORT, TOKEN = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#token=([0-9a-f]{64})", URL).groups()
PORT = int(PORT)
HOST = f"127.0.0.1:{PORT}"
failures = 0


def expect(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAILED:", what)


def connect():
    s = socket.create_connection(("127.0.0.1", PORT), timeout=20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def read_all(s):
    data = b""
    try:
        while piece := s.recv(65536):
            data += piece
            head, _, body = data.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            if length and len(body) >= int(length[1]):
                break
    except (ConnectionError, TimeoutError):
        pass
    return data


def send(data, pieces=1):
    """The answer's status; 0: closed without one."""
    with connect() as s:
        try:
            if pieces == 1:
                s.sendall(data)
            else:
                for i in range(0, len(data), max(1, len(data) // pieces)):
                    s.sendall(data[i:i + max(1, len(data) // pieces)])
                    time.sleep(0.001)
        except ConnectionError:
            pass
        answer = read_all(s)
    found = re.match(rb"HTTP/1\.1 (\d+)", answer)
    return int(found[1]) if found else 0


def head(method="GET", target="/api/state", host=HOST, token=TOKEN, more="", version="HTTP/1.1"):
    lines = [f"{method} {target} {version}"]
    if host is not None:
        lines.append(f"Host: {host}")
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    return ("\r\n".join(lines) + "\r\n" + more + "\r\n").encode("latin-1")


def good(what):
    expect(send(head()) == 200, "served " + what)


good("at first")
REFUSED = (400, 403, 405, 408, 411, 413, 414, 417, 429, 431, 501, 505, 0)
ROWS = [
    ("no token", head(token=None), (401,)), ("another token", head(token="0" * 64), (401,)),
    ("token in the query", head(target=f"/api/state?token={TOKEN}", token=None), (401,)),
    ("another host", head(host="evil.example"), (403,)), ("no host", head(host=None), (400,)),
    ("two hosts", head(more="Host: evil.example\r\n"), (400,)), ("two equal hosts", head(more=f"host: {HOST}\r\n"), (400,)),
    ("another page", head(more="Origin: http://evil.example\r\n"), (403,)), ("null origin", head(more="Origin: null\r\n"), (403,)),
    ("another site", head(more="Sec-Fetch-Site: cross-site\r\n"), (403,)),
    ("two lengths", head("POST", "/api/replay", more="Content-Length: 1\r\nContent-Length: 2\r\n"), (400, 0)),
    ("chunked", head("POST", "/api/replay", more="Transfer-Encoding: chunked\r\n") + b"1\r\nx\r\n0\r\n\r\n", (400, 411)),
    ("smuggled", head("POST", "/api/replay", more="Content-Length: 4\r\nTransfer-Encoding: chunked\r\n") + b"0\r\n\r\n", REFUSED),
    ("long body", head("POST", "/api/replay", more="Content-Length: 70000\r\n"), (413,)),
    ("body of a GET", head(more="Content-Length: 3\r\n") + b"abc", (400,)),
    ("no JSON", head("POST", "/api/replay", more="Content-Length: 3\r\n") + b"abc", (400,)),
    ("delete", head("DELETE"), (405,)), ("put", head("PUT"), (405,)), ("options", head("OPTIONS"), (405,)),
    ("odd method", head("G\xc3T"), REFUSED), ("absolute target", head(target=f"http://{HOST}/api/state"), (400,)),
    ("dots", head(target="/../etc/passwd"), (400,)), ("escaped dots", head(target="/%2e%2e/x"), (400,)),
    ("old version", head(version="HTTP/1.0"), (505,)),
    ("newer version", head(version="HTTP/2.0"), REFUSED), ("expect", head(more="Expect: 100-continue\r\n"), (417,)),
    ("upgrade", head(more="Connection: Upgrade\r\nUpgrade: websocket\r\n"), (400,)),
    ("long target", head(target="/" + "a" * 5000), (414,)), ("9 KiB of headers", head(more="X: " + "a" * 9000 + "\r\n"), (431,)),
    ("70 headers", head(more="X: y\r\n" * 70), (431,)), ("control byte", head(more="X: a\x01b\r\n"), (400,)),
    # What the library hides from the guard: it cuts at a zero and leaves a line without a name out.
    ("zero in the path", head(target="/a\0b"), (404, *REFUSED)), ("zero in a value", head(more="X: a\0b\r\n"), (200, *REFUSED)),
    ("no name", head(more=": x\r\n"), (200, *REFUSED)), ("bare LF", head().replace(b"\r\n", b"\n"), (200, *REFUSED)),
    ("folded", head(more="X: a\r\n b\r\n"), (200, *REFUSED)), ("folded host", head(more="X: a\r\nHost: x\r\n"), (400,)),
    ("http/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", REFUSED),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n", REFUSED),
    ("nonsense", bytes(range(256)) * 40 + b"\r\n\r\n", REFUSED), ("no such page", head(target="/api/none"), (404,)),
    ("run that is none", head(target="/api/run/nothing"), (404,)), ("run with dots", head(target="/api/run/..%2fx"), (400,)),
    ("another run's journal", head(target="/api/policy/none"), (404,)), ("stream of nonsense", head(target="/api/stream?after=x"), (400,)),
    ("head of a stream", head("HEAD", "/api/stream"), (405, 0)), ("the page", head(target="/", token=None), (200,)),
]
for name, data, allowed in ROWS:
    got = send(data)
    expect(got in allowed or (got == 429 and 401 in allowed), f"{name}: {got}, not one of {allowed}")
good("after all of these")

# Cut at every byte, and sent in pieces.
whole = head()
for cut in range(0, len(whole), 3):
    with connect() as s:
        s.sendall(whole[:cut])
good("after cut requests")
expect(send(whole, pieces=len(whole)) == 200, "a request byte by byte")

# Two in one packet are answered in order.
with connect() as s:
    s.sendall(head(target="/healthz", token=None) + head(target="/api/schema"))
    data, deadline = b"", time.time() + 20
    s.settimeout(5)
    try:
        while data.count(b"HTTP/1.1 200") < 2 and time.time() < deadline:
            data += s.recv(65536)
    except TimeoutError:
        pass
    expect(data.count(b"HTTP/1.1 200") == 2, "two requests in one packet")

# Readers that stop, and heads that do not end: others are served meanwhile, and the slow are cut off.
stalled = [connect() for _ in range(8)]
for s in stalled:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.sendall(head(target="/api/stream?after=0"))
slow = [connect() for _ in range(50)]
for s in slow:
    s.sendall(b"GET / HT")
began = time.time()
with connect() as s: # whoever comes when the places are taken waits until the slow ones are cut off
    s.sendall(head(target="/healthz", token=None))
    expect(b"200" in read_all(s)[:20], "served beside 50 heads that do not end")
for i in range(7):
    time.sleep(1)
    for s in slow:
        try:
            s.send(b"x")
        except OSError:
            pass
ended = 0
for s in slow:
    s.settimeout(0.2)
    try:
        ended += s.recv(10) == b""
    except ConnectionError:
        ended += 1
    except TimeoutError:
        pass
    s.close()
expect(ended == len(slow), f"{ended} of {len(slow)} heads of one byte a second were cut off")
good("beside stalled readers")
for s in stalled:
    s.close()

# A stream continues, and comes back where it was.
def follow(after, events):
    with connect() as s:
        s.sendall(head(target=f"/api/stream?after={after}"))
        data, deadline = b"", time.time() + 30
        while data.count(b"event: sample") < events and time.time() < deadline:
            data += s.recv(65536)
    return [int(n) for n in re.findall(rb"id: (\d+)\nevent: sample", data)]


first = follow(0, 3)
second = follow(first[-1], 2)
expect(first == list(range(first[0], first[0] + len(first))), "samples in order")
expect(second[0] == first[-1] + 1, f"a stream goes on after {first[-1]}: {second}")

# Wrong tokens are slowed down, the right one never.
codes = [send(head(token="1" * 64)) for _ in range(12)]
expect(429 in codes, f"wrong tokens are slowed down: {codes}")
good("beside wrong tokens")
with connect() as s:
    s.sendall(head())
    answer = read_all(s)
state = json.loads(answer.partition(b"\r\n\r\n")[2])
expect(state["schema"] == "tide.state/1" and len(state["nodes"]) >= 4, "the state is one")
security = answer.partition(b"\r\n\r\n")[0].decode()
for line in ("default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "nosniff", "no-store", "no-referrer"):
    expect(line in security, "header " + line)
print("failed" if failures else "ok: wire")
sys.exit(failures > 0)
