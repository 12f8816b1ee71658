#!/usr/bin/env python3
"""allocation.py BUILD [--json] [--repeats N] [--only WORDS]: the figures that the allocation of parameters is judged by,
one line a row: what was measured here, what was aimed at, and their ratio (below 1: reached).

Epochs are the median of all epochs of N runs (3); peers' figures, from which most aims follow, are of another machine
with two cores. --only: rows whose name has one of the words, with commas between.
"""
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from bisect import bisect_left
from itertools import accumulate

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("applications", os.path.join(HERE, "applications.py"))
applications = importlib.util.module_from_spec(spec)
spec.loader.exec_module(applications)

LAYOUTS = ((1, 1), (1, 2), (2, 1))
KGE = ["kge.lua", "--mode", "steps", "--dim", "100", "--neg", "10", "--lr", "0.1", "--eval-limit", "100", "--epochs", "3"]
WAYS = {technique + draws: ["--technique", technique, "--cluster", "--sampling", sampling]
        for technique in ("relocate", "replicate", "intent")
        for draws, sampling in (("", "preloc"), (", local draws", "local"))}
WAYS["relocate, buckets"] = ["--technique", "relocate", "--order", "buckets"]
KGE_SCRIPT = os.path.join(applications.EXAMPLES, KGE[0])


def zipf(size, power):
    sums = list(accumulate((i + 1) ** -power for i in range(size)))
    return lambda draw: bisect_left(sums, draw.random() * sums[-1])


