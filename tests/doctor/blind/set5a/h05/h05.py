"""Image denoiser: checkpointed residual blocks, gradient accumulation, EMA weights, resume."""
import copy
import io
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n = nn.GroupNorm(4, c)
        self.c1, self.c2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        nn.init.zeros_(self.c2.weight)

    def forward(self, x):
        return x + self.c2(F.silu(self.c1(self.n(x))))


class Denoiser(nn.Module):
    def __init__(self, c=12, blocks=3):
        super().__init__()
        self.stem = nn.Conv2d(2, c, 3, padding=1)
        self.blocks = nn.ModuleList(ResBlock(c) for _ in range(blocks))
        self.out = nn.Conv2d(c, 1, 3, padding=1)
        nn.init.zeros_(self.out.weight)

    def forward(self, x, level):
        h = self.stem(torch.cat([x, level.log()[:, None, None, None].expand_as(x) / 4], 1))
        for b in self.blocks:
            h = checkpoint(b, h, use_reentrant=False) if self.training else b(h)
        return self.out(h)


class EMA:
    def __init__(self, model, decay=0.9):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for a, b in zip(self.model.parameters(), model.parameters()):
            a.lerp_(b, 1 - self.decay)


def clean(n, g, s=16):
    f = torch.rand(n, 1, 1, generator=g) * 0.5 + 0.2
    d = torch.rand(n, 1, 1, generator=g) * 6.28
    yy, xx = torch.meshgrid(torch.arange(s), torch.arange(s), indexing="ij")
    return torch.sin(f * (xx * d.cos() + yy * d.sin()) + d).unsqueeze(1)


class Run:
    def __init__(self):
        self.model = Denoiser()
        self.ema = EMA(self.model)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=4e-3)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda s: min(1.0, (s + 1) / 5))
        self.scaler = torch.amp.GradScaler("cpu", growth_interval=40)

    def state(self):
        return {k: getattr(self, k).state_dict() for k in ("model", "opt", "sched", "scaler")}

    def load(self, state):
        for k, v in state.items():
            getattr(self, k).load_state_dict(v)

    def loss(self, g, n=8):
        x = clean(n, g)
        level = torch.exp(torch.empty(n).uniform_(-4, 0.5, generator=g))
        noise = torch.randn(x.shape, generator=g)
        noisy = x + noise * level[:, None, None, None]
        with torch.autocast("cpu", dtype=torch.float16):
            pred = self.model(noisy / (1 + level ** 2).sqrt()[:, None, None, None], level)
        w = (1 / level).clamp(max=5.0)
        return (w[:, None, None, None] * (pred.float() - x) ** 2).mean()

    def step(self, g, accum=2):
        total = 0.0
        for _ in range(accum):
            loss = self.loss(g) / accum
            self.scaler.scale(loss).backward()
            total += loss.item()
        self.scaler.unscale_(self.opt)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad(set_to_none=True)
        if self.scaler.get_scale() >= before:
            self.sched.step()
            self.ema.update(self.model)
        return total, norm.item()


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(5)
    run = Run()
    for s in range(30):
        if s == 15:
            buf = io.BytesIO()
            torch.save(run.state(), buf)
            buf.seek(0)
            ema = run.ema
            run = Run()
            run.load(torch.load(buf))
            run.ema = ema
        loss, norm = run.step(g)
        if s % 5 == 0 or s == 29:
            print(f"step {s:2d} loss {loss:.4f} norm {norm:.3f} scale {run.scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
