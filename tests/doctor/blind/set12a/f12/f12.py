"""Pretrain a little CNN on stripes, then reuse it for a new label set (linear probing)."""
import os
import tempfile
import torch
import torch.nn as nn
import torch.nn.functional as F


def stripes(n, classes, offset, gen):
    y = torch.randint(0, classes, (n,), generator=gen)
    ang = (y.float() / classes + offset) * 3.14159
    yy, xx = torch.meshgrid(torch.arange(12.), torch.arange(12.), indexing="ij")
    phase = 6.28 * torch.rand(n, 1, 1, generator=gen)
    img = torch.sin(1.3 * (xx * ang.cos()[:, None, None] + yy * ang.sin()[:, None, None]) + phase)
    return (img + 0.3 * torch.randn(n, 12, 12, generator=gen))[:, None], y


class CNN(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.head = nn.Linear(128, classes)

    def forward(self, x):
        return self.head(self.features(x))


def evaluate(model, classes, offset, gen):
    model.eval()
    with torch.no_grad():
        x, y = stripes(200, classes, offset, gen)
        return (model(x).argmax(1) == y).float().mean().item()


def fit(model, opt, classes, offset, steps, gen, tag):
    for s in range(steps):
        model.train()
        x, y = stripes(32, classes, offset, gen)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if s % 20 == 0:
            print(f"[{tag}] {s:3d} loss {loss.item():.4f}")
    print(f"[{tag}] accuracy {evaluate(model, classes, offset, gen):.3f}")


def pretrain(path, gen):
    model = CNN(4)
    fit(model, torch.optim.Adam(model.parameters(), lr=3e-3), 4, 0.0, 60, gen, "pretrain")
    torch.save(model.state_dict(), path)


def probe(path, gen, classes=3):
    model = CNN(4)
    model.load_state_dict(torch.load(path))
    for p in model.features.parameters():
        p.requires_grad_(False)
    opt = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    model.head = nn.Linear(model.head.in_features, classes)
    fit(model, opt, classes, 0.1, 80, gen, "probe")


if __name__ == "__main__":
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "base.pt")
        pretrain(path, gen)
        probe(path, gen)
