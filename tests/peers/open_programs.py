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


def linear_xent(tied):
    x, w = wave((4, 3), 0).requires_grad_(), wave((5, 3) if tied else (3, 5), 1).requires_grad_()
    z = x @ (w.t() if tied else w)
    loss = F.cross_entropy(z, torch.tensor([2, 4, -1, 0]), ignore_index=-1, reduction="none", label_smoothing=0.1)
    total = (torch.tensor([0.5, 2, 1, 1]) * loss).sum()
    total.backward()
    show("linear_xent", total.detach(), 3.5, x.grad, w.grad)


def ctc(name, labels, frames):
    z = wave((2, 4, 3), 0).requires_grad_()
    loss = F.ctc_loss(F.log_softmax(z, 2).transpose(0, 1), torch.tensor(sum(labels, [])), torch.tensor(frames),
                      torch.tensor([len(x) for x in labels]), reduction="sum")
    loss.backward()
    show(name, loss.detach(), 2, z.grad)


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


# ---- whole models, which tests/cluster/test_nn_models.sh trains from the same first weights ----


def u(i, s):
    x = (i * 2654435761 + s * 40503) & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 2246822519 & 0xFFFFFFFF
    x ^= x >> 13
    return x >> 8 & 0xFFFF


def P(i, s):
    return u(i, s) / 65536 * 0.2 - 0.1


def weight(s, scale, *shape, flat=False):
    """[in, out]; element i of a matrix is out * in_count + in, of a table (flat) in the order that it lies in."""
    w = torch.tensor([scale * P(i, s) for i in range(shape[0] * shape[1])])
    return (w.view(shape) if flat else w.view(shape[1], shape[0]).t()).contiguous().requires_grad_()


def train(name, optimizer, loss_of, clip=None, steps=8):
    losses = []
    for t in range(steps):
        optimizer.zero_grad()
        loss = loss_of(t)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_([p for g in optimizer.param_groups for p in g["params"]], clip)
        optimizer.step()
        if t < 4 or t == 7:
            losses.append("%.6f" % loss.item())
    print(name, *losses)


