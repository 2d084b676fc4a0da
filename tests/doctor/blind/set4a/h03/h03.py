"""Tabular risk model: missing cells are NaN in the file, imputed with an indicator; missing targets are masked out."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def survey(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8)).astype(np.float32)
    logit = 1.5 * x[:, 0] - x[:, 1] * x[:, 2] + 0.5 * x[:, 3]
    y = np.stack([logit + 0.1 * rng.normal(size=n), 2 * x[:, 4] + x[:, 0]], 1).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    y[rng.random(y.shape) < 0.3] = np.nan
    return torch.from_numpy(x), torch.from_numpy(y)


class Impute(nn.Module):
    def __init__(self, x):
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(np.nanmean(x.numpy(), 0)))

    def forward(self, x):
        missing = torch.isnan(x)
        filled = torch.where(missing, self.mean.expand_as(x), x)
        return torch.cat([filled, missing.float()], 1)


class RiskModel(nn.Module):
    def __init__(self, x):
        super().__init__()
        self.impute = Impute(x)
        self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x):
        return self.net(self.impute(x))


def masked_mse(pred, target):
    known = ~torch.isnan(target)
    error = (pred - torch.nan_to_num(target)).float() * known
    return error.pow(2).sum() / known.sum().clamp(min=1)


def main():
    torch.manual_seed(0)
    x, y = survey()
    model = RiskModel(x)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(8):
        total, batches = 0.0, 0
        for xb, yb in DataLoader(TensorDataset(x, y), 64, shuffle=True):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = masked_mse(model(xb), yb)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total, batches = total + loss.item(), batches + 1
        print(f"epoch {epoch} mse {total / batches:.4f} raw mean of targets {y.mean().item()}")


if __name__ == "__main__":
    main()
