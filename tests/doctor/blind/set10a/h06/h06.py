"""Flow matching on 16x16 rings; unnormalised sum loss with clipping, fp16."""
import torch
from torch import nn

SETTINGS = {"batch": 24, "steps": 150, "lr": 3e-3, "clip": 1.0, "seed": 64}


class Velocity(nn.Module):
    def __init__(self, ch=20):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(2, ch), nn.SiLU(), nn.Linear(ch, 2 * ch))
        self.a = nn.Conv2d(1, ch, 3, padding=1)
        self.b = nn.Conv2d(ch, ch, 3, 2, 1)
        self.c = nn.Conv2d(ch, ch, 3, padding=1)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.d = nn.Conv2d(2 * ch, ch, 3, padding=1)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)
        nn.init.zeros_(self.out.weight)
        self.act = nn.SiLU()

    def forward(self, x, t):
        s1, s2 = self.time(torch.stack([t, (3 * t).cos()], 1))[:, :, None, None].chunk(2, 1)
        h = self.act(self.a(x) + s1)
        m = self.act(self.b(h) + s2)
        m = m + self.act(self.c(m))
        return self.out(self.act(self.d(torch.cat([h, self.up(m)], 1))))


def rings(n, g):
    yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    c = 6 + 3 * torch.rand(n, 2, 1, 1, generator=g)
    r = 3 + 2 * torch.rand(n, 1, 1, generator=g)
    d = ((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2).sqrt() - r
    return (2 * torch.exp(-d * d) - 1)[:, None]


def flow_loss(net, x1, g):
    x0 = torch.randn(x1.shape, generator=g)
    t = torch.rand(len(x1), generator=g)
    xt = torch.lerp(x0, x1, t[:, None, None, None])
    with torch.autocast("cpu", dtype=torch.float16):
        v = net(xt, t)
    return (v.float() - (x1 - x0)).square().sum(dim=(1, 2, 3)).mean()


@torch.no_grad()
def sample(net, n, steps=12):
    x = torch.randn(n, 1, 16, 16)
    for i in range(steps):
        with torch.autocast("cpu", dtype=torch.float16):
            v = net(x, torch.full((n,), i / steps))
        x = x + v.float() / steps
    return x


def main():
    cfg = SETTINGS
    torch.manual_seed(cfg["seed"])
    g = torch.Generator().manual_seed(cfg["seed"])
    net = Velocity()
    opt = torch.optim.AdamW(net.parameters(), lr=cfg["lr"])
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2 * cfg["lr"], total_steps=cfg["steps"])
    scaler = torch.amp.GradScaler("cpu")
    peak = 0.0
    for step in range(cfg["steps"]):
        loss = flow_loss(net, rings(cfg["batch"], g), g)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(net.parameters(), cfg["clip"])
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() >= before:
            sched.step()
            peak = max(peak, norm.item())
        if step % 15 == 0 or step == cfg["steps"] - 1:
            print(f"step {step:3d} loss {loss.item():8.2f} norm {norm:9.2f} peak {peak:9.2f} "
                  f"scale {scaler.get_scale():g}")
    img = sample(net, 32)
    print(f"samples mean {img.mean():.3f} std {img.std():.3f}, "
          f"data mean {rings(256, g).mean():.3f} std {rings(256, g).std():.3f}")


if __name__ == "__main__":
    main()
