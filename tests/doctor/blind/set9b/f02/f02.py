import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lookahead import Lookahead


@dataclass
class Config:
    epochs: int = 5
    batch_size: int = 32
    lr: float = 0.05
    momentum: float = 0.9
    max_norm: float = 2.0
    k: int = 5
    alpha: float = 0.5
    channels: int = 24
    seed: int = 0


class TCNBlock(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(cin, cout, 3, dilation=dilation)
        self.bn = nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1)

    def forward(self, x):
        y = self.conv(F.pad(x, (self.pad, 0)))
        return F.relu(self.bn(y) + self.skip(x))


class TCN(nn.Module):
    def __init__(self, channels, classes=4):
        super().__init__()
        self.body = nn.Sequential(TCNBlock(2, channels, 1), TCNBlock(channels, channels, 2),
                                  TCNBlock(channels, channels, 4))
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(self.body(x).mean(dim=-1))


def make_waves(n, seed):
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=gen)
    t = torch.linspace(0, 6.28, 64)
    freq = (y + 1).float().unsqueeze(1)
    phase = torch.rand(n, 1, generator=gen) * 6.28
    clean = torch.stack([torch.sin(freq * t + phase), torch.cos(freq * t + phase)], dim=1)
    return TensorDataset(clean + 0.3 * torch.randn(clean.shape, generator=gen), y)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.model = TCN(cfg.channels)
        base = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=cfg.momentum)
        self.optimizer = Lookahead(base, k=cfg.k, alpha=cfg.alpha)
        self.scheduler = torch.optim.lr_scheduler.StepLR(base, step_size=3, gamma=0.5)
        self.scaler = torch.amp.GradScaler("cpu", growth_interval=200)
        self.train_loader = DataLoader(make_waves(512, 1), cfg.batch_size, shuffle=True, drop_last=True)
        self.test_loader = DataLoader(make_waves(128, 2), 64)

    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(self.model(x), y, label_smoothing=0.05)
        self.scaler.scale(loss).backward()
        norm = self.clip()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item(), norm

    def clip(self):
        self.scaler.unscale_(self.optimizer.base)
        return nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.max_norm).item()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        hits = sum((self.model(x).argmax(1) == y).sum().item() for x, y in self.test_loader)
        self.model.train()
        return hits / len(self.test_loader.dataset)

    def fit(self):
        for epoch in range(self.cfg.epochs):
            stats = [self.step(x, y) for x, y in self.train_loader]
            self.scheduler.step()
            loss = sum(s[0] for s in stats) / len(stats)
            norm = sum(s[1] for s in stats) / len(stats)
            print(f"[{epoch}] loss={loss:.4f} grad_norm={norm:.3f} acc={self.evaluate():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.05)
    ns = parser.parse_args()
    Trainer(Config(epochs=ns.epochs, lr=ns.lr)).fit()