def gpt():
    V, C, H, T, B = 65, 64, 4, 32, 8
    wte, wpe = weight(1, 1, V, C, flat=True), weight(2, 1, T, C, flat=True)
    blocks = [[weight(10 * l + i, s, *d) for i, (s, d) in enumerate(
        [(2, (C, 3 * C)), (2, (C, C)), (2, (C, 4 * C)), (1, (4 * C, C))], 1)] for l in (1, 2)]
    norms = [(torch.ones(C, requires_grad=True), torch.zeros(C, requires_grad=True)) for _ in range(5)]
    tokens, s = [], 0
    for k in range(T * B * 8 + 1):
        tokens.append(s)
        s = (3 * s + 1 + (u(k, 21) if u(k, 21) % 4 == 0 else 0)) % V
    matrices = [wte, wpe] + [w for b in blocks for w in b]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                   {"params": [v for n in norms for v in n], "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.95))

    def loss_of(t):
        at = torch.tensor(tokens[T * B * t:T * B * (t + 1) + 1])
        x, mask = wte[at[:-1].view(B, T)] + wpe, torch.tril(torch.ones(T, T, dtype=torch.bool))
        for i, (qkv, o, f, r) in enumerate(blocks):
            q, k, v = (z.view(B, T, H, C // H).transpose(1, 2)
                       for z in (F.layer_norm(x, (C,), *norms[2 * i]) @ qkv).split(C, 2))
            p = torch.softmax((q @ k.transpose(2, 3) / (C // H) ** 0.5).masked_fill(~mask, -torch.inf), 3)
            x = x + (p @ v).transpose(1, 2).reshape(B, T, C) @ o
            x = x + F.gelu(F.layer_norm(x, (C,), *norms[2 * i + 1]) @ f) @ r
        return F.cross_entropy((F.layer_norm(x, (C,), *norms[4]) @ wte.t()).view(-1, V), at[1:])

    train("gpt", optimizer, loss_of, clip=1.0)


def graphs():
    N = 200
    A = torch.zeros(N, N)
    for i in range(N):
        for j in range(i + 1, N):
            A[i, j] = A[j, i] = float(u(N * i + j, 31) / 65536 < (0.06 if i % 4 == j % 4 else 0.01))
    x = torch.tensor([[5 * P(16 * n + j, 32) + 5 * P(16 * (n % 4) + j, 33) for j in range(16)] for n in range(N)])
    y = torch.arange(40) % 4
    loops = A + torch.eye(N)
    S = loops / torch.sqrt(loops.sum(0).view(1, N) * loops.sum(0).view(N, 1))
    M = A / A.sum(1, keepdim=True).clamp(min=1)
    w = [weight(1, 4, 16, 16), weight(2, 4, 16, 4)]
    b = [torch.zeros(16, requires_grad=True), torch.zeros(4, requires_grad=True)]
    train("gcn", torch.optim.Adam(w + b, lr=0.01), lambda t: F.cross_entropy(
        (S @ (F.relu(S @ (x @ w[0]) + b[0]) @ w[1]) + b[1])[:40], y))
    v = [weight(1, 4, 16, 16), weight(2, 4, 16, 16), weight(3, 4, 16, 4), weight(4, 4, 16, 4)]
    c = [torch.zeros(16, requires_grad=True), torch.zeros(4, requires_grad=True)]

    def sage(t):
        h = F.relu(x @ v[0] + M @ x @ v[1] + c[0])
        return F.cross_entropy((h @ v[2] + M @ h @ v[3] + c[1])[:40], y)

    train("sage", torch.optim.Adam(v + c, lr=0.01), sage)
    near = [[j for j in range(N) if A[i, j] > 0] for i in range(N)]
    v = [weight(1, 4, 16, 16), weight(2, 4, 16, 16), weight(3, 4, 16, 4), weight(4, 4, 16, 4)]
    c = [torch.zeros(16, requires_grad=True), torch.zeros(4, requires_grad=True)]
    rows = torch.cat([x, torch.zeros(1, 16)])  # the last one: of no neighbour

    def draw(of, t, stream):
        return [near[n][u(1000 * t + 3 * i + k, stream) % len(near[n])] if n >= 0 and near[n] else -1
                for i, n in enumerate(of) for k in range(3)]

    def sampled(t):
        own = [(10 * t + i) % 40 for i in range(10)]
        first = draw(own, t, 61)
        second = draw(first, t, 62)
        x1 = rows[first]
        h0 = F.relu(x[own] @ v[0] + x1.view(10, 3, 16).mean(1) @ v[1] + c[0])
        h1 = F.relu(x1 @ v[0] + rows[second].view(30, 3, 16).mean(1) @ v[1] + c[0])
        return F.cross_entropy(h0 @ v[2] + h1.view(10, 3, 16).mean(1) @ v[3] + c[1], torch.tensor(own) % 4)

    train("sampled", torch.optim.Adam(v + c, lr=0.01), sampled)


def experts():
    D, B, K = 16, 64, 4
    gate, head = weight(1, 4, D, K), weight(30, 4, D, 10)
    first = [weight(10 + e, 4, D, 32) for e in range(K)]
    second = [weight(20 + e, 4, 32, D) for e in range(K)]

    def loss_of(t):
        n = [(t * B + b) % 256 for b in range(B)]
        x = torch.tensor([[5 * P(k * D + j, 11) + 5 * P(k % 10 * D + j, 12) for j in range(D)] for k in n])
        share = torch.softmax(x @ gate, 1)
        values, chosen = share.topk(2, 1)
        all_of = torch.stack([F.relu(x @ first[e]) @ second[e] for e in range(K)], 1)
        taken = all_of.gather(1, chosen.unsqueeze(2).expand(B, 2, D))
        z = (x + (taken * (values / values.sum(1, keepdim=True)).unsqueeze(2)).sum(1)) @ head
        routed = F.one_hot(chosen, K).sum(1).double().mean(0) / 2
        return F.cross_entropy(z, torch.tensor([k % 10 for k in n])) + 0.01 * K * (routed * share.mean(0)).sum()

    train("moe", torch.optim.Adam([gate, head] + first + second, lr=0.01), loss_of)


if __name__ == "__main__":
    sequences()
    elements()
    attention()
    linear_xent(False)
    linear_xent(True)
    ctc("ctc", [[1, 2], [1, 1]], [4, 4])
    ctc("frames", [[1], [2, 1]], [2, 3])
    gpt()
    graphs()
    experts()
