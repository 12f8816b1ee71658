#!/usr/bin/env python3
"""tide.descent beside scikit-learn, glmnet and liblinear, on the same data and to the same gap, in turn in one run.

    bench/descent.py BUILD [--only sklearn|glmnet|liblinear|sums|schedules] [--json]

Wants Debian's python3-sklearn, r-cran-glmnet and liblinear-tools. One line a row.
"""
import argparse
import functools
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np
import report

parser = argparse.ArgumentParser()
parser.add_argument("build", type=os.path.abspath)
parser.add_argument("--only", default="sums,sklearn,liblinear,glmnet,schedules")
parser.add_argument("--json", action="store_true")
parser.add_argument("--repeat", type=int, default=3)
args = parser.parse_args()
row = functools.partial(report.row, args.json)
here = os.path.dirname(os.path.abspath(__file__))
work = tempfile.mkdtemp(prefix="tide-descent-")
one = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")


def save(x, y):
    x, y = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(y, np.float32)
    head = json.dumps({"x": {"dtype": "F32", "shape": list(x.shape), "data_offsets": [0, x.nbytes]},
                       "y": {"dtype": "F32", "shape": list(y.shape),
                             "data_offsets": [x.nbytes, x.nbytes + y.nbytes]}}).encode()
    path = os.path.join(work, "data.safetensors")
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + x.tobytes() + y.tobytes())
    return path, x.astype(float), y.astype(float)


def tide(path, *options):
    out = subprocess.run([os.path.join(args.build, "tide"), "run", "-q", os.path.join(here, "descent.lua"), "--data",
                          path, *options], capture_output=True, text=True, env=one, cwd=work)
    if out.returncode:
        sys.exit(out.stderr)
    return json.loads(out.stdout.strip().splitlines()[-1])


def took(result):
    """Seconds from the first report, whose sum waits for the data to be read, to the last, and one round more."""
    trace = result["trace"]
    rounds = len(trace)
    return (trace[-1][0] - trace[0][0]) * rounds / max(1, rounds - 1)


