"""Credit default model: an MLP over a handful of engineered columns."""
import os
import sys
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "f06"))
import features

warnings.filterwarnings("ignore")


class MLP(nn.Module):
    def __init__(self, d_in, hidden=64, p=0.1):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(d_in, hidden), nn.LayerNorm(hidden), nn.SiLU(), nn.Dropout(p),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Trainer:
    def __init__(self, model, lr=1e-3, amp=True):
        self.model = model
        self.amp = amp
        self.optim = torch.optim.AdamW(model.parameters(), lr=lr)
        self.criterion = nn.BCEWithLogitsLoss()

    def run_epoch(self, loader):
        self.model.train()
        total = 0.0
        for xb, yb in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.amp):
                loss = self.criterion(self.model(xb), yb)
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
            total += loss.item()
        return total / len(loader)

    @torch.no_grad()
    def accuracy(self, x, y):
        self.model.eval()
        return ((self.model(x) > 0).float() == y).float().mean().item()


def main():
    torch.manual_seed(0)
    table, target = features.synthesize(6000)
    x = features.build(table)
    (xt, yt), (xv, yv) = features.split(x, target)
    train = TensorDataset(torch.from_numpy(xt), torch.from_numpy(yt))
    loader = DataLoader(train, batch_size=64, shuffle=True)
    trainer = Trainer(MLP(x.shape[1]))
    for epoch in range(3):
        loss = trainer.run_epoch(loader)
        acc = trainer.accuracy(torch.from_numpy(xv), torch.from_numpy(yv))
        print(f"epoch {epoch}: train loss {loss:.4f}  val acc {acc:.3f}")


if __name__ == "__main__":
    main()
