"""Point cloud classification with local (radius) attention. Shapes: sphere, cube, plane, line."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from point_attention import LocalAttention

CFG = dict(points=48, dim=32, layers=2, radius=1.1, batch=16, iters=80, lr=3e-3, log_every=10)


def sample_shape(kind, n, g):
    u = torch.randn(n, 3, generator=g)
    if kind == 0:
        pts = F.normalize(u, dim=1)
    elif kind == 1:
        pts = u / u.abs().max(dim=1, keepdim=True).values
    elif kind == 2:
        pts = (torch.rand(n, 3, generator=g) * 2 - 1) * torch.tensor([1.0, 1.0, 0.02])
    else:
        pts = (torch.rand(n, 3, generator=g) * 2 - 1) * torch.tensor([1.0, 0.05, 0.05])
    return pts


def batch(n_clouds, g):
    labels = torch.randint(0, 4, (n_clouds,), generator=g)
    clouds = torch.stack([sample_shape(int(k), CFG["points"], g) for k in labels])
    if torch.rand(1, generator=g).item() < 0.5:
        stray = torch.randint(0, n_clouds, (1,), generator=g)
        clouds[stray, 0] = torch.tensor([2.2, -1.9, 2.4])
    jitter = 0.02 * torch.randn(clouds.shape, generator=g)
    return clouds + jitter, labels


class PointNetLite(nn.Module):
    def __init__(self, dim, layers, radius):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3, dim), nn.GELU(), nn.Linear(dim, dim))
        self.blocks = nn.ModuleList([LocalAttention(dim, radius) for _ in range(layers)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4))

    def forward(self, xyz):
        h = self.embed(xyz)
        for blk in self.blocks:
            h = blk(xyz, h)
        return self.head(h.amax(dim=1))


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(5)
    model = PointNetLite(CFG["dim"], CFG["layers"], CFG["radius"])
    opt = torch.optim.AdamW(model.parameters(), lr=CFG["lr"], weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: 0.5 * (1 + math.cos(math.pi * i / CFG["iters"])))
    scaler = torch.amp.GradScaler("cpu")
    running, skipped = 0.0, 0
    for it in range(CFG["iters"]):
        xyz, y = batch(CFG["batch"], g)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(xyz)
            loss = F.cross_entropy(logits, y, label_smoothing=0.05)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() < before:
            skipped += 1
        else:
            sched.step()
        running += loss.item()
        if (it + 1) % CFG["log_every"] == 0:
            print(f"iter {it + 1} loss {running / CFG['log_every']:.4f} skipped {skipped} scale {scaler.get_scale():g}")
            running = 0.0


if __name__ == "__main__":
    main()
