"""Gradient accumulation over uneven micro batches, clipping, EMA weights for evaluation."""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


class Ema:
    def __init__(self, model, decay=0.98):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay, self.n = decay, 0

    @torch.no_grad()
    def update(self, model):
        self.n += 1
        d = min(self.decay, self.n / (self.n + 9))
        for e, p in zip(self.module.state_dict().values(), model.state_dict().values()):
            if e.dtype.is_floating_point:
                e.lerp_(p, 1 - d)
            else:
                e.copy_(p)


def spirals(n, g):
    t = torch.rand(n, generator=g) * 3 + 0.3
    y = torch.randint(2, (n,), generator=g)
    a = 2 * t + 3.14159 * y
    return torch.stack([t * a.cos(), t * a.sin()], 1) + 0.05 * torch.randn(n, 2, generator=g), y


def main(accumulate=4, updates=150):
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    ema = Ema(model)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, s / 10))
    scaler = torch.amp.GradScaler("cpu")
    for u in range(updates):
        opt.zero_grad(set_to_none=True)
        sizes = torch.randint(8, 40, (accumulate,), generator=g).tolist()
        seen = 0.0
        for n in sizes:
            x, y = spirals(n, g)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y, reduction="sum") / sum(sizes)
            scaler.scale(loss).backward()
            seen += loss.item()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() >= before:
            warm.step()
            ema.update(model)
        if u % 30 == 0 or u == updates - 1:
            x, y = spirals(400, g)
            acc = (ema.module(x).argmax(1) == y).float().mean().item()
            print(f"update {u} loss {seen:.4f} norm {norm.item():.3f} ema accuracy {acc:.3f}")


main()
