#!/usr/bin/env python3
"""What a dashboard that is looked at costs: dashboard.py [TIDE] [--pairs N] [--epochs N] [--nodes N] [--json], and how
long its page takes: --history N runs are filtered, a field of a run of --fields and --reports is drawn, --paint has
Chromium show 64 nodes and 100 runs (bench/page.lua).

A cluster stays up and trains the same matrix factorisation again and again, in turn without and with a dashboard whose
stream is read. Printed are the throughput with it over that without, as the median of the pairs, and the processor time
that the dashboard and the nodes of a resting cluster take for it, in per cent of one core: on a busy machine the second
says more. Also the bytes of the page and of a second of the stream."""
import argparse
import http.client
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
        except (OSError, http.client.HTTPException): # the dashboard ends
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


def write_runs(directory, count):
    for i in range(count):
        run = f"{directory}/.tide/runs/20261101-{i:06}"
        os.makedirs(run)
        with open(f"{run}/run.json", "w", encoding="utf-8") as file:
            json.dump({"schema": "tide.run/1", "name": f"mf-{i}", "job": "mf", "state": "done", "why": "stop: passes", "user": f"person{i % 50}",
                       "script": "mf.lua", "args": ["--rank", str(2 ** (i % 8))], "seed": i, "started_at": 1.76e9 + i, "ended_at": 1.76e9 + i + 60,
                       "params": {"rank": 2 ** (i % 8), "eps": 0.1 / (i % 7 + 1), "lambda": 0.05, "blocks": 8}, "reports": 100, "loss": 1 / (i + 1),
                       "examples_per_s": 1e5, "host": "node1", "pid": 1, "version": "1"}, file)


def write_run(directory, fields, reports):
    run = f"{directory}/.tide/runs/20261201-000000"
    os.makedirs(run)
    with open(f"{run}/run.json", "w", encoding="utf-8") as file:
        json.dump({"schema": "tide.run/1", "name": "big-1", "job": "big", "state": "done", "started_at": 1.77e9, "ended_at": 1.77e9 + 1e4, "reports": reports}, file)
    with open(f"{run}/reports.jsonl", "w", encoding="utf-8") as file:
        for i in range(1, reports + 1):
            row = {f"layer{k}.values_std": round((i * 7919 + k * 104729) % 100003 / 100003, 6) for k in range(fields - 2)}
            row |= {"loss": 100 / i, "examples": 100, "n": i, "clock": i, "time": 1.77e9 + i / 10, "elapsed_s": i / 10}
            file.write(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n")


def timed(d, path, repeats=5):
    """Seconds of a request: the first one, the median of the others, and processor time of those."""
    times = []
    for i in range(repeats + 1):
        if i == 1:
            used = processor_s(d.process.pid)
        began = time.time()
        d.get(path).read()
        times.append(time.time() - began)
    return round(times[0], 3), round(statistics.median(times[1:]), 3), round((processor_s(d.process.pid) - used) / repeats, 3)


def past_runs(tide, o):
    row = {"bench": "dashboard history", "runs": o.history, "fields": o.fields, "reports": o.reports}
    with tempfile.TemporaryDirectory() as cwd:
        os.environ["XDG_RUNTIME_DIR"] = cwd
        os.chmod(cwd, 0o700)
        subprocess.run([tide, "up", "--cluster", "bench", "-n", "1"], cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            write_runs(cwd, o.history)
            write_run(cwd, o.fields, o.reports)
            d = Dashboard(tide, cwd)
            time.sleep(2)
            row["filter_first_s"], row["filter_s"], row["filter_processor_s"] = timed(d, "api/runs?filter=mf+person7+loss%3C0.01")
            row["sorted_first_s"], row["sorted_s"], row["sorted_processor_s"] = timed(d, "api/runs?sort=loss")
            row["curve_first_s"], row["curve_s"], row["curve_processor_s"] = timed(d, "api/curve?runs=20261201-000000&field=layer7.values_std")
            row["scatter_first_s"], row["scatter_s"], row["scatter_processor_s"] = timed(d, "api/scatter?x=rank&y=loss&colour=eps")
            d.close()
        finally:
            subprocess.run([tide, "down", "bench", "-y"], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return row


PAINT = """const p = performance.getEntriesByName('first-contentful-paint')[0];
return p && document.querySelector('#panel figure, #panel .card') ? [p.startTime, window.painted, performance.getEntriesByType('resource')
  .concat(performance.getEntriesByType('navigation')).filter(e => !e.name.includes('/api/')).reduce((n, e) => n + e.transferSize, 0)] : null"""


def paint(tide):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    with tempfile.TemporaryDirectory() as cwd, subprocess.Popen([tide, "run", f"{ROOT}/bench/page.lua"], cwd=cwd, stdout=subprocess.PIPE, text=True) as page:
        url = page.stdout.readline().strip()
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1440,1000", f"--user-data-dir={cwd}/profile"):
            options.add_argument(word)
        driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver", env=os.environ | {"HOME": cwd}), options=options)
        first, filled, drawn = [], [], {}
        try:
            for _ in range(5):
                driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": "const o = new MutationObserver(() => { if (!window.painted && document.querySelector('#panel .card')) window.painted = performance.now(); }); o.observe(document, {subtree: true, childList: true});"})
                driver.get("about:blank")
                driver.get(url)
                while not (seen := driver.execute_script(PAINT)):
                    time.sleep(0.05)
                first.append(seen[0])
                filled.append(seen[1])
                size = seen[2]
            for i, name in enumerate(("Cluster", "Nodes", "Tables", "Workers", "Runs")):
                drawn[name] = round(driver.execute_script("const t = performance.now(); choose(arguments[0]); return performance.now() - t", i), 1)
        finally:
            driver.quit()
            page.send_signal(signal.SIGINT)
    return {"bench": "dashboard page", "nodes": 64, "runs": 100, "first_paint_ms": round(statistics.median(first)), "first_state_ms": round(statistics.median(filled)),
            "page_bytes": size, "panel_ms": drawn}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("tide", nargs="?", default=f"{ROOT}/build/tide")
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--nodes", type=int, default=4)
    p.add_argument("--rest", type=float, default=30, help="seconds that the resting cluster is watched")
    p.add_argument("--history", type=int, help="filter and draw from so many runs instead")
    p.add_argument("--fields", type=int, default=100)
    p.add_argument("--reports", type=int, default=100000)
    p.add_argument("--paint", action="store_true", help="show a large cluster in Chromium instead")
    p.add_argument("--json", action="store_true")
    o = p.parse_args()
    tide = os.path.abspath(o.tide)
    if o.history or o.paint:
        print(json.dumps(past_runs(tide, o) if o.history else paint(tide)))
        return
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
