"""Air-quality imputation + class evaluation; gaps in the record are NaN."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def record(n, seed):
    g = torch.Generator().manual_seed(seed)
    base = torch.randn(n, 3, generator=g)
    x = torch.cat([base, base @ torch.randn(3, 5, generator=torch.Generator().manual_seed(1))], 1)
    x = x + 0.1 * torch.randn(n, 8, generator=g)
    y = x[:, :4].roll(1, 1) * 0.7
    x = x.masked_fill(torch.rand(n, 8, generator=g) < 0.2, float("nan"))
    y = y.masked_fill(torch.rand(n, 4, generator=g) < 0.3, float("nan"))
    return x, y


class Imputer(nn.Module):
    def __init__(self, d=8, out=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * d, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, out))

    def forward(self, x):
        seen = torch.isfinite(x)
        return self.net(torch.cat([torch.nan_to_num(x, nan=0.0), seen.to(x.dtype)], 1))


def masked_mse(pred, target):
    known = ~torch.isnan(target)
    diff = pred.float() - torch.where(known, target, torch.zeros_like(target))
    return (diff.square() * known).sum() / known.sum().clamp(min=1)


@torch.no_grad()
def evaluate(model, x, y, bins=(-9.0, -1.0, 0.0, 1.0, 6.0, 9.0)):
    pred = model(x).float()
    known = ~torch.isnan(y)
    err, ref = (pred - y)[known].abs(), y[known]
    rows = []
    for lo, hi in zip(bins[:-1], bins[1:]):
        sel = (ref >= lo) & (ref < hi)
        rows.append(err[sel].mean().item())
    return rows


torch.manual_seed(0)
loader = DataLoader(TensorDataset(*record(2000, 3)), batch_size=100, shuffle=True)
test_x, test_y = record(400, 5)
model = Imputer()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(5):
    total = 0.0
    for x, y in loader:
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = masked_mse(model(x), y)
        loss.backward()
        opt.step()
        total += loss.item()
    bands = evaluate(model, test_x, test_y)
    print(f"epoch {epoch} mse {total / len(loader):.4f} mae per band", ["%.3f" % b for b in bands])
