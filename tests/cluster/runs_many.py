"""Makes a directory of N past runs, for the time that it takes to list them: runs_many.py DIR N."""
import json
import os
import sys

root, count = sys.argv[1], int(sys.argv[2])
for i in range(count):
    run = f"20260101-{i:06d}-{i % 65536:04x}"
    os.makedirs(f"{root}/{run}")
    record = {
        "schema": "tide.run/1", "id": run, "name": f"mf-{i}", "job": "mf", "cluster": "run-" + run, "script": "mf.lua",
        "sha256": f"{i:064x}", "args": ["--rank", "64"], "seed": i, "params": {"rank": 64, "eps": i / count},
        "started_at": 1.7e9 + i, "ended_at": 1.7e9 + i + 60, "state": "done", "reports": 20, "loss": 1 - i / count,
        "examples_per_s": 1e5 + i, "host": "vm", "pid": 1000 + i, "began": i, "user": "somebody", "version": "0.1.0",
    }
    with open(f"{root}/{run}/run.json", "w") as file:
        file.write(json.dumps(record) + "\n")
