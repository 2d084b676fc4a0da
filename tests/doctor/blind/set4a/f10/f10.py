"""Linear probe and head fine-tuning on a small pretrained backbone.

`pretrain` plays the part of the earlier job: it trains on raw sensor pictures and stores a slim checkpoint.
"""
import argparse
import tempfile
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 5, stride=2, padding=2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return x.flatten(2).amax(-1)


def scans(n, gen):
    """16-bit pictures; the class is the size of the spot."""
    y = torch.randint(4, (n,), generator=gen)
    c = torch.rand(n, 2, generator=gen) * 10 + 7
    ax = torch.arange(24.0)
    d2 = (ax[None, :, None] - c[:, 0, None, None]) ** 2 + (ax[None, None] - c[:, 1, None, None]) ** 2
    sigma = (1.0 + y.float())[:, None, None]
    img = 30000 * torch.exp(-d2 / (2 * sigma**2)) + 700 * torch.randn(n, 24, 24, generator=gen)
    return img[:, None], y


def pretrain(path, gen, steps=25):
    net, head = Backbone(), nn.Linear(24, 4)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=5e-3)
    for _ in range(steps):
        x, y = scans(32, gen)
        loss = F.cross_entropy(head(net(x)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"pretraining ended at {loss.item():.3f}")
    slim = {k: v.half() if v.is_floating_point() else v for k, v in net.state_dict().items()}
    torch.save({"model": slim, "width": 24}, path)


def finetune(path, gen, lr, steps):
    ckpt = torch.load(path)
    net = Backbone(ckpt["width"])
    net.load_state_dict(ckpt["model"])
    net.eval().requires_grad_(False)
    head = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.AdamW(head.parameters(), lr=lr)
    for step in range(steps):
        x, y = scans(32, gen)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.no_grad():
                feats = net(x)
            logits = head(feats)
            loss = F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0 or step == steps - 1:
            acc = (logits.argmax(1) == y).float().mean().item()
            print(f"step {step} loss {loss.item():.4f} acc {acc:.2f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--steps", type=int, default=60)
    a = ap.parse_args()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    file = Path(tempfile.mkdtemp()) / "backbone_slim.pt"
    pretrain(file, g)
    finetune(file, g, a.lr, a.steps)
