import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class EMA:
    def __init__(self, model, decay=0.95):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.model.state_dict().values(), model.state_dict().values()):
            if e.dtype.is_floating_point:
                e.mul_(self.decay).add_(p, alpha=1 - self.decay)
            else:
                e.copy_(p)


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tok = nn.Sequential(nn.Linear(tokens, tokens * 2), nn.GELU(), nn.Linear(tokens * 2, tokens))
        self.ch = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        x = x + self.tok(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.ch(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, dim=32, tokens=16, n_classes=4):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, 4, stride=4)
        self.blocks = nn.Sequential(MixerBlock(tokens, dim), MixerBlock(tokens, dim))
        self.head = nn.Linear(dim, n_classes)

    def forward(self, x):
        return self.head(self.blocks(self.patch(x).flatten(2).transpose(1, 2)).mean(1))


def gratings(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    ang = y * (3.14159 / 4)
    yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    phase = 6.28 * torch.rand(n, 1, 1, generator=g)
    img = torch.sin(1.2 * (xx * ang.cos()[:, None, None] + yy * ang.sin()[:, None, None]) + phase)
    return TensorDataset((img + 0.7 * torch.randn(img.shape, generator=g))[:, None], y)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--micro", type=int, default=16)
    p.add_argument("--accum", type=int, default=4)
    p.add_argument("--smoothing", type=float, default=0.05)
    args = p.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(gratings(960, 0), args.micro, shuffle=True)
    val = DataLoader(gratings(200, 1), 100)
    model = Mixer()
    ema = EMA(model)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=args.epochs * len(loader) // args.accum + 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 22)

    for epoch in range(args.epochs):
        running = 0.0
        for i, (x, y) in enumerate(loader, 1):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y, label_smoothing=args.smoothing) / args.accum
            scaler.scale(loss).backward()
            running += loss.item() * args.accum
            if i % args.accum:
                continue
            scaler.unscale_(opt)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            old = scaler.get_scale()
            scaler.update()
            opt.zero_grad(set_to_none=True)
            if scaler.get_scale() >= old:
                sched.step()
                ema.update(model)
            else:
                print(f"  step {i} skipped, norm {norm:.1f}, scale now {scaler.get_scale():g}")
        acc = sum((ema.model(x).argmax(1) == y).sum().item() for x, y in val) / 200
        print(f"epoch {epoch} loss {running / len(loader):.4f} ema acc {acc:.3f}")


if __name__ == "__main__":
    main()
