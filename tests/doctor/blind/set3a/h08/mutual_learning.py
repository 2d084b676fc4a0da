"""Deep mutual learning: a large and a small network teach one another, each with its own scaler."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from networks import Mixer


def textures(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 6, (n,), generator=g)
    r = torch.arange(16).float()
    fx = (y % 3).float() * 0.6 + 0.4
    fy = (y // 3).float() * 0.9 + 0.3
    ph = torch.rand(n, 1, 1, generator=g) * 6
    x = torch.sin(fx[:, None, None] * r[None, None] + ph) + torch.cos(fy[:, None, None] * r[None, :, None] + ph)
    return x[:, None] + 0.4 * torch.randn(n, 1, 16, 16, generator=g), y


class Peer:
    def __init__(self, name, net, lr, init_scale):
        self.name, self.net = name, net
        self.opt = torch.optim.AdamW(net.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=25)
        self.ema = copy.deepcopy(net).requires_grad_(False)
        self.skips = 0

    def update(self, loss):
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        scale = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.skips += self.scaler.get_scale() < scale
        with torch.no_grad():
            for e, p in zip(self.ema.parameters(), self.net.parameters()):
                e.lerp_(p, 0.1)
        return norm.item()


def main(steps=90):
    torch.manual_seed(5)
    x, y = textures(400, 1)
    xv, yv = textures(120, 2)
    big = Peer("big", Mixer(32, 3, use_checkpoint=True), 2e-3, 2.0 ** 24)
    small = Peer("small", Mixer(16, 1), 4e-3, 2.0 ** 20)
    for s in range(steps):
        idx = torch.randint(0, len(x), (24,))
        with torch.autocast("cpu", dtype=torch.float16):
            a, b = big.net(x[idx]), small.net(x[idx])
            w = 0.5 * min(1.0, s / 30)
            la = F.cross_entropy(a, y[idx]) + w * F.kl_div(a.float().log_softmax(1), b.detach().float().softmax(1), reduction="batchmean")
            lb = F.cross_entropy(b, y[idx]) + w * F.kl_div(b.float().log_softmax(1), a.detach().float().softmax(1), reduction="batchmean")
        na, nb = big.update(la), small.update(lb)
        if s % 15 == 0:
            print(f"{s:3d} big {la.item():.3f} |g| {na:.3f} small {lb.item():.3f} |g| {nb:.3f} skips {big.skips}/{small.skips}")
    for p in (big, small):
        p.ema.eval()
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.float16):
            acc = (p.ema(xv).argmax(1) == yv).float().mean().item()
        print(p.name, f"accuracy {acc:.3f} scale {p.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
