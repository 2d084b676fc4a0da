import argparse
from types import SimpleNamespace

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from schedule import build_scheduler

CONFIG = {
    "data": {"series": 256, "window": 24, "horizon": 4},
    "model": {"hidden": 32, "layers": 1},
    "optim": {"lr": 2.0, "momentum": 0.9, "weight_decay": 1e-5},
    "schedule": {"name": "noam", "d_model": 32, "warmup": 4},
}


def to_ns(d):
    return SimpleNamespace(**{k: to_ns(v) if isinstance(v, dict) else v for k, v in d.items()})


class Load(Dataset):
    def __init__(self, cfg, seed):
        gen = torch.Generator().manual_seed(seed)
        n = cfg.window + cfg.horizon
        t = torch.arange(n).float()
        phase = torch.rand(cfg.series, 1, generator=gen) * 24
        daily = torch.sin((t + phase) * 0.26) + 0.5 * torch.sin((t + phase) * 0.52)
        trend = torch.randn(cfg.series, 1, generator=gen) * 0.05 * t
        self.x = (2.0 * daily + trend + 0.1 * torch.randn(cfg.series, n, generator=gen)).unsqueeze(-1)
        self.window = cfg.window

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i, : self.window], self.x[i, self.window:, 0]


class Forecaster(nn.Module):
    def __init__(self, hidden, horizon):
        super().__init__()
        self.inp = nn.Linear(1, hidden)
        self.rec = nn.Linear(hidden, hidden)
        self.out = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, horizon))

    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.rec.in_features)
        for t in range(x.shape[1]):
            h = torch.relu(self.inp(x[:, t]) + self.rec(h))
        return self.out(h)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = Forecaster(cfg.model.hidden, cfg.data.horizon)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=cfg.optim.lr, momentum=cfg.optim.momentum,
                                         weight_decay=cfg.optim.weight_decay)
        self.scheduler = build_scheduler(self.optimizer, cfg.schedule)
        self.loader = DataLoader(Load(cfg.data, 1), batch_size=32, shuffle=True)
        self.criterion = nn.MSELoss()

    def run_epoch(self):
        self.model.train()
        losses = []
        for x, y in self.loader:
            self.optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            losses.append(loss.item())
        return losses

    def fit(self, epochs):
        for epoch in range(epochs):
            losses = self.run_epoch()
            lr = self.optimizer.param_groups[0]["lr"]
            print(f"epoch {epoch} first {losses[0]:.4g} last {losses[-1]:.4g} lr {lr:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--schedule", default="noam", choices=["noam", "cosine"])
    args = parser.parse_args()
    CONFIG["schedule"]["name"] = args.schedule
    torch.manual_seed(0)
    Trainer(to_ns(CONFIG)).fit(args.epochs)
