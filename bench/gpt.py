#!/usr/bin/python3
"""A GPT's step, attention alone, graph nets, a recommender and an operation written in Lua beside the built-in one: Tide
and PyTorch in turn on one processor, bench/gpt.py [rounds [rows that have this in
their name]]. A row has the medians of the rounds in milliseconds of
processor time, forward and backward together (of models with the update)."""
import os
import statistics
import subprocess
import sys

if "OPENBLAS_NUM_THREADS" not in os.environ:  # before the libraries are loaded: one thread, the processor's own kernels
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    wide = "avx512f" in open("/proc/cpuinfo").read()  # an older OpenBLAS guesses too little of a newer processor
    os.environ["OPENBLAS_CORETYPE"] = "SkylakeX" if wide else "Haswell"
    os.execv(sys.executable, [sys.executable] + sys.argv)
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
here = os.path.dirname(os.path.abspath(__file__))
tide = os.environ.get("TIDE", os.path.join(here, "..", "build", "tide"))


def timed(step, times=5):
    step()
    took = []
    for _ in range(times):
        began = time.process_time()
        step()
        took.append((time.process_time() - began) * 1e3)
    return statistics.median(took)


def attend(q, k, v, mask):
    s = (q @ k.transpose(2, 3)) * q.shape[3] ** -0.5
    return torch.softmax(s.masked_fill(mask, -torch.inf), 3) @ v


def attention(B, T, H=4, d=64):
    q, k, v = (torch.randn(B, H, T, d, requires_grad=True) for _ in range(3))
    mask = torch.ones(T, T, dtype=torch.bool).triu(1)

    def step():
        for x in (q, k, v):
            x.grad = None
        attend(q, k, v, mask).sum().backward()

    return timed(step)


def gpt(B=8, T=256, C=256, H=4, L=6, V=65):
    def p(*shape):
        return torch.nn.Parameter(torch.randn(*shape) * 0.02)

    wte, wpe, mask = p(V, C), p(T, C), torch.ones(T, T, dtype=torch.bool).triu(1)
    blocks = [(p(C, 3 * C), p(C, C), p(C, 4 * C), p(4 * C, C), p(C), p(C), p(C), p(C)) for _ in range(L)]
    last = (p(C), p(C))
    x0 = (torch.arange(B * T) * 7 % V).view(B, T)
    optimizer = torch.optim.AdamW([wte, wpe, *last] + [w for b in blocks for w in b], lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        x = wte[x0] + wpe
        for qkv, o, f, r, g1, b1, g2, b2 in blocks:
            q, k, v = (z.view(B, T, H, C // H).transpose(1, 2)
                       for z in (F.layer_norm(x, (C,), g1, b1) @ qkv).split(C, 2))
            x = x + attend(q, k, v, mask).transpose(1, 2).reshape(B, T, C) @ o
            x = x + F.gelu(F.layer_norm(x, (C,), g2, b2) @ f) @ r
        F.cross_entropy((F.layer_norm(x, (C,), *last) @ wte.t()).view(-1, V), x0.view(-1)).backward()
        optimizer.step()

    return timed(step)


def graph(kind, N=2708, M=10556, D=1433, H=16, K=7):
    k = torch.arange(M)
    source, target = k * 7919 % N, (k * 104729 + k // 3) % N
    if kind == "gcn":
        loops = torch.arange(N)
        source, target = torch.cat([source, loops]), torch.cat([target, loops])
    share = torch.full((len(source),), 0.2)
    if kind == "sage":
        share = 1 / torch.bincount(target, minlength=N).clamp(min=1)[target].float()
    A = torch.sparse_coo_tensor(torch.stack([target, source]), share, (N, N)).coalesce()
    x, y = torch.randn(N, D), torch.where(torch.arange(N) < 140, torch.arange(N) % K, -1)
    layers = [torch.nn.Linear(a, b) for a, b in ((D, H), (H, K))]
    near = [torch.nn.Linear(a, b, bias=False) for a, b in ((D, H), (H, K))] if kind == "sage" else []
    optimizer = torch.optim.Adam([w for layer in layers + near for w in layer.parameters()], lr=0.01)

    def layer(i, h):
        if kind == "gcn":
            return torch.sparse.mm(A, layers[i](h))
        return layers[i](h) + torch.sparse.mm(A, near[i](h))

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(layer(1, F.relu(layer(0, x))), y, ignore_index=-1).backward()
        optimizer.step()

    return timed(step, 20)


def dlrm(tables=8, rows=1000, width=16, B=128):
    own = torch.nn.Embedding(tables * rows, width)
    below = torch.nn.Sequential(torch.nn.Linear(13, 64), torch.nn.ReLU(), torch.nn.Linear(64, width), torch.nn.ReLU())
    above = torch.nn.Sequential(torch.nn.Linear(width + tables * tables + tables, 64), torch.nn.ReLU(),
                                torch.nn.Linear(64, 1))
    i = torch.arange(B * tables)
    ids, x, y = (i % tables * rows + i * 37 % rows).view(B, tables), torch.randn(B, 13), torch.zeros(B, 1)
    optimizer = torch.optim.SGD([*own.parameters(), *below.parameters(), *above.parameters()], lr=0.1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        v, h = own(ids), below(x)
        seen = torch.cat([h, (v @ v.transpose(1, 2)).view(B, -1), (v @ h.unsqueeze(2)).view(B, -1)], 1)
        F.binary_cross_entropy_with_logits(above(seen), y).backward()
        optimizer.step()

    return timed(step, 50)


def ours(*arguments):
    return float(subprocess.run([tide, "run", os.path.join(here, "gpt.lua"), *arguments], check=True,
                                capture_output=True, text=True).stdout)


def gemm_rate(n=1024):
    a, b = torch.randn(n, n), torch.randn(n, n)
    return 2 * n ** 3 / timed(lambda: a @ b) / 1e6


rows = [
    ("GPT step, 6 layers, 256 wide, T 256, B 8", lambda: ours("--what", "gpt"), gpt),
    ("attention, T 256, B 8", lambda: ours("--what", "attention"), lambda: attention(8, 256)),
    ("attention, T 1024, B 2", lambda: ours("--what", "attention", "--length", "1024", "--batch", "2"),
     lambda: attention(2, 1024)),
    ("GCN step, Cora's sizes", lambda: ours("--what", "gcn", "--times", "20"), lambda: graph("gcn")),
    ("GraphSAGE step, Cora's sizes", lambda: ours("--what", "sage", "--times", "20"), lambda: graph("sage")),
    ("DLRM step, 8 tables, B 128", lambda: ours("--what", "dlrm", "--times", "50"), dlrm),
    ("net with an operation in Lua / built in", lambda: ours("--what", "own", "--times", "20"),
     lambda: ours("--what", "silu", "--times", "20")),
]
print("PyTorch %s: gemm of 1024 at %.0f GFLOP/s; load %.1f" % (torch.__version__, gemm_rate(), os.getloadavg()[0]))
for name, tide_ms, torch_ms in rows:
    if len(sys.argv) > 2 and sys.argv[2] not in name:
        continue
    pairs = [(tide_ms(), torch_ms()) for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3)]
    a, b = (statistics.median(x) for x in zip(*pairs))
    print("%-42s %8.2f ms, PyTorch %8.2f ms  ratio %.2f" % (name, a, b, a / b) if " / " not in name
          else "%-42s %8.2f ms, built in %7.2f ms  ratio %.2f" % (name, a, b, a / b))
