"""Multi-task tabular regression with missing inputs (indicator columns) and missing targets."""
import numpy as np
import torch
import torch.nn as nn


class Table:
    def __init__(self, n=768, seed=0):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, 8)).astype(np.float32)
        w = rng.normal(size=(8, 3)).astype(np.float32)
        y = np.tanh(x @ w) + 0.05 * rng.normal(size=(n, 3)).astype(np.float32)
        x[rng.random(x.shape) < 0.08] = np.nan
        y[rng.random(y.shape) < 0.30] = np.nan
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y.astype(np.float32))

    def batches(self, size):
        for idx in torch.randperm(len(self.x)).split(size):
            yield self.x[idx], self.y[idx]


class Imputer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fill = nn.Parameter(torch.zeros(d))

    def forward(self, x):
        missing = torch.isnan(x)
        x = torch.where(missing, self.fill, torch.nan_to_num(x))
        return torch.cat([x, missing.float()], dim=1)


class TaskNet(nn.Module):
    def __init__(self, d=8, tasks=3, h=48):
        super().__init__()
        self.imp = Imputer(d)
        self.net = nn.Sequential(nn.Linear(2 * d, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, tasks))

    def forward(self, x):
        return self.net(self.imp(x))


def masked_mse(pred, target):
    known = ~torch.isnan(target)
    return (pred[known] - target[known]).square().mean()


def fit(epochs=10):
    torch.manual_seed(0)
    table = Table()
    net = TaskNet()
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for epoch in range(epochs):
        tot = []
        for x, y in table.batches(64):
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                pred = net(x)
            loss = masked_mse(pred.float(), y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            tot.append(loss.item())
        print(f"epoch {epoch} mse {np.mean(tot):.4f}")


if __name__ == "__main__":
    fit()
