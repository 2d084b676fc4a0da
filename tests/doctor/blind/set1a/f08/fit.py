import os
import tempfile

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from prepare import write_export
from readings import Readings


class LoadNet(nn.Module):
    def __init__(self, d=6, h=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(d, h), nn.BatchNorm1d(h), nn.ReLU(),
            nn.Linear(h, h), nn.BatchNorm1d(h), nn.ReLU(),
            nn.Linear(h, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def run_epoch(net, loader, crit, opt=None, scaler=None):
    train = opt is not None
    net.train(train)
    seen, total = 0, 0.0
    with torch.set_grad_enabled(train):
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.float16):
                out = net(x)
            loss = crit(out.float(), y)
            if train:
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            total += loss.item() * len(y)
            seen += len(y)
    return total / seen


def main():
    torch.manual_seed(8)
    path = write_export(os.path.join(tempfile.mkdtemp(), "readings.csv"))
    tr, va = Readings(path, "train"), Readings(path, "val")
    tl = DataLoader(tr, batch_size=32, shuffle=True, num_workers=2, drop_last=True)
    vl = DataLoader(va, batch_size=64)
    net = LoadNet()
    crit = nn.SmoothL1Loss()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 3)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(3):
        a = run_epoch(net, tl, crit, opt, scaler)
        b = run_epoch(net, vl, crit)
        sched.step()
        print(f"epoch {epoch}: train {a:.4f} val {b:.4f}")


if __name__ == "__main__":
    main()
