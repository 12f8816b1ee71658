#!/usr/bin/python3
"""Clients beside redis-py, on one machine: clients.py TIDE BUILD [SECONDS].

Starts a cluster of one node with a table of 10^5 rows of 64 floats, and a redis-server with as many values of 256 bytes
(Unix socket, no persistence). Pulls of 100 uniform keys: p50 of one outstanding operation in C and Python; with 64
outstanding keys/s of Python, in turn with redis-py's pipeline of 64 MGET into float32 arrays (median of the ratios);
growth of the client's memory over 10^6 calls (SECONDS 0: these are left out). A published actor that pulls the same
rows, asked by Python and over HTTP in msgpack, and one that adds two numbers in JSON.
"""
import http.client
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROWS, WIDTH, KEYS, PLACES, PAIRS = 100_000, 64, 100, 64, 7
SCRIPT = f"""
local tide = require "tide"
local job = tide.job {{name = "bench", tables = {{rows = tide.table {{keys = tide.dense({ROWS}), width = {WIDTH}, update = "add"}}}},
  worker = function(w) w:report {{examples = 1}} end}}
tide.main(function() local c <close> = tide.cluster {{}} c:start(job):wait() end)
"""
SERVER = """
local tide = require "tide"
local Rows = tide.actor {name = "rows", opens = "read",
  start = function(self) self.rows = tide.open "bench-1.rows" end,
  get = function(self, keys) return self.rows:pull(keys) end,
  add = function(_, a, b) return a + b end}
tide.main(function()
  local c <close> = tide.cluster {}
  local _ <close> = c:group(Rows, {}, {publish = "served"})
  tide.sleep(3600)
end)
"""


def percentile(values, share):
    return sorted(values)[int(len(values) * share)]


def latency(table, keys, pulls):
    out, times = np.empty((KEYS, WIDTH), np.float32), []
    for i in range(pulls):
        began = time.perf_counter_ns()
        table.pull(keys[i % len(keys)], out)
        times.append((time.perf_counter_ns() - began) / 1e3)
    return times


def times_of(call, count):
    times = []
    for _ in range(count):
        began = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - began) / 1e3)
    return f"{percentile(times, .5):.0f} p99 {percentile(times, .99):.0f}"


def calls(c, program):
    """p50 and p99 of calls, in us: an actor by Python, the same over HTTP."""
    with open("serve.lua", "w", encoding="utf-8") as file:
        file.write(SERVER)
    subprocess.run([program, "submit", "--cluster", "bench", "serve.lua"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    dashboard = subprocess.Popen([program, "dashboard", "--cluster", "bench", "--plain"], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
    try:
        url = dashboard.stdout.readline().strip()
        actor, keys = c.actor("served"), [int(k) for k in range(0, 100 * 997, 997)]
        for _ in range(200):
            try:
                actor.call("add", 1, 2)
                break
            except Exception:  # not published yet
                time.sleep(0.05)
        connection = http.client.HTTPConnection(url.split("/")[2])
        token = {"Authorization": "Bearer " + url.split("token=")[1]}

        def post(body, **headers):
            connection.request("POST", "/api/call/served", body, {**token, **headers})
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 200, text

        add = json.dumps({"method": "add", "arguments": [1, 2]})
        get = json.dumps({"method": "get", "arguments": [keys]})
        print(f"python_add_us {times_of(lambda: actor.call('add', 1, 2), 2000)}")
        print(f"http_add_us {times_of(lambda: post(add), 2000)}")
        print(f"python_get_us {times_of(lambda: actor.call('get', keys), 2000)}")
        print(f"http_get_us {times_of(lambda: post(get, Accept='application/msgpack'), 2000)}")
    finally:
        dashboard.terminate()


def throughput(table, keys, seconds):
    outs = [np.empty((KEYS, WIDTH), np.float32) for _ in range(PLACES)]
    waiting = [table.pull_async(keys[i], outs[i]) for i in range(PLACES)]
    count, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        for i in range(PLACES):
            waiting[i].result()
            waiting[i] = table.pull_async(keys[(count + i) % len(keys)], outs[i])
        count += PLACES
    for operation in waiting:
        operation.result()
    return count * KEYS / (time.monotonic() - began)


def redis_throughput(client, keys, seconds):
    names = [[int(k) for k in one] for one in keys]
    count, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        pipe = client.pipeline(transaction=False)
        for i in range(PLACES):
            pipe.mget(names[(count + i) % len(names)])
        for values in pipe.execute():
            np.frombuffer(b"".join(values), np.float32).reshape(KEYS, WIDTH)
        count += PLACES
    return count * KEYS / (time.monotonic() - began)


def start_redis(directory):
    import redis
    path = os.path.join(directory, "redis.sock")
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no"],
                              stdout=subprocess.DEVNULL)
    client = redis.Redis(unix_socket_path=path)
    for _ in range(100):
        try:
            client.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.05)
    row = np.ones(WIDTH, np.float32).tobytes()
    for first in range(0, ROWS, 1000):
        client.mset({k: row for k in range(first, first + 1000)})
    return server, client, redis.__version__


def main():
    program, build = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 2.0
    os.environ["TIDE_CLIENT_LIBRARY"] = os.path.join(build, "libtide-client.so.0")
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scripts/python"))
    import tide
    directory = tempfile.mkdtemp(prefix="tide-bench-")
    os.chdir(directory)
    os.environ["XDG_RUNTIME_DIR"] = directory
    with open("bench.lua", "w", encoding="utf-8") as file:
        file.write(SCRIPT)
    for words in (["up", "bench", "-n", "1"], ["submit", "--cluster", "bench", "--keep", "bench.lua"]):
        subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = None
    try:
        while '"state":"done"' not in subprocess.run([program, "jobs", "--json", "--all", "--cluster", "bench"],
                                                  capture_output=True, text=True, check=True).stdout:
            time.sleep(0.1)
        rng = np.random.default_rng(1)
        keys = [rng.integers(0, ROWS, KEYS, dtype=np.uint64) for _ in range(1024)]
        c_bench = os.path.join(build, "bench/bench_client")
        if os.path.exists(c_bench):
            print(subprocess.run([c_bench, "bench", "rows"], capture_output=True, text=True, check=True).stdout.strip())
        with tide.connect("bench", right="operate") as c:
            table = c.table("rows")
            for first in range(0, ROWS, 10_000):
                table.push(np.arange(first, first + 10_000), np.ones((10_000, WIDTH), np.float32))
            latency(table, keys, 2000)
            times = latency(table, keys, 20_000)
            print(f"python_p50_us {percentile(times, .5):.1f} python_p99_us {percentile(times, .99):.1f}")
            calls(c, program)
            if seconds > 0:
                server, redis_client, version = start_redis(directory)
                pairs = [(throughput(table, keys, seconds), redis_throughput(redis_client, keys, seconds))
                         for _ in range(PAIRS)]
                print(f"python_keys_s {statistics.median(p[0] for p in pairs):.0f} "
                      f"redis_py_keys_s {statistics.median(p[1] for p in pairs):.0f} "
                      f"ratio {statistics.median(a / b for a, b in pairs):.1f} redis_py {version}")
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                one, out = keys[0][:1], np.empty((1, WIDTH), np.float32)
                for _ in range(10**6):
                    table.pull(one, out)
                print(f"growth_kib_of_1e6_calls {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before}")
    finally:
        if server:
            server.terminate()
        subprocess.run([program, "down", "bench", "-y"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


main()
