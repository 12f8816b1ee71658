#!/usr/bin/env python3
"""lda.py TIDE [--only quality|samplers|workers|memory|spill|bytes] [--json]: figures of topic models.

Seconds are processor seconds of all processes of a run: they stand on a machine that others use as well. Those of a pass
are the difference of two runs that differ in passes alone, so reading and evaluation are not in them. gensim and
scikit-learn (Debian's python3-gensim, python3-sklearn) run beside, if they are there.
"""
import json
import math
import os
import resource
import subprocess
import sys

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lda.lua")
B = ["--data", "generated B", "--topics", "20", "--test-last", "1000"]


def show(row):
    if "--json" in sys.argv:
        print(json.dumps({"bench": "lda", **row}), flush=True)
    else:
        print("  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()),
              flush=True)


def tide(arguments, passes):
    """Rows of a run, its processor seconds, and the largest process's resident KiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([sys.argv[1], "run", SCRIPT, *arguments, "--passes", str(passes)], stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=1200, check=False)
    if run.returncode != 0:
        sys.exit(f"{' '.join(run.args)} ended with {run.returncode}:\n{run.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    return rows, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss


def pass_seconds(arguments, few, many):
    """Processor seconds of a pass, and the rows of the longer run."""
    _, least, _ = tide(arguments, few)
    rows, most, _ = tide(arguments, many)
    return (most - least) / (many - few), rows


def gensim_on_b(passes):
    """Processor seconds and perplexity of gensim's LdaModel on corpus B, by document completion."""
    code = f"""
import json, logging, sys, time
import numpy as np
from gensim.models import LdaModel
docs = []
text = sys.stdin.read().split("\\n")[3:]
for line in text:
    if line:
        d, w, c = map(int, line.split())
        while len(docs) < d: docs.append([])
        docs[d - 1].append((w - 1, c))
train, test = docs[:9000], docs[9000:]
began = time.process_time()
m = LdaModel(train, num_topics=20, passes={passes}, alpha=[0.1] * 20, eta=0.01, random_state=1, eval_every=None,
             id2word={{i: str(i) for i in range(5000)}})
seconds = time.process_time() - began
phi, rng, total, count = m.get_topics(), np.random.default_rng(1), 0.0, 0
for d in test:
    w = np.repeat([a for a, _ in d], [c for _, c in d])
    rng.shuffle(w)
    half = len(w) // 2
    theta = np.full(20, 0.05)
    for _ in range(50):
        g = phi[:, w[:half]] * theta[:, None]
        theta = 0.1 + (g / g.sum(0)).sum(1)
        theta /= theta.sum()
    total += np.log(theta @ phi[:, w[half:]]).sum()
    count += len(w) - half
print(json.dumps({{"seconds": seconds, "perplexity": float(np.exp(-total / count))}}))
"""
    script = "/tmp/lda-bench-b.lua"
    with open(script, "w", encoding="utf-8") as out:
        out.write('local tide = require "tide"\ntide.main(function() io.write(require("tide.core").generate("lda", {vocabulary '
                  '= 5000, topics = 20, documents = 10000, words_mass = 200, topics_mass = 2, length = 100, seed = 1})[1]) end)\n')
    text = subprocess.run([sys.argv[1], "run", script], capture_output=True, text=True, check=True).stdout
    os.unlink(script)
    run = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False,
                         env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    return json.loads(run.stdout) if run.returncode == 0 else None


def quality():
    for sampler, most in (("gibbs", 48), ("warp", 96)):
        rows, _, _ = tide(B + ["--sampler", sampler, "--eval-every", "4"], most)
        there = next((row["pass"] for row in rows if row.get("perplexity", math.inf) <= 390), None)
        seconds, _ = pass_seconds(B + ["--sampler", sampler], 8, 24)
        show({"row": f"{sampler} to perplexity 390 on B", "passes": there, "seconds": there and there * seconds})
    peer = gensim_on_b(5)
    show({"row": "gensim on B, 5 passes", **(peer or {"note": "not installed"})})


def samplers():
    for topics in (100, 1000):
        for sampler, more in (("gibbs", []), ("xy", ["--mode", "rotate"]), ("light", ["--mode", "rotate"]),
                              ("light", ["--mode", "rotate", "--doc-move", "lightlda"]), ("warp", [])):
            if topics == 1000 and sampler in ("gibbs", "xy"):
                continue
            seconds, rows = pass_seconds(["--sampler", sampler, "--topics", str(topics), *more], 2, 16)
            show({"row": f"{sampler} {' '.join(more[3:])} K {topics} on A", "ll": float(rows[-2]["ll"]),
                  "M_tokens_s": rows[-1]["tokens"] / seconds / 1e6})


def workers():
    for sampler in ("gibbs", "warp"):
        for nodes, own in ((1, 1), (1, 2), (2, 1)):
            seconds, rows = pass_seconds(["--sampler", sampler, "--nodes", str(nodes), "--workers", str(own), "--parts",
                                          "2" if sampler == "gibbs" else "16"], 2, 12)
            show({"row": f"{sampler} {nodes}x{own} K 100 on A", "seconds_a_pass": seconds,
                  "wall_seconds_a_pass": rows[-1]["seconds_a_pass"], "bytes_a_pass": rows[-1]["bytes"] / 12})


def bytes_():
    rows, _, _ = tide(["--sampler", "gibbs", "--nodes", "2", "--parts", "2", "--eval-every", "1000"], 12)
    more, _, _ = tide(["--sampler", "gibbs", "--nodes", "2", "--parts", "2", "--eval-every", "1000"], 2)
    made = (rows[-1]["bytes"] - more[-1]["bytes"]) / 10
    formula = 2 * 4 * 112 * rows[-1]["vocabulary"]
    show({"row": "rotate 2x1, bytes a pass over 4 K V a worker", "ratio": made / formula})
    rows, _, _ = tide(["--sampler", "warp", "--nodes", "2", "--eval-every", "1000"], 12)
    more, _, _ = tide(["--sampler", "warp", "--nodes", "2", "--eval-every", "1000"], 2)
    made = (rows[-1]["bytes"] - more[-1]["bytes"]) / 10
    formula = 4 * 2 * rows[-1]["tokens"] / 2 * 2
    show({"row": "exchange 2x1, bytes a pass over 8 a token that has another owner", "ratio": made / formula})


def memory():
    _, _, idle = tide(["--data", "generated B", "--topics", "20"], 1)
    rows, _, most = tide(["--sampler", "warp", "--topics", "1000"], 4)
    show({"row": "warp K 1000 on A", "resident_MiB": most / 1024, "of_a_small_run_MiB": idle / 1024,
          "bytes_a_token": (most - idle) * 1024 / rows[-1]["tokens"]})


def spill():
    inside, _ = pass_seconds(["--sampler", "warp"], 2, 12)
    outside, _ = pass_seconds(["--sampler", "warp", "--memory", "1500KiB"], 2, 12)
    show({"row": "warp on A within a tenth of the tokens' bytes, over in memory", "ratio": outside / inside})


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    all_of = {"quality": quality, "samplers": samplers, "workers": workers, "bytes": bytes_, "memory": memory,
              "spill": spill}
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    if only is not None and only not in all_of:
        sys.exit(f"--only is one of {', '.join(all_of)}")
    for name, figure in all_of.items():
        if only in (None, name):
            figure()


if __name__ == "__main__":
    main()
