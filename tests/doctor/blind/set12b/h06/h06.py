"""Multi-task assay regression: missing labels are NaN in the table (bf16 weights, fp32 masters)."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Assays(Dataset):
    def __init__(self, n, tasks, w):
        self.x = torch.randn(n, w.size(0))
        y = torch.tanh(self.x @ w)
        y[torch.rand(n, tasks) < 0.4] = float("nan")
        self.y = y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class MasterSGD:
    """Keeps float32 copies and writes them back to the working weights."""

    def __init__(self, model, lr):
        self.work = list(model.parameters())
        self.master = [p.detach().float().clone().requires_grad_(True) for p in self.work]
        self.opt = torch.optim.SGD(self.master, lr=lr, momentum=0.9)

    def step(self):
        for m, p in zip(self.master, self.work):
            m.grad = p.grad.float()
            p.grad = None
        norm = nn.utils.clip_grad_norm_(self.master, 1.0)
        self.opt.step()
        with torch.no_grad():
            for m, p in zip(self.master, self.work):
                p.copy_(m)
        return norm.item()


def masked_mse(pred, target):
    known = ~target.isnan()
    return (pred[known] - target[known]).square().mean()


def main(tasks=5, epochs=6):
    torch.manual_seed(5)
    w = torch.randn(10, tasks) * 0.5
    train, val = Assays(512, tasks, w), Assays(128, tasks, w)
    model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, tasks)).bfloat16()
    opt = MasterSGD(model, lr=0.1)
    for epoch in range(epochs):
        for x, y in DataLoader(train, batch_size=32, shuffle=True):
            loss = masked_mse(model(x.bfloat16()).float(), y)
            loss.backward()
            norm = opt.step()
        with torch.no_grad():
            v = masked_mse(model(val.x.bfloat16()).float(), val.y).item()
        print(f"epoch {epoch} train {loss.item():.4f} val {v:.4f} norm {norm:.3f} "
              f"missing {int(train.y.isnan().sum())}")


main()
