#!/usr/bin/python3
"""PyTorch's rows beside bench_programs: the same operations and training steps, one thread, NHWC for images."""
import sys
import time

import torch
from torch import nn

AS_JSON = "--json" in sys.argv


def row(name, unit, value):
    if AS_JSON:
        print('{"schema":"tide.bench/1","bench":"torch","row":"%s","unit":"%s","value":%.6g}' % (name, unit, value))
    else:
        print("%-10s %-48s %12.4g %s" % ("torch", name, value, unit), flush=True)


def measure(work, rounds=5):
    work()
    times = []
    for _ in range(rounds):
        start, calls = time.process_time(), 0
        while True:
            work()
            calls += 1
            took = time.process_time() - start
            if took >= 0.05:
                break
        times.append(took / calls)
    return sorted(times)[rounds // 2]


def step(name, net, x, classes):
    y = torch.randint(0, classes, (32,))
    loss = nn.CrossEntropyLoss()
    rule = torch.optim.SGD(net.parameters(), lr=1e-4)

    def work():
        rule.zero_grad(set_to_none=True)
        loss(net(x), y).backward()
        rule.step()

    row("step " + name, "ms", 1e3 * measure(work))


class Block(nn.Module):
    def __init__(self, c, to, stride):
        super().__init__()
        self.a, self.na = nn.Conv2d(c, to, 3, stride, 1, bias=False), nn.BatchNorm2d(to)
        self.b, self.nb = nn.Conv2d(to, to, 3, 1, 1, bias=False), nn.BatchNorm2d(to)
        self.s = nn.Sequential(nn.Conv2d(c, to, 1, stride, bias=False), nn.BatchNorm2d(to)) if stride > 1 else None

    def forward(self, x):
        h = self.nb(self.b(torch.relu(self.na(self.a(x)))))
        return torch.relu(h + (self.s(x) if self.s else x))


def resnet20():
    layers, c = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for stage in range(3):
        for block in range(3):
            to = 16 << stage
            layers.append(Block(c, to, 2 if stage and not block else 1))
            c = to
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def vgg():
    layers = []
    for c, o in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(c, o, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(),
                         nn.Linear(4096, 100))


def mlp():
    return nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10))


def regression():
    return nn.Linear(4096, 10000)


def convolution(c, o, side, k):
    x = torch.randn(32, c, side, side).contiguous(memory_format=torch.channels_last).requires_grad_()
    net = nn.Conv2d(c, o, k, 1, k // 2, bias=False).to(memory_format=torch.channels_last)
    g = torch.randn(32, o, side, side).contiguous(memory_format=torch.channels_last)

    def work():
        x.grad = net.weight.grad = None
        net(x).backward(g)

    row("conv %dx%d %d to %d at %d^2 all" % (k, k, c, o, side), "ms", 1e3 * measure(work))


def main():
    torch.set_num_threads(1)
    a, b = torch.randn(32, 4096), torch.randn(4096, 4096)
    row("mm 32 x 4096 x 4096", "GFLOP/s", 1e-9 * 2 * 32 * 4096 * 4096 / measure(lambda: a @ b))
    for shape in ((3, 16, 32, 3), (16, 32, 16, 3), (32, 32, 8, 3), (64, 64, 32, 3), (64, 128, 8, 1)):
        convolution(*shape)
    x = torch.randn(256 << 10)
    out = torch.empty_like(x)
    for name in ("sigmoid", "tanh", "exp"):
        f = getattr(torch, name)
        row("map " + name, "Gelements/s", 1e-9 * x.numel() / measure(lambda: f(x, out=out)))
    for n, k in ((64, 10000), (2000, 5)):
        z, y = torch.randn(n, k, requires_grad=True), torch.randint(0, k, (n,))

        def work():
            z.grad = None
            nn.functional.cross_entropy(z, y, reduction="sum").backward()

        row("xent %d x %d" % (n, k), "ms", 1e3 * measure(work))
    image = torch.randn(32, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    step("mlp 784-512-10", nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)), torch.randn(32, 784), 10)
    step("mlp 784-4096-4096-10", mlp(), torch.randn(32, 784), 10)
    step("regression 4096 x 10000", regression(), torch.randn(32, 4096), 10000)
    step("vgg-like", vgg().to(memory_format=torch.channels_last), image, 100)
    step("resnet-20", resnet20().to(memory_format=torch.channels_last), image, 10)


if __name__ == "__main__":
    main()
