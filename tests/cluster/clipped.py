#!/usr/bin/env python3
"""clipped.py BEGIN END STEPS: rows of words and a layer, by gradient descent on words.txt at rate 0.5, the norm of the
gradient over layer and rows cut to 0.05. Starts from the file BEGIN; ends with 1 unless END holds what comes of it."""
import json
import math
import struct
import sys


def load(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        body = f.read()
    out = {}
    for name, t in head.items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = list(struct.unpack("<%df" % ((b - a) // 4), body[a:b]))
    return out


p, want, steps, rate = load(sys.argv[1]), load(sys.argv[2]), int(sys.argv[3]), 0.5
lines = open("words.txt").read().split("\n")[1:]
samples = [(int(lines[i + 2]), int(lines[i + 3])) for i in range(0, 24 * 4, 4)]
H, C = 4, 3
for _ in range(steps):
    E, W, b = p["E"], p["out.w"], p["out.b"]
    g = {k: [0.0] * len(v) for k, v in p.items()}
    loss = 0
    for word, label in samples:
        x = E[word * H:word * H + H]
        z = [sum(x[i] * W[i * C + c] for i in range(H)) + b[c] for c in range(C)]
        total = sum(math.exp(v) for v in z)
        loss += math.log(total) - z[label]
        d = [(math.exp(z[c]) / total - (c == label)) / len(samples) for c in range(C)]
        for c in range(C):
            g["out.b"][c] += d[c]
            for i in range(H):
                g["out.w"][i * C + c] += x[i] * d[c]
                g["E"][word * H + i] += W[i * C + c] * d[c]
    norm = math.sqrt(sum(v * v for t in g.values() for v in t))
    print("%.7f norm %.4f" % (loss / len(samples), norm))
    scale = min(1, 0.05 / norm)
    for k in p:
        p[k] = [w - rate * scale * d for w, d in zip(p[k], g[k])]
worst = max(abs(a - b) for k in p for a, b in zip(p[k], want[k]))
print("largest difference", worst)
sys.exit(worst > 1e-6)
