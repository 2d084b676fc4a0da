"""Prototype network for few-shot classification of synthetic glyphs."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, out=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
            nn.Flatten(), nn.Linear(128, out),
        )

    def forward(self, x):
        return self.net(x)


class Episodes:
    def __init__(self, n_classes=30, size=12, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.proto = (torch.rand(n_classes, size, size, generator=self.gen) > 0.6).float()

    def draw(self, way=5, shot=3, query=5):
        cls = torch.randperm(len(self.proto), generator=self.gen)[:way]
        base = self.proto[cls].repeat_interleave(shot + query, 0)
        img = base + 0.35 * torch.randn(base.shape, generator=self.gen)
        img = img.view(way, shot + query, 1, *base.shape[1:])
        return img[:, :shot], img[:, shot:]


def episode_loss(net, support, query):
    way, shot = support.shape[:2]
    q = query.shape[1]
    with torch.autocast("cpu", dtype=torch.float16):
        z = net(torch.cat([support.flatten(0, 1), query.flatten(0, 1)]))
    z = z.float()
    centers = z[: way * shot].view(way, shot, -1).mean(1)
    logits = -torch.cdist(z[way * shot:], centers) ** 2
    y = torch.arange(way).repeat_interleave(q)
    return F.cross_entropy(logits, y), (logits.argmax(1) == y).float().mean()


def main():
    torch.manual_seed(0)
    net, data = Encoder(), Episodes()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 26)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=50)
    skipped = 0
    for step in range(60):
        loss, acc = episode_loss(net, *data.draw())
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        old = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() < old:
            skipped += 1
        else:
            sched.step()
        if step < 8 or step % 10 == 9:
            print(f"{step:3d} loss {loss.item():.3f} acc {acc.item():.2f} norm {norm.item():.3g} scale {old:g}")
    print("skipped", skipped)


main()
