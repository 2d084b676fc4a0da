import argparse
import copy
import dataclasses

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


@dataclasses.dataclass
class Config:
    sensors: int = 24
    centres: int = 48
    epochs: int = 12
    lr: float = 1e-2
    seed: int = 5
    amp: bool = True


class BoilerLog(Dataset):
    """Readings of two dozen thermocouples (degrees) and the efficiency of the boiler."""

    def __init__(self, cfg, n=512):
        g = torch.Generator().manual_seed(cfg.seed)
        load = torch.rand(n, 3, generator=g)
        mix = torch.rand(3, cfg.sensors, generator=g)
        self.x = 40 + 240 * load @ mix + 4 * torch.randn(n, cfg.sensors, generator=g)
        self.y = torch.sin(3 * load[:, 0]) + load[:, 1] * load[:, 2] - 0.5

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Basis(nn.Module):
    def response(self, d2):
        raise NotImplementedError

    def forward(self, x):
        gap = x.unsqueeze(1) - self.centres.to(x.dtype)
        d2 = gap.square().sum(dim=-1)
        return self.response(d2 * torch.exp(-2 * self.log_width).to(x.dtype))


class LearnedBasis(Basis):
    def __init__(self, samples, count):
        super().__init__()
        pick = torch.randperm(len(samples))[:count]
        self.centres = nn.Parameter(samples[pick].clone())
        spread = torch.cdist(samples, samples[pick]).median()
        self.log_width = nn.Parameter(torch.full((count,), float(spread.log())))


class Gaussian(LearnedBasis):
    def response(self, d2):
        return torch.exp(-d2)


class InverseQuadratic(LearnedBasis):
    def response(self, d2):
        return 1 / (1 + d2)


KINDS = {"gaussian": Gaussian, "iq": InverseQuadratic}


class Calibrated(nn.Module):
    def __init__(self, cfg, samples, kind):
        super().__init__()
        self.calibrate = nn.Linear(cfg.sensors, cfg.sensors)
        with torch.no_grad():
            self.calibrate.weight.copy_(torch.eye(cfg.sensors))
            self.calibrate.bias.zero_()
        self.calibrate.requires_grad_(False)
        self.basis = KINDS[kind](samples, cfg.centres)
        self.head = nn.Linear(cfg.centres, 1)

    def forward(self, x):
        return self.head(self.basis(self.calibrate(x))).squeeze(-1)


class Experiment:
    def __init__(self, cfg, kind):
        torch.manual_seed(cfg.seed)
        self.cfg = cfg
        data = BoilerLog(cfg)
        train, test = random_split(data, [384, 128])
        self.train_loader = DataLoader(train, batch_size=32, shuffle=True)
        self.test_loader = DataLoader(test, batch_size=128)
        self.model = Calibrated(cfg, torch.stack([data[i][0] for i in train.indices]), kind)
        self.opt = torch.optim.Adam([p for p in self.model.parameters() if p.requires_grad], lr=cfg.lr)
        self.scaler = torch.amp.GradScaler("cpu", enabled=cfg.amp)
        self.best, self.best_state = float("inf"), None

    def loss(self, batch):
        x, y = batch
        with torch.autocast("cpu", torch.float16, enabled=self.cfg.amp):
            return nn.functional.mse_loss(self.model(x).float(), y)

    def fit(self):
        for epoch in range(self.cfg.epochs):
            total = 0.0
            for batch in self.train_loader:
                self.opt.zero_grad()
                loss = self.loss(batch)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.opt)
                self.scaler.update()
                total += loss.item()
            score = self.evaluate()
            if score < self.best:
                self.best, self.best_state = score, copy.deepcopy(self.model.state_dict())
            print(f"epoch {epoch:2d}  train {total / len(self.train_loader):.4f}  test {score:.4f}")

    @torch.no_grad()
    def evaluate(self):
        return sum(self.loss(b).item() for b in self.test_loader) / len(self.test_loader)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--basis", choices=KINDS, default="gaussian")
    ap.add_argument("--fp32", action="store_true")
    opts = ap.parse_args()
    exp = Experiment(Config(amp=not opts.fp32), opts.basis)
    exp.fit()
    print(f"best test error {exp.best:.4f} (variance of the target {BoilerLog(exp.cfg).y.var():.4f})")
