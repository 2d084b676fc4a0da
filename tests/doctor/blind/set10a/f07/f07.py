"""DDPM on 16x16 glyphs with an EMA of the weights (bfloat16 autocast)."""
import copy
import dataclasses

import torch
from torch import nn

from diffusion import Denoiser, Schedule


@dataclasses.dataclass
class Config:
    batch: int = 32
    steps: int = 100
    lr: float = 1.2
    momentum: float = 0.9
    warmup: int = 10
    ema: float = 0.98
    log_every: int = 10
    seed: int = 17


def glyphs(n, g):
    """Random strokes on a small canvas, in [-1, 1]."""
    img = -torch.ones(n, 1, 16, 16)
    for i in range(n):
        for _ in range(2):
            r, c = torch.randint(2, 14, (2,), generator=g).tolist()
            if torch.rand(1, generator=g) < 0.5:
                img[i, 0, r, 2:14] = 1.0
            else:
                img[i, 0, 2:14, c] = 1.0
    return img


@torch.no_grad()
def update_ema(ema, net, decay):
    for pe, p in zip(ema.parameters(), net.parameters()):
        pe.lerp_(p, 1 - decay)


def denoising_loss(net, sched, x0, g):
    t = torch.randint(1, sched.steps + 1, (len(x0),), generator=g)
    noise = torch.randn(x0.shape, generator=g)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pred = net(sched.noisy(x0, t, noise), t)
    return nn.functional.mse_loss(pred.float(), noise)


def main():
    cfg = Config()
    print(cfg)
    torch.manual_seed(cfg.seed)
    g = torch.Generator().manual_seed(cfg.seed)
    net, sched = Denoiser(), Schedule()
    ema = copy.deepcopy(net)
    opt = torch.optim.SGD(net.parameters(), lr=cfg.lr, momentum=cfg.momentum)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / cfg.warmup))
    bucket = []
    for step in range(cfg.steps):
        loss = denoising_loss(net, sched, glyphs(cfg.batch, g), g)
        opt.zero_grad()
        loss.backward()
        opt.step()
        warm.step()
        update_ema(ema, net, cfg.ema)
        bucket.append(loss.item())
        if (step + 1) % cfg.log_every == 0:
            with torch.no_grad():
                held = denoising_loss(ema, sched, glyphs(64, g), g)
            print(f"step {step + 1} loss {sum(bucket) / len(bucket):.4f} ema {held:.4f} "
                  f"lr {warm.get_last_lr()[0]:.3g}")
            bucket = []


if __name__ == "__main__":
    main()
