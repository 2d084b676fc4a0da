import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    image_size: int = 24
    classes: int = 4
    width: int = 24
    batch: int = 32
    steps: int = 60
    lr: float = 2e-3
    seed: int = 3


class ChannelNorm(nn.Module):
    """Normalises every sample over channels and space."""

    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(dim=(1, 2, 3), keepdim=True)
        centred = x - mean
        var = (centred * centred).mean(dim=(1, 2, 3), keepdim=True)
        return centred * torch.rsqrt(var + self.eps) * self.weight + self.bias


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=stride, padding=1)
        self.norm = ChannelNorm(cout)

    def forward(self, x):
        return F.gelu(self.norm(self.conv(x)))


class Classifier(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.stem = nn.Conv2d(3, w, 5, stride=2, padding=2)
        nn.init.kaiming_normal_(self.stem.weight, nonlinearity="relu")
        self.norm = ChannelNorm(w)
        self.blocks = nn.Sequential(Block(w, w, 2), Block(w, 2 * w, 2))
        self.head = nn.Linear(2 * w, cfg.classes)

    def forward(self, x):
        x = F.gelu(self.norm(self.stem(x)))
        x = self.blocks(x)
        return self.head(x.mean(dim=(2, 3)))


class Shapes:
    """uint8 pictures with a bright oriented stripe pattern; the label is the orientation."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(cfg.seed)
        ax = torch.arange(cfg.image_size).float()
        self.yy, self.xx = torch.meshgrid(ax, ax, indexing="ij")

    def batch(self):
        cfg = self.cfg
        y = torch.randint(cfg.classes, (cfg.batch,), generator=self.gen)
        angle = y.float() * math.pi / cfg.classes
        phase = torch.rand(cfg.batch, generator=self.gen) * 6.28
        proj = (
            torch.cos(angle)[:, None, None] * self.xx + torch.sin(angle)[:, None, None] * self.yy
        )
        img = 127 + 120 * torch.sin(proj * 0.9 + phase[:, None, None])
        img = img[:, None].repeat(1, 3, 1, 1) + 8 * torch.randn(
            cfg.batch, 3, cfg.image_size, cfg.image_size, generator=self.gen
        )
        return img.clamp(0, 255).to(torch.uint8), y


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(cfg.seed)
        self.cfg = cfg
        self.data = Shapes(cfg)
        self.model = Classifier(cfg)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)

    def step(self):
        x, y = self.data.batch()
        x = x.float()
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(x)
            loss = F.cross_entropy(logits, y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item(), (logits.argmax(1) == y).float().mean().item()

    def fit(self):
        for i in range(self.cfg.steps):
            loss, acc = self.step()
            if i % 10 == 0 or i == self.cfg.steps - 1:
                print(f"step {i:3d} loss {loss:.4f} acc {acc:.2f}")


if __name__ == "__main__":
    Trainer(Config()).fit()
