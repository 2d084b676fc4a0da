"""Set transformer over variable-length point sets; some sets are empty."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SetAttention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.h = heads
        self.norm = nn.LayerNorm(dim)
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, x, ctx, pad):
        b, n, d = x.shape
        q = self.q(self.norm(x)).view(b, n, self.h, -1).transpose(1, 2)
        k, v = self.kv(ctx).view(b, ctx.shape[1], 2, self.h, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        s = s.masked_fill(pad[:, None, None], float("-inf"))
        a = torch.nan_to_num(s.softmax(-1), nan=0.0)
        return x + self.o((a @ v).transpose(1, 2).reshape(b, n, d))


class SetNet(nn.Module):
    def __init__(self, dim=24, seeds=3, classes=4):
        super().__init__()
        self.lift = nn.Sequential(nn.Linear(2, dim), nn.GELU(), nn.Linear(dim, dim))
        self.seeds = nn.Parameter(torch.randn(1, seeds, dim) * 0.2)
        self.pool = SetAttention(dim)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(seeds * dim, 32), nn.GELU(), nn.Linear(32, classes))

    def forward(self, pts, pad):
        return self.head(self.pool(self.seeds.expand(len(pts), -1, -1), self.lift(pts), pad))


def sample(n, gen, longest=12):
    """class 0: empty set, 1: circle, 2: line, 3: cluster"""
    y = torch.randint(0, 4, (n,), generator=gen)
    pts = torch.zeros(n, longest, 2)
    pad = torch.ones(n, longest, dtype=torch.bool)
    for i, c in enumerate(y.tolist()):
        if c == 0:
            continue
        m = int(torch.randint(5, longest + 1, (1,), generator=gen))
        t = torch.rand(m, generator=gen)
        if c == 1:
            p = torch.stack([(6.28 * t).cos(), (6.28 * t).sin()], -1)
        elif c == 2:
            p = torch.stack([2 * t - 1, 2 * t - 1], -1)
        else:
            p = 0.2 * torch.randn(m, 2, generator=gen)
        pts[i, :m] = p + 0.05 * torch.randn(m, 2, generator=gen)
        pad[i, :m] = False
    return pts, pad, y


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    net = SetNet()
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
    for step in range(80):
        pts, pad, y = sample(32, gen)
        out = net(pts, pad)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 16 == 0 or step == 79:
            print(f"step {step} loss {loss.item():.4f} acc {(out.argmax(1) == y).float().mean().item():.3f}")


main()
