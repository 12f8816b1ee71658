#!/usr/bin/python3
"""PyTorch's side of bench/ddp.sh: DistributedDataParallel over gloo, one process a rank, one thread each.

peer_ddp.py NET RANK WORKERS MASTER INTERFACE WARM STEPS: rank 0 prints an object of JSON."""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from peer_torch import mlp, regression, vgg

BATCH = 32
NETS = {
    "mlp": (mlp, (784,), 10),
    "vgg": (lambda: vgg().to(memory_format=torch.channels_last), (3, 32, 32), 100),
    "mlr": (regression, (4096,), 10000),
}


HEAD = 14 + 20 + 32  # of a packet: Ethernet, IP, TCP with time stamps


def left(interface):
    """Bytes that have left through the interface, and those of them that were no heads of packets."""
    with open("/proc/net/dev") as lines:
        for line in lines:
            name, _, figures = line.strip().partition(":")
            if name == interface:
                sent, packets = map(int, figures.split()[8:10])
                return sent, sent - HEAD * packets
    raise SystemExit("no interface " + interface)


def main():
    name, rank, workers, master, interface, warm, steps = sys.argv[1:]
    rank, workers, warm, steps = int(rank), int(workers), int(warm), int(steps)
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method="tcp://" + master, rank=rank, world_size=workers)
    make, shape, classes = NETS[name]
    net = DistributedDataParallel(make())
    x, y = torch.randn(BATCH, *shape), torch.randint(0, classes, (BATCH,))
    if len(shape) == 3:
        x = x.contiguous(memory_format=torch.channels_last)
    loss, rule = nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=1e-4)

    def step():
        rule.zero_grad(set_to_none=True)
        loss(net(x), y).backward()
        rule.step()

    for _ in range(warm):
        step()
    dist.barrier()
    began, before = time.monotonic(), left(interface)
    for _ in range(steps):
        step()
    dist.barrier()
    took, after = time.monotonic() - began, left(interface)
    figures = torch.tensor([took, after[0] - before[0], after[1] - before[1]], dtype=torch.float64)
    dist.all_reduce(figures)
    if rank == 0:
        took, out, content = (figures / (workers * steps)).tolist()
        values = sum(p.numel() for p in net.parameters())
        print(json.dumps({"schema": "tide.ddp/1", "peer": "pytorch", "method": "ddp", "net": name, "workers": workers,
                          "step_ms": 1000 * took, "out_bytes": out, "content_bytes": content,
                          "formula_bytes": 8 * values * (workers - 1) / workers}), flush=True)
    dist.barrier()
    time.sleep(0.5)  # the others are through, too
    os._exit(0)  # as the destructor of gloo's group may wait for itself for ever (PyTorch 1.13)


main()
