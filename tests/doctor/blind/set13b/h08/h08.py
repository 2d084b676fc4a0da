import numpy as np
import torch
import torch.nn as nn

# Clinical table with gaps: lab values are often missing, and so are some of the outcomes.
rng = np.random.default_rng(3)
torch.manual_seed(3)
N, F_IN, OUT = 1500, 8, 3
full = rng.standard_normal((N, F_IN)).astype(np.float32)
w = rng.standard_normal((F_IN, OUT)).astype(np.float32)
outcome = full @ w + 0.1 * rng.standard_normal((N, OUT)).astype(np.float32)
table = full.copy()
table[rng.random((N, F_IN)) < 0.15] = np.nan
outcome[rng.random((N, OUT)) < 0.3] = np.nan
X, Y = torch.from_numpy(table), torch.from_numpy(outcome.astype(np.float32))


class GapNet(nn.Module):
    """Missing entries are replaced by a learned value, and a flag says which they were."""

    def __init__(self):
        super().__init__()
        self.fill = nn.Parameter(torch.zeros(F_IN))
        self.net = nn.Sequential(nn.Linear(2 * F_IN, 64), nn.ReLU(), nn.Linear(64, OUT))

    def forward(self, x):
        gap = torch.isnan(x)
        x = torch.where(gap, self.fill, torch.nan_to_num(x))
        return self.net(torch.cat([x, gap.float()], dim=1))


def partial_mse(pred, y):
    known = ~torch.isnan(y)
    return (pred[known] - y[known]).pow(2).mean()


net = GapNet()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
train, test = slice(0, 1200), slice(1200, N)
for epoch in range(12):
    for idx in torch.randperm(1200).split(40):
        loss = partial_mse(net(X[idx]), Y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        pred = net(X[test])
        per_outcome = (pred - Y[test]).pow(2).nanmean(0)
        base = torch.nanmean(Y[test] ** 2, 0)
    print(f"epoch {epoch} mse {[round(v, 3) for v in per_outcome.tolist()]} of {[round(v, 3) for v in base.tolist()]}")
