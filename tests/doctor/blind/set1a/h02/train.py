import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from molecules import Assays


class MultiTask(nn.Module):
    def __init__(self, dim=64, hidden=64, endpoints=5):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.ReLU())
        self.heads = nn.ModuleList([nn.Linear(hidden, 1) for _ in range(endpoints)])

    def forward(self, x):
        h = self.trunk(x)
        return torch.cat([head(h) for head in self.heads], 1)


def masked_loss(pred, target):
    known = ~torch.isnan(target)
    return nn.functional.smooth_l1_loss(pred.float()[known], target[known])


class EarlyStopping:
    def __init__(self, patience=3):
        self.best, self.bad, self.patience = float("inf"), 0, patience
        self.per_task = torch.full((5,), float("inf"))

    def __call__(self, value, tasks):
        self.per_task = torch.minimum(self.per_task, tasks)
        if value < self.best - 1e-4:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


@torch.inference_mode()
def evaluate(model, loader):
    model.eval()
    se, n = torch.zeros(5), torch.zeros(5)
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = model(x).float()
        known = torch.isfinite(y)
        se += torch.where(known, (pred - y.nan_to_num()) ** 2, torch.zeros_like(y)).sum(0)
        n += known.sum(0)
    return se / n


def main():
    torch.manual_seed(0)
    train = DataLoader(Assays(600, 1), batch_size=32, shuffle=True, num_workers=1)
    val = DataLoader(Assays(150, 2), batch_size=75)
    model = MultiTask()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    stop = EarlyStopping()
    for epoch in range(8):
        model.train()
        for x, y in train:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = model(x)
            loss = masked_loss(pred, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        tasks = evaluate(model, val)
        print(f"epoch {epoch} val mse {tasks.mean().item():.4f} best so far {stop.best:.4f} last target row {y[0].tolist()}")
        if stop(tasks.mean().item(), tasks):
            print("early stop")
            break
    print("best per task", [round(v, 4) for v in stop.per_task.tolist()])


if __name__ == "__main__":
    main()
