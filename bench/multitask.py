#!/usr/bin/env python3
"""tide.multitask: rounds of its solvers, and what learning the relation is worth.

    bench/multitask.py BUILD [--only rounds|synthetic|school] [--data school.svm] [--json]

One line a row. school.svm is made as the head of examples/multitask.lua tells.
"""
import argparse
import functools
import os
import re
import subprocess
import sys

import report

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("--only", default="synthetic,rounds,school")
parser.add_argument("--data")
parser.add_argument("--splits", type=int, default=5)
parser.add_argument("--json", action="store_true")
args = parser.parse_args()
row = functools.partial(report.row, args.json)
here = os.path.dirname(os.path.abspath(__file__))


def run(*options):
    """Lines of the example's table as lists of words, and what was held out."""
    out = subprocess.run([os.path.join(args.build, "tide"), "run", "-q",
                          os.path.join(here, "..", "examples", "multitask.lua"), *options], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    lines = [line.split() for line in out.stdout.splitlines() if re.match(r"^(given|[0-9.]+) +[0-9]+ ", line)]
    held = [float(v) for v in re.findall(r"held out: RMSE ([0-9.]+)", out.stdout)]
    return lines, held


def synthetic():
    for seed in range(1, 6):
        errors = {}
        for relation in ("independent", "learned", "auto"):
            _, held = run("--relation", relation, "--seed", str(seed), "--lambdas", "3e-4 1e-3 3e-3 1e-2 3e-2")
            errors[relation] = held[0]
        row(f"multitask synthetic seed {seed}", learned=errors["learned"], auto=errors["auto"],
            independent=errors["independent"], ratio=errors["learned"] / errors["independent"])


def rounds():
    for solver in ("cg", "sdca", "sdca --rows-rho"):
        lines, _ = run("--data", args.data, "--relation", "learned", "--lambdas", "0.003", "--solver", *solver.split())
        inner = [int(line[6 if line[3] == "yes" else 5]) for line in lines[:-1]]
        row(f"multitask rounds {solver} to 1e-3", most=max(inner), all=" ".join(map(str, inner)))


def school():
    _, held = run("--data", args.data, "--splits", str(args.splits), "--lambdas", "1e-4 3e-4 1e-3 3e-3")
    mean = sum(held) / len(held)
    row("multitask school auto", rmse=mean, deviation=(sum((h - mean) ** 2 for h in held) / max(1, len(held) - 1)) ** 0.5)


for name in args.only.split(","):
    if name == "synthetic" or args.data:
        {"synthetic": synthetic, "rounds": rounds, "school": school}[name]()
