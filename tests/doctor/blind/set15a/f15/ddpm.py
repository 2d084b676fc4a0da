"""Small denoising diffusion model, conditioned on log-SNR, with EMA weights."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineSchedule(nn.Module):
    def __init__(self, T=1000, s=0.008):
        super().__init__()
        f = torch.cos((torch.arange(T + 1, dtype=torch.float64) / T + s) / (1 + s) * math.pi / 2) ** 2
        betas = (1 - f[1:] / f[:-1]).clamp(max=0.999)
        abar = torch.cumprod(1 - betas, 0)
        self.T = T
        # the tables live on the device next to the half precision activations
        self.register_buffer("abar", abar.half())

    def noise(self, x0, t, eps):
        a = self.abar[t].view(-1, 1, 1, 1)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps

    def log_snr(self, t):
        a = self.abar[t]
        return torch.log(a) - torch.log(1 - a)


class Res(nn.Module):
    def __init__(self, i, o, emb):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(4, i), nn.Conv2d(i, o, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
        self.e = nn.Linear(emb, o)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, emb):
        h = self.c1(F.silu(self.n1(x))) + self.e(emb)[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class UNet(nn.Module):
    def __init__(self, ch=16, emb=32):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, emb), nn.SiLU(), nn.Linear(emb, emb), nn.SiLU())
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.d1, self.d2 = Res(ch, ch, emb), Res(ch, 2 * ch, emb)
        self.mid = Res(2 * ch, 2 * ch, emb)
        self.u1 = Res(3 * ch, ch, emb)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, lam):
        e = self.time(lam[:, None] / 10)
        a = self.d1(self.inp(x), e)
        b = self.mid(self.d2(F.avg_pool2d(a, 2), e), e)
        return self.out(self.u1(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1), e))


def digits(n, size=16):
    x = torch.full((n, 1, size, size), -1.0)
    for i in range(n):
        p, q = torch.randint(2, size - 4, (2,)).tolist()
        x[i, 0, p:p + 2] = 1.0
        x[i, 0, :, q:q + 2] = 1.0
    return x


@torch.no_grad()
def update_ema(ema, net, decay=0.98):
    for p, q in zip(ema.parameters(), net.parameters()):
        p.lerp_(q, 1 - decay)


def main(seed=0, steps=60, batch=16):
    torch.manual_seed(seed)
    schedule, net = CosineSchedule(), UNet()
    ema = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    avg = None
    for step in range(steps):
        x0 = digits(batch)
        t = torch.randint(0, schedule.T, (batch,))
        eps = torch.randn_like(x0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = net(schedule.noise(x0, t, eps), schedule.log_snr(t))
            loss = F.mse_loss(pred.float(), eps)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        update_ema(ema, net)
        avg = loss.item() if avg is None else 0.9 * avg + 0.1 * loss.item()
        if step % 6 == 0:
            w = sum(p.norm() for p in ema.parameters()).item()
            print(f"step {step:3d} loss {loss.item():.4f} avg {avg:.4f} ema weights {w:.2f}")


if __name__ == "__main__":
    main()
