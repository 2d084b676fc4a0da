"""Noise-prediction training of a small diffusion model on 2D blobs."""
import dataclasses
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from amp_utils import MixedPrecision


@dataclasses.dataclass
class Settings:
    timesteps: int = 100
    iters: int = 80
    batch: int = 16
    size: int = 8
    lr: float = 3e-3
    ema: float = 0.9
    opt_level: str = "O1"
    loss_scale: float = 2.0 ** 30
    max_norm: float = 1.0


def cosine_alphas(t, s=0.008):
    u = torch.linspace(0, 1, t + 1)
    f = torch.cos((u + s) / (1 + s) * math.pi / 2) ** 2
    return (f / f[0])[1:].clamp(1e-4, 0.9999)


def time_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half).float() / half)
    arg = t.float()[:, None] * freqs
    return torch.cat([arg.sin(), arg.cos()], dim=1)


class Denoiser(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.temb = nn.Sequential(nn.Linear(16, w), nn.SiLU(), nn.Linear(w, w))
        self.inp = nn.Conv2d(1, w, 3, padding=1)
        self.mid = nn.Conv2d(w, w, 3, padding=1)
        self.out = nn.Conv2d(w, 1, 3, padding=1)

    def forward(self, x, t):
        h = F.silu(self.inp(x) + self.temb(time_embedding(t, 16))[:, :, None, None])
        return self.out(h + F.silu(self.mid(h)))


def sample_x0(n, size, g):
    t = torch.linspace(-1, 1, size)
    c = torch.rand(n, 2, generator=g) - 0.5
    r2 = (t[None, :, None] - c[:, 0, None, None]) ** 2 + (t[None, None, :] - c[:, 1, None, None]) ** 2
    return (2 * torch.exp(-r2 / 0.2) - 1)[:, None]


@torch.no_grad()
def ema_update(shadow, model, decay):
    for s, p in zip(shadow.parameters(), model.parameters()):
        s.lerp_(p, 1 - decay)


def main():
    cfg = Settings()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    model, shadow = Denoiser(), Denoiser()
    shadow.load_state_dict(model.state_dict())
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    amp = MixedPrecision(cfg.opt_level, cfg.loss_scale)
    abar = cosine_alphas(cfg.timesteps)
    acc = []
    for it in range(1, cfg.iters + 1):
        x0 = sample_x0(cfg.batch, cfg.size, g)
        t = torch.randint(0, cfg.timesteps, (cfg.batch,), generator=g)
        eps = torch.randn(x0.shape, generator=g)
        a = abar[t][:, None, None, None]
        xt = a.sqrt() * x0 + (1 - a).sqrt() * eps
        with amp.context():
            loss = F.mse_loss(model(xt, t), eps)
        norm = amp.optimize(loss, opt, model.parameters(), cfg.max_norm)
        ema_update(shadow, model, cfg.ema)
        acc.append(loss.item())
        if it % 10 == 0:
            print(f"{it:3d} loss {sum(acc) / len(acc):.4f} grad norm {float(norm):.3g} scale {amp.scaler.get_scale():g}")
            acc = []


if __name__ == "__main__":
    main()
