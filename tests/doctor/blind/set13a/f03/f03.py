"""Binary segmentation of blobs with a U-Net like network kept in half."""
import torch
import torch.nn as nn


def blobs(n, size, gen):
    ys = torch.arange(size).view(1, size, 1)
    xs = torch.arange(size).view(1, 1, size)
    c = torch.rand(n, 2, generator=gen) * size * 0.6 + size * 0.2
    r = torch.rand(n, generator=gen) * size * 0.15 + size * 0.12
    mask = ((ys - c[:, 0].view(n, 1, 1)) ** 2 + (xs - c[:, 1].view(n, 1, 1)) ** 2 < r.view(n, 1, 1) ** 2).float()
    img = mask * 0.8 + torch.randn(n, size, size, generator=gen) * 0.3
    return img.unsqueeze(1), mask.unsqueeze(1)


class DoubleConv(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.GELU())


class UNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.d1, self.d2 = DoubleConv(1, w), DoubleConv(w, 2 * w)
        self.mid = DoubleConv(2 * w, 2 * w)
        self.u1 = DoubleConv(3 * w, w)
        self.out = nn.Conv2d(w, 1, 1)
        self.pool = nn.AvgPool2d(2)
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x):
        a = self.d1(x)
        b = self.mid(self.d2(self.pool(a)))
        return self.out(self.u1(torch.cat([a, self.up(b)], 1)))


class Learner:
    def __init__(self, net, lr, dtype=torch.float16, loss_scale=128.0):
        self.dtype = dtype
        self.loss_scale = loss_scale
        self.net = net.to(dtype)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.bce = nn.BCEWithLogitsLoss()

    def fit_batch(self, x, y):
        self.net.train()
        logits = self.net(x.to(self.dtype)).float()
        loss = self.bce(logits, y)
        self.opt.zero_grad()
        (loss * self.loss_scale).backward()
        for p in self.net.parameters():
            p.grad.div_(self.loss_scale)
        self.opt.step()
        return loss.item()

    @torch.no_grad()
    def iou(self, x, y):
        self.net.eval()
        pred = self.net(x.to(self.dtype)) > 0
        inter = (pred & (y > 0)).sum().item()
        return inter / max(1, (pred | (y > 0)).sum().item())


if __name__ == "__main__":
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(11)
    x, y = blobs(64, 24, gen)
    vx, vy = blobs(16, 24, gen)
    learner = Learner(UNet(), lr=3e-3)
    for it in range(50):
        j = torch.randperm(64, generator=gen)[:8]
        value = learner.fit_batch(x[j], y[j])
        if it % 10 == 9:
            print(f"iter {it + 1} loss {value:.4f} val IoU {learner.iou(vx, vy):.3f}")
