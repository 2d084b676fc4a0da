import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

from amp_utils import ScaleController, fmt_scale, grad_norm


class SmallUNet(nn.Module):
    def __init__(self, c=12, classes=3):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.ReLU())
        self.b = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU())
        self.u = nn.ConvTranspose2d(2 * c, c, 2, 2)
        self.o = nn.Sequential(nn.Conv2d(2 * c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, classes, 1))

    def forward(self, x):
        h = self.a(x)
        return self.o(torch.cat([h, self.u(self.b(h)).to(h.dtype)], 1))


def sample(n, size=16):
    yy, xx = torch.meshgrid(torch.arange(float(size)), torch.arange(float(size)), indexing="ij")
    img, lab = torch.zeros(n, size, size), torch.zeros(n, size, size, dtype=torch.long)
    for k in (1, 2):
        c = torch.rand(n, 2, 1, 1) * 10 + 3
        d = (xx - c[:, 0]).abs(), (yy - c[:, 1]).abs()
        m = d[0] ** 2 + d[1] ** 2 < 9 if k == 1 else torch.maximum(*d) < 3
        img, lab = torch.where(m, 0.5 * k, img), torch.where(m, k, lab)
    return (img + 0.1 * torch.randn_like(img))[:, None], lab


def dice(logits, y):
    p = logits.float().softmax(1)
    t = F.one_hot(y, 3).permute(0, 3, 1, 2).float()
    return 1 - ((2 * (p * t).sum((0, 2, 3)) + 1) / ((p + t).sum((0, 2, 3)) + 1)).mean()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=150)
    ap.add_argument("--init-scale", type=float, default=2.0 ** 17)
    args = ap.parse_args()
    torch.manual_seed(9)
    net = SmallUNet()
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=args.init_scale)
    control = ScaleController(scaler)
    for step in range(args.steps):
        x, y = sample(12)
        with torch.autocast("cpu", dtype=torch.float16):
            out = net(x)
            loss = F.cross_entropy(out.float(), y, reduction="none").sum((1, 2)).mean() / 16 + dice(out, y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        control.observe(grad_norm(net.parameters()))
        scaler.step(opt)
        control.update()
        if step % 15 == 0 or step == args.steps - 1:
            print(f"{step:4d} loss {loss.item():.4f} acc {(out.argmax(1) == y).float().mean():.3f} scale {fmt_scale(scaler)}")
