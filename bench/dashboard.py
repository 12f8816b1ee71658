#!/usr/bin/env python3
"""What a dashboard that is looked at costs: dashboard.py [TIDE] [--pairs N] [--epochs N] [--nodes N] [--json].

A cluster stays up and trains the same matrix factorisation again and again, in turn without and with a dashboard whose
stream is read. Printed are the throughput with it over that without, as the median of the pairs, and the processor time
that the dashboard and the nodes of a resting cluster take for it, in per cent of one core: on a busy machine the second
says more. Also the bytes of the page and of a second of the stream."""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request


def processor_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Dashboard:
    """The process, and a reader of its stream."""

    def __init__(self, tide, cwd):
        self.process = subprocess.Popen([tide, "dashboard", "--cluster", "bench"], cwd=cwd, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.base, self.token = self.process.stdout.readline().strip().split("#token=")
        self.bytes = 0
        threading.Thread(target=self.read, daemon=True).start()

    def get(self, path):
        return urllib.request.urlopen(urllib.request.Request(self.base + path, headers={"Authorization": "Bearer " + self.token}))

    def read(self):
        try:
            stream = self.get("api/stream?after=0")
            while piece := stream.read1(65536):
                self.bytes += len(piece)
        except OSError:
            pass

    def close(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def rate(tide, cwd, epochs):
    before = set(os.listdir(f"{cwd}/.tide/runs")) if os.path.isdir(f"{cwd}/.tide/runs") else set()
    subprocess.run([tide, "run", "--cluster", "bench", f"{ROOT}/examples/mf.lua", "--epochs", str(epochs)], cwd=cwd, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    new, = set(os.listdir(f"{cwd}/.tide/runs")) - before
    with open(f"{cwd}/.tide/runs/{new}/reports.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return (len(lines) - 1) / (lines[-1]["elapsed_s"] - lines[0]["elapsed_s"])


ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("tide", nargs="?", default=f"{ROOT}/build/tide")
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--nodes", type=int, default=4)
    p.add_argument("--rest", type=float, default=10, help="seconds that the resting cluster is watched")
    p.add_argument("--json", action="store_true")
    o = p.parse_args()
    tide = os.path.abspath(o.tide)
    with tempfile.TemporaryDirectory() as cwd:
        os.environ["XDG_RUNTIME_DIR"] = cwd
        os.chmod(cwd, 0o700)
        subprocess.run([tide, "up", "--cluster", "bench", "-n", str(o.nodes)], cwd=cwd, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        with open(f"{cwd}/tide/bench/pids", encoding="ascii") as file:
            pids = [int(line.split()[0]) for line in file]
        try:
            def nodes_s(seconds):
                before = sum(map(processor_s, pids))
                time.sleep(seconds)
                return (sum(map(processor_s, pids)) - before) / seconds
            alone = nodes_s(o.rest)
            d = Dashboard(tide, cwd)
            time.sleep(2)
            own, bytes_before = processor_s(d.process.pid), d.bytes
            watched = nodes_s(o.rest)
            own = (processor_s(d.process.pid) - own) / o.rest
            stream = (d.bytes - bytes_before) / o.rest
            page = sum(len(d.get(path).read()) for path in ("", "app.js", "style.css", "icon.svg"))
            d.close()
            ratios = []
            for i in range(o.pairs):
                def with_it():
                    d = Dashboard(tide, cwd)
                    time.sleep(1)
                    r = rate(tide, cwd, o.epochs)
                    d.close()
                    return r
                if i % 2 == 0:
                    without, with_ = rate(tide, cwd, o.epochs), with_it()
                else:
                    with_, without = with_it(), rate(tide, cwd, o.epochs)
                ratios.append(with_ / without)
                print(f"pair {i + 1}: {without:.1f} epochs/s without, {with_:.1f} with, ratio {ratios[-1]:.3f}", file=sys.stderr)
        finally:
            subprocess.run([tide, "down", "bench", "-y"], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    row = {"bench": "dashboard", "nodes": o.nodes, "pairs": o.pairs, "throughput_share": round(statistics.median(ratios), 4) if ratios else None,
           "throughput_share_min": round(min(ratios), 4) if ratios else None, "throughput_share_max": round(max(ratios), 4) if ratios else None,
           "dashboard_core_share": round(own, 4), "nodes_core_share": round(watched - alone, 4), "page_bytes": page,
           "stream_bytes_per_s": round(stream)}
    if o.json:
        print(json.dumps(row))
    else:
        for key, value in row.items():
            print(f"{re.sub('_', ' ', key):24} {value}")


main()
