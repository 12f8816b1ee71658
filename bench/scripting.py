#!/usr/bin/env python3
"""k-means, PageRank and logistic regression written with tensors against numpy on one thread: `bench/scripting.py BUILD`.

Both run in turn, three times; the least time a step counts. A figure a line: what, numpy's ms, Tide's ms, the ratio.
"""
import os
import subprocess
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def least(f, rounds=20):
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - began)
    return best


def numpy_steps():
    rng = np.random.default_rng(1)
    f4 = np.float32
    points, state = rng.normal(size=(50000, 16)).astype(f4), {"c": rng.normal(size=(16, 16)).astype(f4)}

    def kmeans():
        c = state["c"]
        distances = points @ c.T
        distances *= -2
        distances += (c * c).sum(1)
        nearest = distances.argmin(1)
        sums = np.stack([np.bincount(nearest, points[:, j], 16) for j in range(16)], 1)
        state["c"] = (sums / np.maximum(np.bincount(nearest, minlength=16), 1)[:, None]).astype(f4)

    n, m = 100000, 1000000
    begin, end = rng.integers(0, n, m), rng.integers(0, n, m)
    degree = np.maximum(np.bincount(begin, minlength=n), 1).astype(f4)
    state["r"] = np.full(n, 1 / n, f4)

    def pagerank():
        shares = (state["r"] / degree)[begin]
        state["r"] = (0.15 / n + 0.85 * np.bincount(end, shares, n)).astype(f4)

    rows, columns = 20000, 100
    x, y = rng.normal(size=(rows, columns)).astype(f4), (rng.random(rows) > 0.5).astype(f4)
    w = np.zeros(columns, f4)

    def logistic():
        nonlocal w
        z = x @ w
        np.negative(z, z)
        np.exp(z, z)
        z += 1
        np.reciprocal(z, z)
        z -= y
        w -= f4(0.1 / rows) * (z @ x)

    return {"k-means step": least(kmeans), "pagerank step": least(pagerank), "logistic step": least(logistic)}


def tide_steps(program):
    done = subprocess.run([program, "run", os.path.join(ROOT, "bench/scripting.lua"), "--only", "tensors"],
                          capture_output=True, text=True, check=True)
    figures = {}
    for line in (done.stdout + done.stderr).splitlines():
        parts = line.split("] ")[-1].split("\t")
        if len(parts) == 2 and parts[0].endswith("step"):
            figures[parts[0]] = float(parts[1])
    return figures


def main():
    program = os.path.join(os.path.abspath(sys.argv[1]), "tide")
    best = {}
    for _ in range(3):
        for who, figures in (("numpy", numpy_steps()), ("tide", tide_steps(program))):
            for what, seconds in figures.items():
                best[what, who] = min(best.get((what, who), float("inf")), seconds)
    for what in ("k-means step", "pagerank step", "logistic step"):
        a, b = best[what, "numpy"], best[what, "tide"]
        print(f"{what}\tnumpy {a * 1e3:.2f} ms\ttide {b * 1e3:.2f} ms\t{b / a:.2f}")


if __name__ == "__main__":
    main()
