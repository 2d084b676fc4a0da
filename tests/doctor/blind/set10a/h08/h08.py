"""Monocular depth from rendered scenes, trained on disparity with a log-depth metric."""
import os
import tempfile

import torch
from torch import nn

from scenes import render, to_disparity


class DepthNet(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        def conv(i, o, s=1):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.BatchNorm2d(o), nn.ReLU())
        self.e1, self.e2, self.e3 = conv(3, ch), conv(ch, 2 * ch, 2), conv(2 * ch, 2 * ch, 2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.d2, self.d1 = conv(4 * ch, ch), conv(2 * ch, ch)
        self.out = nn.Conv2d(ch, 1, 1)

    def forward(self, img):
        b, _, h, w = img.shape
        row = torch.linspace(-1, 1, h).view(1, 1, h, 1).expand(b, 1, h, w)
        col = torch.linspace(-1, 1, w).view(1, 1, 1, w).expand(b, 1, h, w)
        a = self.e1(torch.cat([img, row, col], 1))
        m = self.e2(a)
        t = self.e3(m)
        m = self.d2(torch.cat([m, self.up(t)], 1))
        return self.out(self.d1(torch.cat([a, self.up(m)], 1))).squeeze(1)


def log_depth_error(disp, depth):
    """Computed on surfaces only; predictions of no disparity count as far away."""
    pred = (1.0 / disp.clamp(min=0)).clamp(max=100.0)
    err = (pred.log() - depth.log()).abs()
    return err[torch.isfinite(depth)].mean().item()


class Fit:
    def __init__(self, steps, lr=2e-2):
        self.net = DepthNet()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=lr, momentum=0.9, nesterov=True)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, 6 * lr, total_steps=steps)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 18)

    def step(self, img, depth):
        target = to_disparity(depth)
        with torch.autocast("cpu", dtype=torch.float16):
            disp = self.net(img)
        loss = nn.functional.smooth_l1_loss(disp.float(), target, beta=0.1)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        if self.scaler.get_scale() >= before:
            self.sched.step()
        return loss.item()

    @torch.no_grad()
    def validate(self, img, depth):
        self.net.eval()
        with torch.autocast("cpu", dtype=torch.float16):
            disp = self.net(img).float()
        self.net.train()
        return log_depth_error(disp, depth)


def main(steps=90):
    torch.manual_seed(37)
    g = torch.Generator().manual_seed(37)
    held = render(32, torch.Generator().manual_seed(38))
    print("sky share", round(torch.isinf(held[1]).float().mean().item(), 3))
    fit, best = Fit(steps), float("inf")
    with tempfile.TemporaryDirectory() as tmp:
        for i in range(steps):
            loss = fit.step(*render(8, g))
            if i % 10 == 9:
                err = fit.validate(*held)
                if err < best:
                    best = err
                    torch.save(fit.net.state_dict(), os.path.join(tmp, "best.pt"))
                print(f"step {i + 1:3d} loss {loss:.4f} log-depth {err:.4f} best {best:.4f} "
                      f"lr {fit.sched.get_last_lr()[0]:.3f} scale {fit.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
