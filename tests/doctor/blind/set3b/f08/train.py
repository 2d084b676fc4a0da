import argparse
import itertools
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from gauges import GaugeWindows, write_archive


class LevelForecaster(nn.Module):
    def __init__(self, features=3, hidden=16):
        super().__init__()
        self.cell = nn.GRUCell(features, hidden)
        self.read = nn.Linear(hidden, 1)
        self.hidden = hidden

    def forward(self, x):
        h = x.new_zeros(len(x), self.hidden)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return x[:, -1, 0] + self.read(h).squeeze(-1)


def endless(loader):
    while True:
        yield from loader


def train(args, model, loader):
    opt = torch.optim.RMSprop(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    window = []
    for step, (x, target) in enumerate(itertools.islice(endless(loader), args.steps), 1):
        with torch.autocast("cpu", dtype=torch.float16):
            forecast = model(x)
            loss = F.mse_loss(forecast, target)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
        window.append(loss.item())
        if step % 6 == 0:
            print(f"{step:4d} mse {sum(window) / len(window):.5f} scale {scaler.get_scale():.0f}")
            window.clear()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=36)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        data = GaugeWindows(write_archive(folder))
        loader = DataLoader(data, batch_size=16, num_workers=1, drop_last=True)
        train(args, LevelForecaster(), loader)
