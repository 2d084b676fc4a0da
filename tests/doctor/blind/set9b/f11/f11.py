import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from audio import KeywordClips


class KeywordNet(nn.Module):
    def __init__(self, n_bins, classes, width=24):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(n_bins, width, 5, stride=2, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 5, stride=2, padding=2), nn.BatchNorm1d(2 * width), nn.ReLU())
        self.attn = nn.Linear(2 * width, 1)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        h = self.conv(x).transpose(1, 2)
        w = F.softmax(self.attn(h), dim=1)
        return self.fc((w * h).sum(dim=1))


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def spec_augment(x, width=3):
    start = random.randint(0, x.shape[1] - width)
    x = x.clone()
    x[:, start: start + width] = x.mean()
    return x


def run(args):
    seed_everything(args.seed)
    train_set = KeywordClips(args.clips, seed=args.seed)
    valid_set = KeywordClips(args.clips // 4, seed=args.seed + 100)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid_set, args.batch_size)
    net = KeywordNet(train_set.n_bins, train_set.classes)
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(train_loader))

    for epoch in range(1, args.epochs + 1):
        net.train()
        running = 0.0
        for clips, labels in train_loader:
            if args.augment:
                clips = torch.stack([spec_augment(c) for c in clips])
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(net(clips), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.item()
        net.eval()
        hits = 0
        with torch.no_grad():
            for clips, labels in valid_loader:
                hits += (net(clips).argmax(1) == labels).sum().item()
        print(f"epoch {epoch} loss {running / len(train_loader):.4f} valid acc {hits / len(valid_set):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--clips", type=int, default=160)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--augment", action="store_true")
    parser.add_argument("--seed", type=int, default=17)
    run(parser.parse_args())