def write_graph(directory, entities, relations, parts):
    """Triples of a graph in which subject and relation fix one of 20 classes of the object."""
    draw, entity, relation = random.Random(2), zipf(entities, 0.6), zipf(relations, 1.0)
    for name, count in zip(("train", "valid", "test"), parts):
        with open(os.path.join(directory, name + ".txt"), "w", encoding="ascii") as file:
            for _ in range(count):
                s, r = entity(draw), relation(draw)
                c = (s % 20 + r) % 20
                o = c + 20 * (entity(draw) // 20)
                file.write(f"{s}\t{r}\t{o if o < entities else c}\n")
    return directory


class Table:
    def __init__(self, build, words):
        self.build, self.json = build, "--json" in words
        self.repeats = int(words[words.index("--repeats") + 1]) if "--repeats" in words else 3
        self.only = words[words.index("--only") + 1].split(",") if "--only" in words else [""]

    def wants(self, name):
        return any(word in name for word in self.only)

    def row(self, name, unit, value, aim, more_is_better=False):
        ratio = aim / value if more_is_better else value / aim
        if self.json:
            print(json.dumps({"bench": "allocation", "row": name, "unit": unit, "value": value, "aim": aim, "ratio": ratio}),
                  flush=True)
        else:
            print(f"{name:52} {value:10.4g} {unit:9} aim {aim:8.4g}  ratio {ratio:.2f}", flush=True)

    def epochs(self, name, arguments, layout, aim):
        if not self.wants(name):
            return
        try:
            times = [t for _ in range(self.repeats)
                     for t in applications.epochs_of(os.path.join(self.build, "tide"), arguments, *layout)]
        except subprocess.TimeoutExpired as late:
            print(f"{name}: not done in {late.timeout:.0f} s", file=sys.stderr)
            return
        self.row(name, "s", statistics.median(times), aim)

    def relocation(self):
        lines = subprocess.run([os.path.join(self.build, "bench", "bench_store"), "--net", "tcp", "--only", "relocation",
                                "--json"], capture_output=True, text=True, timeout=300, check=True).stdout.splitlines()
        rows = {r["row"]: r["value"] for r in map(json.loads, lines)}
        self.row("relocation, one key of 10 floats, p50", "us", rows["relocate 1 key, 10 floats, p50"], 40)
        self.row("relocation, 1000 keys of 10 floats a call", "keys/s", rows["relocate 1000 keys a call, 10 floats"], 4e6,
                 True)
        self.row("relocation, 1000 keys of 1000 floats a call, over a bare stream", "x",
                 rows["  rows moved, over a bare stream"], 0.85, True)
        self.row("the same, over a bare stream from and to such rows", "x", rows["  rows moved, over that one"], 0.85, True)

    def processor_time(self, script, nodes, epochs, side_by_side=1):
        """User and system time of all processes for one epoch more: what start and end take is not in it."""
        script = [os.path.join(self.build, "tide"), "run", *script, "--nodes", str(nodes), "--epochs"]
        used = []
        for count in epochs:
            before = os.times()
            runs = [subprocess.Popen(script + [str(count)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL) for _ in range(side_by_side)]
            if any([run.wait(timeout=300) for run in runs]):
                sys.exit(f"failed: {' '.join(script)} {count}")
            after = os.times()
            used.append(after.children_user + after.children_system - before.children_user - before.children_system)
        return (used[1] - used[0]) / (epochs[1] - epochs[0])

    def processor_times(self, name, script, epochs, apart=False):
        """Those of four and eight nodes over that of one, in turn, by the same way of working. apart: of processes that
        train a share each side by side, which is what is to be had without any communication."""
        name = "processor time of an epoch, " + name
        if not self.wants(name):
            return

        def used(nodes):
            if apart:
                return self.processor_time(script + ["--share", str(nodes)], 1, epochs, nodes)
            return self.processor_time(script, nodes, epochs)

        rounds = [[used(nodes) for nodes in (1, 4, 8)] for _ in range(self.repeats)]
        one, *more = (statistics.median(r[i] for r in rounds) for i in range(3))
        for nodes, time in zip((4, 8), more):
            self.row(f"{name}, {nodes} nodes over one", "x", time / one, 1.3)


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    table = Table(os.path.realpath(arguments[0]), arguments[1:])
    mf1m, mf100k = (applications.MF + ["--generate", size] for size in ("mf1m", "mf100k"))
    for name, order, peers in (("MF 1M", "blocks", (0.79, 0.65, 0.66)),
                               ("MF 1M columnwise", "columnwise", (1.66, 1.39, 1.47))):
        for layout, peer in zip(LAYOUTS, peers):
            technique = ["--technique", "relocate"] if layout[0] > 1 else []
            table.epochs("{} {}x{}".format(name, *layout), mf1m + ["--order", order] + technique, layout, 0.6 * peer)
    table.epochs("MF 100k 2x1, rows stay", mf100k, (2, 1), 6)
    table.epochs("MF 100k 2x1, rows relocate", mf100k + ["--technique", "relocate"], (2, 1), 0.03)
    with tempfile.TemporaryDirectory() as directory:
        graphs = (("ComplEx", 10000, 50, (20000, 1000, 1000), (1.44, 1.31, 1.14)),
                  ("RESCAL", 2000, 20, (4000, 200, 200), (8.9, 9.1, 5.3)))
        for model, entities, relations, parts, peers in graphs:
            data = os.path.join(directory, model)
            os.mkdir(data)
            write_graph(data, entities, relations, parts)
            for layout, peer in zip(LAYOUTS[:2], peers):
                table.epochs("{} d=100 {}x{}".format(model, *layout),
                             KGE + ["--technique", "static", "--data", data, "--model", model.lower()], layout,
                             0.6 * peer)
            for way in ("relocate", "relocate, local draws", "relocate, buckets", "replicate", "intent",
                        "intent, local draws"):
                table.epochs(f"{model} d=100 2x1, {way}", KGE + ["--data", data, "--model", model.lower()] + WAYS[way],
                             (2, 1), 0.6 * peers[2])
        for model, epochs in (("ComplEx", (2, 12)), ("RESCAL", (1, 5))):
            for way in ("relocate, local draws", "relocate, buckets", "replicate"):
                table.processor_times(f"{model}, {way}",
                                      [KGE_SCRIPT, *KGE[1:-2], "--workers", "1", "--model", model.lower(), "--data",
                                       os.path.join(directory, model), *WAYS[way]], epochs)
    table.processor_times("ComplEx on WordNet in mini-batches", [KGE_SCRIPT, "--workers", "1", "--eval-limit", "100",
                                                                "--technique", "static"], (1, 3))
    words = ["word2vec.lua", "--data", "generated"]
    for sampling, draws in (("naive", ""), ("local", ", local draws"), ("pool", ", pooled draws")):
        for layout, peer in zip(LAYOUTS, (1.87, 1.75, 2.49)):
            table.epochs("word2vec d=100 {}x{}".format(*layout) + draws, words + ["--epochs", "3", "--sampling", sampling],
                         layout, 0.6 * peer)
        table.processor_times("word2vec" + draws, [os.path.join(applications.EXAMPLES, words[0]), *words[1:], "--workers",
                                                   "1", "--sampling", sampling], (2, 12))
    for technique in ("replicate", "intent"):
        table.epochs(f"word2vec d=100 2x1, {technique}",
                     words + ["--epochs", "3", "--sampling", "naive", "--technique", technique], (2, 1), 0.6 * 2.49)
    if table.wants("relocation"):
        table.relocation()
    table.processor_times("MF 1M", [os.path.join(HERE, "dsgd.lua")], (5, 25))
    table.processor_times("MF 1M, nodes that do not talk", [os.path.join(HERE, "dsgd.lua")], (5, 85), apart=True)


if __name__ == "__main__":
    main()
