#!/usr/bin/env python3
"""The prompt of `tide attach` as a person waits for it: from a key to what the screen shows, through a pseudo-terminal.

    bench/bench_console.py [--json] [--rounds N] [TIDE]

Rows: answer of 1+1, completion, cancel of an endless loop, start of the program to its prompt; on an idle cluster of
two nodes, then while both workers push rows to each other all the time; then what a tap costs the job. One line of
figures a row, in ms.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cluster"))
from console import PROMPT, Prompt  # noqa: E402

BUSY = """
local tide = require "tide"
local job = tide.job {
  name = "busy", tables = {w = tide.table {keys = tide.dense(20000), width = 64}},
  worker = function(w)
    local keys, rows = {}, {}
    for i = 1, 2000 do keys[i] = i * 10 - 1 rows[i] = {} for c = 1, 64 do rows[i][c] = 1 end end
    while not w:stopping() do
      for _ = 1, 20 do w.tables.w:push(keys, rows) w.tables.w:pull(keys) end
      w:report {examples = 1}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
"""


def timed(p, keys, pattern):
    began = time.monotonic()  # before the key: whoever it wakes may have the processor at once
    p.type(keys)
    p.expect(pattern)
    return (time.monotonic() - began) * 1e3


def evaluate(p):
    return timed(p, "1+1\r", r"^2\n(.|\n)*> $")


def complete(p):
    p.type("policy.rollb")
    p.expect("rollb")
    took = timed(p, "\t", "ack")
    p.type("\x03")
    p.expect(PROMPT)
    return took


def cancel(p):
    p.type("while true do end\r")
    time.sleep(0.1)
    return timed(p, "\x03", r"(cancelled|T0230)(.|\n)*> $")


def row(o, load, what, samples):
    samples.sort()
    figures = {"bench": "console", "row": what, "load": load, "n": len(samples),
               "p50_ms": round(samples[len(samples) // 2], 2),
               "p99_ms": round(samples[min(len(samples) - 1, len(samples) * 99 // 100)], 2)}
    if o.json:
        print(json.dumps(figures), flush=True)
    else:
        print(f"console {what:<10} {load:<5} n {figures['n']:>4}  p50 {figures['p50_ms']:>8.2f} ms  "
              f"p99 {figures['p99_ms']:>8.2f} ms", flush=True)


def rows(o, load):
    p = Prompt(o.tide, "bench")
    p.expect(PROMPT)
    evaluate(p)
    complete(p)
    row(o, load, "evaluate", [evaluate(p) for _ in range(o.rounds)])
    row(o, load, "complete", [complete(p) for _ in range(o.rounds // 4)])
    row(o, load, "cancel", [cancel(p) for _ in range(max(o.rounds // 10, 5))])
    p.type("\x04")
    p.end()
    row(o, load, "start", [start(o) for _ in range(max(o.rounds // 10, 5))])


def start(o):
    began = time.monotonic()
    p = Prompt(o.tide, "bench")
    p.expect(PROMPT)
    took = (time.monotonic() - began) * 1e3
    p.type("\x04")
    p.end()
    return took


def messages(p):
    """Messages that the store of the session's node has handled."""
    asked = "for _, a in ipairs(core.actors()) do if a.type == 'store' then print('m' .. a.messages_handled) end end"
    found = p.line(asked, r"^m(\d+)\n(.|\n)*> $")
    return int(found.group(1)), time.monotonic()


def tap_cost(o):
    """Messages a second of a store with a tap at its greatest rate, as a share of those without one."""
    p = Prompt(o.tide, "bench")
    p.expect(PROMPT)
    rates = ([], [])
    for i in range(12):
        watcher = Prompt(o.tide, "bench") if i % 2 else None
        if watcher:
            watcher.expect(PROMPT)
            watcher.type("tap('n1/store', {rate = 100})\r")
            watcher.expect(r"n1/store: \d+ messages")
        first, began = messages(p)
        time.sleep(1)
        last, ended = messages(p)
        rates[i % 2].append((last - first) / (ended - began))
        if watcher:
            watcher.type("\x03")
            watcher.expect(PROMPT)
            watcher.type("\x04")
            watcher.end()
    p.type("\x04")
    p.end()
    without, tapped = (sorted(r)[len(r) // 2] for r in rates)
    figures = {"bench": "console", "row": "tap", "load": "busy", "messages_per_s": round(without),
               "ratio": round(tapped / without, 3)}
    if o.json:
        print(json.dumps(figures), flush=True)
    else:
        print(f"console tap        busy  {without:.0f} messages/s without, {tapped / without:.3f} of that with",
              flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("tide", nargs="?", default=os.path.join(ROOT, "build", "tide"))
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--rounds", type=int, default=200)
    o = arguments.parse_args()
    o.tide = os.path.abspath(o.tide)
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        os.mkdir("run", 0o700)
        os.environ["XDG_RUNTIME_DIR"] = os.environ["XDG_STATE_HOME"] = work + "/run"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([o.tide, "up", "--cluster", "bench", "-n", "2"], check=True, **quiet)
        try:
            rows(o, "idle")
            with open("busy.lua", "w", encoding="utf-8") as script:
                script.write(BUSY)
            driver = subprocess.Popen([o.tide, "run", "--cluster", "bench", "busy.lua"], **quiet)
            time.sleep(2)
            rows(o, "busy")
            tap_cost(o)
            driver.terminate()
            driver.wait(20)
        finally:
            subprocess.run([o.tide, "down", "bench", "-y"], check=False, **quiet)


if __name__ == "__main__":
    main()