def blocks(seed, r, n=400, J=2000, block=20, nonzero=40):
    rng = np.random.default_rng(seed)
    x = np.sqrt(r) * np.repeat(rng.normal(size=(n, J // block)), block, axis=1) + np.sqrt(1 - r) * rng.normal(size=(n, J))
    x /= np.linalg.norm(x, axis=0)
    b = np.zeros(J)
    b[rng.choice(J, nonzero, replace=False)] = rng.normal(size=nonzero)
    return save(x, x @ b + 0.05 * rng.normal(size=n) / np.sqrt(n) * 3)


def sums():
    for r in (0.5, 0.9):
        counts = [tide(blocks(seed, r)[0], "--share", "0.1")["sums"] for seed in range(5)]
        row(f"descent sums r={r}", median=float(np.median(counts)), most=max(counts))


def schedules():
    """Rounds and passes to a relative distance of 1e-6 from the optimum, medians of 5 instances."""
    for r in (0.5, 0.9):
        for order in ("active", "priority", "random"):
            for check in ("none", "pair", "rowsum"):
                rounds, passes = [], []
                for seed in range(5):
                    path, x, _ = blocks(seed, r)
                    best = tide(path, "--share", "0.1", "--tolerance", "1e-10")["objective"]
                    trace = tide(path, "--share", "0.1", "--mode", "sets", "--order", order, "--check", check,
                                 "--tolerance", "1e-4")["trace"]
                    hit = next((t for t in trace if t[1] <= best * (1 + 1e-6)), trace[-1])
                    rounds.append(hit[3])
                    passes.append(hit[4] / x.shape[1])
                row(f"descent schedules r={r} {order} {check}", passes=float(np.median(passes)),
                    rounds=float(np.median(rounds)))


def lasso_gap(x, y, coef, L):
    residual = y - x @ coef
    scale = min(1.0, L / max(abs(x.T @ residual).max(), 1e-300))
    primal = residual @ residual / 2 + L * abs(coef).sum()
    return (primal - (scale * (y @ residual) - scale ** 2 / 2 * (residual @ residual))) / primal


def sklearn():
    from sklearn.linear_model import Lasso
    rng = np.random.default_rng(0)
    n, J = 10000, 2000
    x = rng.normal(size=(n, J))
    b = np.zeros(J)
    b[rng.choice(J, 100, replace=False)] = rng.normal(size=100)
    path, x, y = save(x, x @ b + rng.normal(size=n))
    xf = np.asfortranarray(x)
    most = abs(x.T @ y).max()
    for share in (0.1, 0.01):
        L, ours, theirs, gap = share * most, [], [], 0
        for _ in range(args.repeat):
            ours.append(took(tide(path, "--lambda", repr(L))))
            for tol in (1e-4, 1e-6, 1e-8):
                began = time.perf_counter()
                model = Lasso(alpha=L / n, fit_intercept=False, tol=tol, max_iter=100000, precompute=False).fit(xf, y)
                seconds = time.perf_counter() - began
                gap = lasso_gap(x, y, model.coef_, L)
                if gap <= 1e-6:
                    break
            theirs.append(seconds)
        a, b_ = float(np.median(ours)), float(np.median(theirs))
        row(f"descent sklearn share={share}", tide_s=a, sklearn_s=b_, ratio=a / b_, sklearn_gap=float(gap))


def sparse(seed, n, J, nonzeros, classes):
    rng = np.random.default_rng(seed)
    truth = np.zeros(J)
    truth[rng.choice(J, 200, replace=False)] = rng.normal(size=200) * 3
    path = os.path.join(work, f"sparse-{classes}.svm")
    with open(path, "w") as f:
        for _ in range(n):
            columns = np.sort(rng.choice(J, nonzeros, replace=False))
            values = rng.normal(size=nonzeros)
            score = values @ truth[columns] + 0.1 * rng.normal()
            label = (1 if score > 0 else -1) if classes else score
            f.write(f"{label:.6g} " + " ".join(f"{c + 1}:{v:.5g}" for c, v in zip(columns, values)) + "\n")
    return path


def liblinear():
    path = sparse(1, 4000, 20000, 50, True)
    C = 0.3
    ours = tide(path, "--model", "logistic", "--lambda", repr(1 / C), "--tolerance", "1e-6")
    seconds, objective = took(ours), ours["objective"]
    for e in ("0.01", "0.001", "0.0001", "0.00001"):
        model = os.path.join(work, "model")
        began = time.perf_counter()
        out = subprocess.run(["liblinear-train", "-s", "6", "-c", str(C), "-e", e, path, model], capture_output=True,
                             text=True, check=True, env=one).stdout
        theirs = time.perf_counter() - began
        value = float(re.findall(r"Objective value = ([0-9.e+]+)", out)[-1])
        if value / C <= objective * (1 + 1e-6):  # its objective is C times ours; its time has the reading in it
            break
    row("descent liblinear", tide_s=seconds, liblinear_s=theirs, ratio=seconds / theirs, tide_objective=objective,
        liblinear_objective=value / C)


def glmnet():
    path = sparse(2, 20000, 50000, 50, False)
    ours = tide(path, "--path", "100", "--ratio", "0.05", "--tolerance", "1e-6")
    script = f'''
library(Matrix); library(glmnet)
lines <- readLines("{path}"); parts <- strsplit(lines, " ")
y <- as.numeric(sapply(parts, `[`, 1)); e <- lapply(parts, function(p) strsplit(p[-1], ":"))
i <- rep(seq_along(e), sapply(e, length)); j <- as.integer(unlist(lapply(e, function(r) sapply(r, `[`, 1))))
v <- as.numeric(unlist(lapply(e, function(r) sapply(r, `[`, 2))))
x <- sparseMatrix(i = i, j = j, x = v, dims = c(length(y), 50000))
t <- system.time(glmnet(x, y, standardize = FALSE, intercept = FALSE, nlambda = 100, lambda.min.ratio = 0.05,
  thresh = 1e-7))["elapsed"]
cat(t)'''
    out = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, env=one)
    theirs = float(out.stdout.split()[-1]) if out.returncode == 0 else float("nan")
    row("descent glmnet path of 100", tide_s=took(ours), glmnet_s=theirs, ratio=took(ours) / theirs,
        support=ours["support"])


for name in args.only.split(","):
    {"sums": sums, "sklearn": sklearn, "liblinear": liblinear, "glmnet": glmnet, "schedules": schedules}[name]()
