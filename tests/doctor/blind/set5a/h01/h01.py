"""Road-marking segmentation, float16 with an aggressive starting scale."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def scene(g, n=8, size=48):
    img = torch.rand(n, 3, size, size, generator=g) * 0.4
    mask = torch.zeros(n, size, size, dtype=torch.long)
    for b in range(n):
        x0 = int(torch.randint(4, size - 12, (1,), generator=g))
        y0 = int(torch.randint(4, size - 12, (1,), generator=g))
        mask[b, :, x0:x0 + 6] = 1
        mask[b, y0:y0 + 6, :] = 2
        img[b, 0] += 0.6 * (mask[b] == 1)
        img[b, 1] += 0.6 * (mask[b] == 2)
    return img, mask


class FCN(nn.Module):
    def __init__(self, classes=3, w=12):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, w, 3, padding=1, stride=2), nn.BatchNorm2d(w), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(w, w * 2, 3, padding=1, stride=2), nn.BatchNorm2d(w * 2), nn.ReLU())
        self.c = nn.Conv2d(w * 2, w, 1)
        self.head = nn.Conv2d(w * 2, classes, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        u = F.interpolate(self.c(b), size=a.shape[-2:], mode="bilinear", align_corners=False)
        y = self.head(torch.cat([a, u], 1))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    net = FCN()
    opt = torch.optim.Adam(net.parameters(), lr=8e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 45)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 26)
    pool = [scene(g) for _ in range(6)]
    skipped = 0
    for step in range(50):
        x, y = pool[step % len(pool)]
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = net(x)
            loss = F.cross_entropy(logits, y, reduction="none").mean(dim=(1, 2)).sum()
        scaler.scale(loss).backward()
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() < before:
            skipped += 1
        else:
            sched.step()
        if step % 7 == 0:
            acc = (logits.argmax(1) == y).float().mean()
            print(f"step {step:2d} loss {loss.item() / len(x):.4f} pix acc {acc:.3f} scale {scaler.get_scale():.0f}")
    print(f"skipped {skipped} of 50 steps")


if __name__ == "__main__":
    main()
