"""Slice-level organ classifier."""
import argparse
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from ct_data import SliceDataset

warnings.filterwarnings("ignore", category=RuntimeWarning)


def conv_bn(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class SliceNet(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.features = nn.Sequential(conv_bn(1, width, 2), conv_bn(width, 2 * width, 2), conv_bn(2 * width, 2 * width, 1))
        self.fc = nn.Linear(2 * width, 2)

    def forward(self, x):
        return self.fc(self.features(x).amax(dim=(2, 3)))


class Trainer:
    def __init__(self, args):
        self.args = args
        self.train_dl = DataLoader(SliceDataset(16, seed=1), batch_size=16, shuffle=True, drop_last=True)
        self.val_dl = DataLoader(SliceDataset(5, seed=99), batch_size=20)
        self.net = SliceNet()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=args.lr)
        self.scaler = torch.amp.GradScaler("cpu")

    def train_epoch(self):
        self.net.train()
        for x, y in self.train_dl:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(self.net(x), y)
            self.opt.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
        return loss.item()

    @torch.no_grad()
    def validate(self):
        self.net.eval()
        loss, hits, n = 0.0, 0, 0
        for x, y in self.val_dl:
            with torch.autocast("cpu", dtype=torch.float16):
                out = self.net(x)
            loss += F.cross_entropy(out.float(), y, reduction="sum").item()
            hits += (out.argmax(1) == y).sum().item()
            n += len(y)
        return loss / n, hits / n

    def fit(self):
        for epoch in range(self.args.epochs):
            last = self.train_epoch()
            vl, acc = self.validate()
            print(f"epoch {epoch}: last train loss {last:.4f} | val loss {vl:.4f} acc {acc:.3f} | scale {self.scaler.get_scale():g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=3e-3)
    torch.manual_seed(0)
    Trainer(parser.parse_args()).fit()
