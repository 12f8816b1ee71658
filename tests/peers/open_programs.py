#!/usr/bin/python3
"""The figures that tests/cluster/test_nn_open.sh and the examples' tests expect, from PyTorch in float64 (Debian's
python3-torch). Run it again when a case changes: each line is the name of a case and its numbers."""
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def show(name, *numbers):
    print(name, *("%.9g" % x for n in numbers for x in torch.as_tensor(n).flatten().tolist()))


def sequences():
    z = torch.tensor([0.5, -1, 2, 0, 0.25, -0.75, 1.5, 1, -2, 3, 0, 1]).view(4, 3)
    y = torch.tensor([2, 1, -1, 0])
    right = z.argmax(1) == y

    def xent(name, weights, smoothing=0.0):
        w = torch.tensor(weights)
        loss = F.cross_entropy(z, y, ignore_index=-1, reduction="none", label_smoothing=smoothing)
        show(name, (w * loss).sum(), (w * (y >= 0)).sum(), (right & (w > 0)).sum())

    xent("xent", [1.0, 1, 1, 1])
    xent("weighted", [0.5, 2, 1, 0])
    xent("smoothed", [0.5, 2, 1, 1], 0.1)


def elements():
    x = torch.tensor([-1.5, 0.5])
    show("gelu", F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), torch.erf(x))


def wave(shape, start):
    n = torch.Size(shape).numel()
    return torch.sin(start + 0.7 * torch.arange(n, dtype=torch.float64)).view(shape)


def attention():
    q, k, v = wave((2, 3, 2, 2), 0), wave((2, 4, 1, 2), 1), wave((2, 4, 1, 2), 2)

    def attend(name, keep):
        s = torch.einsum("bihc,bjkc->bhij", q, k) / 2 ** 0.5
        p = torch.nan_to_num(torch.softmax(s.masked_fill(~keep, -torch.inf), -1))
        show(name, torch.einsum("bhij,bjkc->bihc", p, v))

    i, j = torch.arange(3).view(3, 1), torch.arange(4).view(1, 4)
    attend("attention", torch.ones(1, 1, 3, 4, dtype=torch.bool))
    attend("causal", (j <= i + 1).view(1, 1, 3, 4))
    attend("padded", (torch.arange(4) < torch.tensor([2, 0]).view(2, 1)).view(2, 1, 1, 4))
    x = wave((3, 4), 0)
    angle = torch.arange(3).view(3, 1) * 100 ** (-2 * torch.arange(2) / 4)
    a, b = x[:, :2], x[:, 2:]
    show("rotary", torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], 1))
    x = wave((2, 3), 0)
    show("rmsnorm", x * (x.pow(2).mean(1, keepdim=True) + 1e-5).rsqrt())


if __name__ == "__main__":
    sequences()
    elements()
    attention()
