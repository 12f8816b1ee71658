#!/usr/bin/python3
"""PyTorch's rows beside bench_vertex: the same trees and sentences, levels batched by hand as its users do, one thread:
gather of children by index_select, sums by index_add, one product a level; forward, backward, plain gradient descent."""
import sys
import time

import torch

AS_JSON = "--json" in sys.argv
CHOSEN = [a for a in sys.argv[1:] if not a.startswith("-")]
torch.set_num_threads(1)
MASK = (1 << 64) - 1

LEAVES = [(2, 40), (3, 96), (4, 152), (5, 154), (6, 231), (7, 218), (8, 228), (9, 265), (10, 298), (11, 305), (12, 308),
          (13, 319), (14, 334), (15, 353), (16, 334), (17, 327), (18, 342), (19, 351), (20, 325), (21, 312), (22, 317),
          (23, 296), (24, 290), (25, 259), (26, 238), (27, 223), (28, 226), (29, 171), (30, 157), (31, 158), (32, 151),
          (33, 124), (34, 123), (35, 99), (36, 69), (37, 54), (38, 61), (39, 38), (40, 31), (41, 40), (42, 24), (43, 24),
          (44, 20), (45, 18), (46, 11), (47, 3), (48, 8), (49, 8), (50, 4), (51, 4), (52, 3)]


class Draw:
    """splitmix64 as kernels/readers/forest_generate.c uses it"""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return ((x ^ (x >> 31)) >> 32) * n >> 32


def leaves_of(d):
    k, seen = d.below(sum(n for _, n in LEAVES)), 0
    for leaves, n in LEAVES:
        seen += n
        if seen > k:
            return leaves


def tree(d, words):
    leaves = leaves_of(d)
    children, live, merged = [[] for _ in range(leaves)], list(range(leaves)), 0
    while len(live) > 1:
        i = max(merged - 1, 0) if d.below(100) < 50 else d.below(len(live) - 1)
        merged = i = min(i, len(live) - 2)
        children.append([live[i], live[i + 1]])
        live[i:i + 2] = [len(children) - 1]
    return children, [d.below(words) for _ in range(leaves)] + [-1] * (len(children) - leaves)


