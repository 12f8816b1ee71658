#!/usr/bin/env python3
"""Writes optimizers.txt, what tests/cluster/test_optimizers.sh compares Tide's update rules with: parameters after ten
steps in float64, by torch.optim where PyTorch has the rule, else by the formulas of the paper or the authors' code.

    python3 tests/cluster/optimizers.py >tests/cluster/optimizers.txt     (PyTorch 1.13)

Parameters wide [4 x 6], tall [6 x 4] and bias [6] begin as sin(k + i), gradients are cos(0.7 t (k + i)) + 0.3 w, with i
the element from 1, k the parameter from 1 and t the step from 1. A line has rule, parameter, the sum of its elements,
of their squares, and of i times element i.
"""
import math
import torch

torch.set_default_dtype(torch.float64)
SHAPES = {"wide": (4, 6), "tall": (6, 4), "bias": (6,)}
LR, DECAY = 0.02, 0.1


def number(shape, f):
    return torch.tensor([f(i + 1) for i in range(math.prod(shape))]).reshape(shape)


def start():
    return {n: number(s, lambda i, k=k: math.sin(k + i)) for k, (n, s) in enumerate(SHAPES.items(), 1)}


def gradients(w, t):
    return {n: number(s, lambda i, k=k: math.cos(0.7 * t * (k + i))) + 0.3 * w[n]
            for k, (n, s) in enumerate(SHAPES.items(), 1)}


def of_torch(make):
    w = {n: torch.nn.Parameter(v) for n, v in start().items()}
    vectors = [v for v in w.values() if v.dim() == 1]  # without decay, as in Tide
    matrices = [v for v in w.values() if v.dim() > 1]
    o = make([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0}])
    for t in range(1, 11):
        for n, g in gradients({n: v.detach() for n, v in w.items()}, t).items():
            w[n].grad = g
        o.step()
    return {n: v.detach() for n, v in w.items()}


def of_formula(step):
    w, state = start(), {n: {} for n in SHAPES}
    for t in range(1, 11):
        g = gradients(w, t)
        for n in SHAPES:
            w[n] = step(w[n], g[n], state[n], t, DECAY if w[n].dim() > 1 else 0)
    return w


def lion(w, g, s, t, decay):
    m = s.get("m", torch.zeros_like(w))
    s["m"] = 0.99 * m + 0.01 * g
    return w - LR * (torch.sign(0.9 * m + 0.1 * g) + decay * w)


def lamb(w, g, s, t, decay):
    m = s["m"] = 0.9 * s.get("m", torch.zeros_like(w)) + 0.1 * g
    v = s["v"] = 0.999 * s.get("v", torch.zeros_like(w)) + 0.001 * g * g
    u = m / (1 - 0.9**t) / ((v / (1 - 0.999**t)).sqrt() + 1e-6) + decay * w
    return w - LR * w.norm() / u.norm() * u


def adafactor(w, g, s, t, decay):
    b, q = 1 - t**-0.8, g * g + 1e-30
    if w.dim() > 1:
        r = s["r"] = b * s.get("r", 0) + (1 - b) * q.mean(1)
        c = s["c"] = b * s.get("c", 0) + (1 - b) * q.mean(0)
        v = torch.outer(r, c) / r.mean()
    else:
        v = s["v"] = b * s.get("v", 0) + (1 - b) * q
    u = g / v.sqrt()
    u = u / max(1, u.square().mean().sqrt().item())
    rate = max(1e-3, w.square().mean().sqrt().item()) * min(1e-2, t**-0.5)
    return w - min(1e-2, t**-0.5) * decay * w - rate * u


def muon(w, g, s, t, decay):  # github.com/KellerJordan/Muon, muon_update, on the transposed weights
    m = s["m"] = 0.95 * s.get("m", torch.zeros_like(w)) + 0.05 * g
    x = (0.05 * g + 0.95 * m).T
    out, into = x.shape
    x = x.T if out > into else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    x = x.T if out > into else x
    return w - LR * decay * w - LR * math.sqrt(max(1, out / into)) * x.T


def with_adamw(rule):
    vector = of_torch(lambda p: torch.optim.AdamW(p, lr=3e-4, betas=(0.9, 0.95)))
    made = of_formula(lambda w, *rest: rule(w, *rest) if w.dim() > 1 else w)
    return {**made, "bias": vector["bias"]}


RULES = {
    "sgd": lambda: of_torch(lambda p: torch.optim.SGD(p, lr=LR)),
    "momentum": lambda: of_torch(lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9)),
    "nesterov": lambda: of_torch(lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9, nesterov=True)),
    "adagrad": lambda: of_torch(lambda p: torch.optim.Adagrad(p, lr=LR)),
    "rmsprop": lambda: of_torch(lambda p: torch.optim.RMSprop(p, lr=LR)),
    "adam": lambda: of_torch(lambda p: torch.optim.Adam(p, lr=LR)),
    "adamw": lambda: of_torch(lambda p: torch.optim.AdamW(p, lr=LR)),
    "lion": lambda: of_formula(lion),
    "lamb": lambda: of_formula(lamb),
    "adafactor": lambda: of_formula(adafactor),
    "muon": lambda: with_adamw(muon),
}

for name, made in RULES.items():
    for n, w in made().items():
        v = w.flatten()
        print(name, n, *(f"{x:.15g}" for x in (v.sum(), (v * v).sum(), (v * torch.arange(1.0, len(v) + 1)).sum())))
