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


if __name__ == "__main__":
    sequences()