def complete(d, words, leaves=256):
    children, word, first, width = [[] for _ in range(leaves)], [d.below(words) for _ in range(leaves)], 0, leaves
    while width > 1:
        children += [[first + 2 * i, first + 2 * i + 1] for i in range(width // 2)]
        first, width = first + width, width // 2
    return children, word + [-1] * (len(children) - leaves)


def chain(d, words):
    n = 2 + d.below(20)
    n += d.below(21)
    w, word, label, before = d.below(words - 1) + 1, [], [], 0
    for t in range(n):
        emitted = 0
        if t + 1 < n:
            emitted, w = w, (5 * w + d.below(4)) % (words - 1) + 1
        word.append(before)
        label.append(emitted)
        before = emitted
    return [[t - 1] if t else [] for t in range(n)], word, label


class Batch:
    """Levels: rows by height, and for each its children and whose they are."""

    def __init__(self, samples):
        heights, offsets, words, labels, children = [], [], [], [], []
        for sample in samples:
            base, own = len(words), []
            offsets.append(base)
            for kids in sample[0]:
                own.append(1 + max((own[c] for c in kids), default=-1))
                children.append([base + c for c in kids])
            heights += own
            words += sample[1]
            labels += sample[2] if len(sample) > 2 else [w % 5 if w >= 0 else 0 for w in sample[1]]
        order = sorted(range(len(words)), key=lambda v: (heights[v], words[v] < 0))
        row = [0] * len(order)
        for r, v in enumerate(order):
            row[v] = r
        self.words = torch.tensor([words[v] for v in order if words[v] >= 0])
        self.word_rows = torch.tensor([r for r, v in enumerate(order) if words[v] >= 0])
        self.labels = torch.tensor([labels[v] for v in order])
        self.levels, self.count = [], len(order)
        for h in range(max(heights) + 1):
            own = [v for v in order if heights[v] == h]
            kids = [row[c] for v in own for c in children[v]]
            of = [i for i, v in enumerate(own) for _ in children[v]]
            self.levels.append((row[own[0]], len(own), torch.tensor(kids), torch.tensor(of)))


class Net(torch.nn.Module):
    def __init__(self, model, words, h, classes):
        super().__init__()
        self.model, self.h = model, h
        gates = {"tree": 3, "chain": 4, "fc": 1}[model]
        self.E = torch.nn.Embedding(words, h, sparse=True)
        self.W = torch.nn.Linear(h, gates * h)
        self.U = torch.nn.Linear(2 * h if model == "fc" else h, gates * h, bias=False)
        self.Uf = torch.nn.Linear(h, h)
        self.C = torch.nn.Linear(h, classes)

    def forward(self, b):
        h, model = self.h, self.model
        x = torch.zeros(b.count, h).index_copy(0, b.word_rows, self.E(b.words))
        z = None if model == "fc" else self.W(x)
        states, cells, forgotten = [], [], []
        for first, n, kids, of in b.levels:
            if model == "fc":
                below = torch.relu(self.U(torch.cat(states).index_select(0, kids).view(n, 2 * h))) if len(kids) else 0
                states.append(x[first:first + n] + below)
                continue
            zl, m = z[first:first + n], 0
            if len(kids):
                zl = zl + self.U(torch.zeros(n, h).index_add(0, of, torch.cat(states).index_select(0, kids)))
                m = torch.zeros(n, h).index_add(
                    0, of, torch.cat(forgotten if model == "tree" else cells).index_select(0, kids))
            parts = zl.chunk(3 if model == "tree" else 4, 1)
            if model == "chain":
                m = torch.sigmoid(parts[1]) * m
            c = torch.sigmoid(parts[0]) * torch.tanh(parts[-1]) + m
            s = torch.sigmoid(parts[-2]) * torch.tanh(c)
            states.append(s)
            cells.append(c)
            if model == "tree":
                forgotten.append(torch.sigmoid(self.Uf(s)) * c)
        states = torch.cat(states)
        if model == "fc":
            return states.sum()
        return torch.nn.functional.cross_entropy(self.C(states), b.labels, reduction="sum")


def row(name, unit, value):
    if AS_JSON:
        print('{"schema":"tide.bench/1","bench":"torch","row":"%s","unit":"%s","value":%.6g}' % (name, unit, value))
    else:
        print("%-10s %-48s %12.4g %s" % ("torch", name, value, unit), flush=True)


def measure(name, model, draw, words, classes, samples, h, size):
    batches = [Batch(samples[i:i + size]) for i in range(0, min(len(samples), 4 * size), size)]
    net = Net(model, words, h, classes)
    rule = torch.optim.SGD(net.parameters(), lr=1e-6)
    times, at = [], 0
    for r in range(4):
        start, done = time.process_time(), 0
        while done < 2 * size or time.process_time() - start < 0.1:
            rule.zero_grad(set_to_none=True)
            net(batches[at % len(batches)]).backward()
            rule.step()
            at, done = at + 1, done + size
        times.append((time.process_time() - start) / done)
    row("%s H %d B %d" % (name, h, size), "samples/s", 1 / sorted(times[1:])[1])


def main():
    for name, model, draw, words, classes, count in (
            ("trees", "tree", tree, 20000, 5, 256), ("complete", "tree", complete, 20000, 5, 64),
            ("lm", "chain", chain, 10000, 10000, 256), ("fc", "fc", complete, 20000, 5, 64)):
        if CHOSEN and name not in CHOSEN:
            continue
        d = Draw(1)
        samples = [draw(d, words) for _ in range(count)]
        for h in (64, 256, 512):
            for size in (64,) if model == "chain" else (1, 16, 64):
                measure(name, model, draw, words, classes, samples, h, size)


main()
