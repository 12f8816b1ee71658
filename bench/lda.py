#!/usr/bin/env python3
"""lda.py TIDE [--only NAME] [--tokens 1e8] [--json]: figures of topic models. NAME: quality, samplers, overhead, workers,
memory, spill, bytes, tables; and large, which takes long and runs only when it is asked for.

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
import tempfile
import time

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lda.lua")
PYTHON = "/usr/bin/python3"  # has Debian's packages
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


PEERS = """
import json, sys, time
import numpy as np
docs = []
for line in sys.stdin.read().split("\\n")[3:]:
    if line:
        d, w, c = map(int, line.split())
        while len(docs) < d: docs.append([])
        docs[d - 1].append((w - 1, c))
train, test = docs[:9000], docs[9000:]

def perplexity(phi): # by document completion
    rng, total, count = np.random.default_rng(1), 0.0, 0
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
    return float(np.exp(-total / count))

def gensim():
    from gensim.models import LdaModel
    m = LdaModel(train, num_topics=20, passes=5, alpha=[0.1] * 20, eta=0.01, random_state=1, eval_every=None,
                 id2word={i: str(i) for i in range(5000)})
    return m.get_topics

def scikit_learn():
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import LatentDirichletAllocation
    cells = [(i, w, c) for i, d in enumerate(train) for w, c in d]
    i, w, c = zip(*cells)
    m = LatentDirichletAllocation(20, doc_topic_prior=0.1, topic_word_prior=0.01, learning_method="online", max_iter=5,
                                  random_state=1).fit(csr_matrix((c, (i, w)), shape=(len(train), 5000)))
    return lambda: m.components_ / m.components_.sum(1, keepdims=True)

for peer in (gensim, scikit_learn):
    try:
        began = time.process_time()
        phi = peer()
        seconds = time.process_time() - began
        print(json.dumps({"row": peer.__name__ + " on B, 5 passes", "seconds": seconds, "perplexity": perplexity(phi())}))
    except ImportError as missing:
        print(json.dumps({"row": peer.__name__, "note": str(missing)}))
"""


def generated_b():
    """Corpus B as text."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write('local tide = require "tide"\ntide.main(function() io.write(require("tide.core").generate("lda", '
                     '{vocabulary = 5000, topics = 20, documents = 10000, words_mass = 200, topics_mass = 2, length = 100, '
                     'seed = 1})[1]) end)\n')
        script.flush()
        return subprocess.run([sys.argv[1], "run", script.name], capture_output=True, text=True, check=True).stdout


def peers_on_b():
    """Processor seconds of one thread and perplexity of gensim and scikit-learn on corpus B, by document completion."""
    run = subprocess.run([PYTHON, "-c", PEERS], input=generated_b(), capture_output=True, text=True, check=False,
                         env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    return [json.loads(line) for line in run.stdout.splitlines()]


def quality():
    for sampler, most in (("gibbs", 48), ("warp", 96)):
        rows, _, _ = tide(B + ["--sampler", sampler, "--eval-every", "4"], most)
        there = next((row["pass"] for row in rows if row.get("perplexity", math.inf) <= 390), None)
        seconds, _ = pass_seconds(B + ["--sampler", sampler], 8, 24)
        show({"row": f"{sampler} to perplexity 390 on B", "passes": there, "seconds": there and there * seconds})
    for row in peers_on_b():
        show(row)


def overhead():
    """The kernel alone is bench_topics, at the first passes as here."""
    alone = subprocess.run([os.path.join(os.path.dirname(sys.argv[1]), "bench", "bench_topics"), "--json"],
                           capture_output=True, text=True, check=True).stdout
    speed = {row["row"]: row["value"] for row in map(json.loads, alone.splitlines())}
    for sampler in ("gibbs", "warp"):
        seconds, rows = pass_seconds(["--sampler", sampler], 1, 4)
        show({"row": f"{sampler} K 100 on A, end to end over the kernel alone",
              "ratio": rows[-1]["tokens"] / seconds / 1e6 / speed[f"lda_{sampler}, K 100"]})


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


def tables():
    """What the counts of LightLDA take as rows, as rows in blocks, and as Tide has them, after some passes on A."""
    for topics in (100, 1000, 65536):
        rows, _, _ = tide(["--sampler", "light", "--topics", str(topics), "--tables"], 4)
        show({"row": f"counts of A, K {topics}", **rows[-2]})


LARGE = """
import sys
import numpy as np
tokens, words, topics, length = int(float(sys.argv[1])), 1000000, 1000000, 100
rng = np.random.default_rng(1)
share = 1 / (np.arange(words) + 10.0)
often = np.cumsum(share / share.sum())
with open(sys.argv[2], "w") as out:
    for first in range(0, tokens // length, 20000):
        count = min(20000, tokens // length - first)
        own = rng.integers(0, topics, (count, 4)) # four topics a document, of 50 words each, and 3 in 10 words of all
        k = np.take_along_axis(own, rng.integers(0, 4, (count, length)), 1)
        w = (k * 7919 + (rng.random((count, length)) ** 2 * 50).astype(np.int64) * 104729) % words
        plain = rng.random((count, length)) < 0.3
        w[plain] = np.minimum(np.searchsorted(often, rng.random(int(plain.sum()))), words - 1)
        if first == 0: w[0, 0] = words - 1
        w.sort(1)
        new = np.ones(w.shape, bool)
        new[:, 1:] = w[:, 1:] != w[:, :-1]
        for r in range(count):
            at = np.flatnonzero(new[r])
            pairs = zip(w[r, at].tolist(), np.diff(np.append(at, length)).tolist())
            out.write(f"{len(at)} " + " ".join([f"{a}:{b}" for a, b in pairs]) + "\\n")
"""


def resident(session):
    """KiB of all processes of a session."""
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
                if int(stat.read().rsplit(")", 1)[1].split()[3]) != session:
                    continue
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
                total += sum(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        except OSError:
            pass
    return total


def large():
    """A million words and a million topics; tokens in files where they are more than the limit of a worker."""
    tokens = sys.argv[sys.argv.index("--tokens") + 1] if "--tokens" in sys.argv else "1e8"
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "large.txt")
        subprocess.run([PYTHON, "-c", LARGE, tokens, path], check=True)
        for sampler in ("warp", "light"):
            command = [sys.argv[1], "run", SCRIPT, "--data", path, "--sampler", sampler, "--topics", "1000000", "--passes", "3",
                       "--memory", "256MiB"]
            before, most = resource.getrusage(resource.RUSAGE_CHILDREN), 0
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, start_new_session=True) as run:
                while run.poll() is None:
                    most = max(most, resident(run.pid))
                    time.sleep(0.5)
                rows = [json.loads(line) for line in run.stdout if line.startswith("{")]
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            show({"row": f"{sampler}, 10^6 words, 10^6 topics, {tokens} tokens", "ended": run.returncode,
                  "M_tokens_s": rows[-1]["tokens"] / rows[-1]["seconds_a_pass"] / 1e6 if rows else None,
                  "processor_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                  "resident_MiB": most / 1024})


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    all_of = {"quality": quality, "samplers": samplers, "workers": workers, "bytes": bytes_, "memory": memory,
              "spill": spill, "overhead": overhead, "tables": tables, "large": large}
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    if only is not None and only not in all_of:
        sys.exit(f"--only is one of {', '.join(all_of)}")
    for name, figure in all_of.items():
        if name == only or (only is None and name != "large"):
            figure()


if __name__ == "__main__":
    main()
