#!/usr/bin/env python3
"""applications.py TIDE [--json] [--repeats N]: seconds an epoch of the workloads that published parameter servers are
compared on, for 1 x 1, 1 x 2 and 2 x 1 nodes x workers: the quickest and the median epoch of all repeats.

The peers' figures beside them were measured on two cores of a machine of this kind, not in this run.
"""
import json
import os
import statistics
import subprocess
import sys

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples")
LAYOUTS = ((1, 1), (1, 2), (2, 1))
MF = ["mf.lua", "--rank", "100", "--start", "uniform", "--eps", "0.001", "--no-center", "--epochs", "5"]
KGE = ["kge.lua", "--dim", "50", "--epochs", "3", "--eval-limit", "200", "--technique", "static"]  # WordNet: no peer was measured on it
WORKLOADS = {
    "mf1m": (MF + ["--generate", "mf1m"], {(1, 1): 0.79, (1, 2): 0.65, (2, 1): 0.66}),
    "mf100k": (MF + ["--generate", "mf100k"], {(1, 1): 0.063, (1, 2): 0.051, (2, 1): 0.044}),
    "kge": (KGE, {}),
    "word2vec": (["word2vec.lua", "--data", "generated", "--epochs", "3", "--sampling", "local"],  # as its peers
                 {(1, 1): 1.87, (1, 2): 1.75, (2, 1): 2.49}),
}
TECHNIQUES = {"mf1m": ("relocate",), "mf100k": ("relocate",), "kge": ("relocate", "replicate", "intent"),
              "word2vec": ("replicate", "intent")}  # beside rows that stay, on two nodes


def epochs_of(tide, arguments, nodes, workers):
    run = subprocess.run(
        [tide, "run", os.path.join(EXAMPLES, arguments[0]), *arguments[1:], "--nodes", str(nodes), "--workers",
         str(workers), "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    if run.returncode != 0:
        sys.exit(f"{' '.join(run.args)} ended with {run.returncode}:\n{run.stderr}")
    return [epoch["train_s"] for epoch in json.loads(run.stdout.splitlines()[-1])["epochs"]]


def main():
    words = sys.argv[1:]
    if not words or words[0].startswith("-"):
        sys.exit(__doc__)
    repeats = int(words[words.index("--repeats") + 1]) if "--repeats" in words else 3
    rows = [(name, arguments, peers, layout, "static") for name, (arguments, peers) in WORKLOADS.items()
            for layout in LAYOUTS]
    for name, techniques in TECHNIQUES.items():
        arguments, peers = WORKLOADS[name]
        rows += [(name, arguments + ["--technique", each], peers, (2, 1), each) for each in techniques]
    for name, arguments, peers, layout, technique in rows:
        times = [t for _ in range(repeats) for t in epochs_of(words[0], arguments, *layout)]
        row = {"bench": "applications", "workload": name, "nodes": layout[0], "workers": layout[1],
               "technique": technique, "epoch_s_least": min(times), "epoch_s_median": statistics.median(times)}
        if layout in peers:
            row.update(peer_s=peers[layout], ratio=row["epoch_s_median"] / peers[layout])
        if "--json" in words:
            print(json.dumps(row), flush=True)
        else:
            peer = f"  peer {row['peer_s']:.3f} s  ratio {row['ratio']:.2f}" if layout in peers else ""
            print(f"{name:17} {layout[0]}x{layout[1]} {technique:9}  least {row['epoch_s_least']:.3f} s  median "
                  f"{row['epoch_s_median']:.3f} s an epoch{peer}", flush=True)


if __name__ == "__main__":
    main()
