"""Rotation pretext task; the backbone recomputes its activations to save memory."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Backbone(nn.Module):
    def __init__(self, width=16, recompute=True):
        super().__init__()
        self.recompute = recompute
        self.stem = self.stage(1, width)
        self.body = nn.Sequential(self.stage(width, width), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU())
        self.out_dim = 2 * width

    @staticmethod
    def stage(cin, cout):
        return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU(), nn.MaxPool2d(2))

    def features(self, x):
        return self.body(self.stem(x)).amax(dim=(2, 3))

    def forward(self, x):
        if self.recompute and self.training:
            return checkpoint(self.features, x, use_reentrant=True)
        return self.features(x)


def make_batch(n):
    """Images with a gradient and two blobs whose arrangement fixes the orientation."""
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    off = torch.rand(n, 2, 1, 1) * 0.6 - 0.3
    img = torch.exp(-12 * ((xx - 0.4 - off[:, 0]) ** 2 + (yy + 0.5) ** 2))
    img = img - torch.exp(-12 * ((xx + 0.1 - off[:, 1]) ** 2 + (yy - 0.3) ** 2))
    img = img[:, None] + 0.15 * torch.randn(n, 1, 16, 16)
    k = torch.randint(0, 4, (n,))
    return torch.stack([torch.rot90(v, int(r), (1, 2)) for v, r in zip(img, k)]), k


def accuracy(backbone, head):
    backbone.eval()
    with torch.no_grad():
        x, y = make_batch(256)
        acc = (head(backbone(x)).argmax(1) == y).float().mean().item()
    backbone.train()
    return acc


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=150)
    ap.add_argument("--lr-backbone", type=float, default=2e-3)
    ap.add_argument("--lr-head", type=float, default=5e-3)
    args = ap.parse_args()
    torch.manual_seed(13)
    backbone = Backbone()
    head = nn.Linear(backbone.out_dim, 4)
    opt_b = torch.optim.Adam(backbone.parameters(), lr=args.lr_backbone)
    opt_h = torch.optim.Adam(head.parameters(), lr=args.lr_head)
    for step in range(args.steps):
        x, y = make_batch(48)
        loss = F.cross_entropy(head(backbone(x)), y)
        opt_b.zero_grad()
        opt_h.zero_grad()
        loss.backward()
        opt_b.step()
        opt_h.step()
        if step % 25 == 0 or step == args.steps - 1:
            print(f"step {step:3d} loss {loss.item():.4f} acc {accuracy(backbone, head):.3f}")


if __name__ == "__main__":
    main()
