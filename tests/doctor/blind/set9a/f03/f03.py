"""Linear probe / fine-tuning of a small pretrained encoder."""
import argparse
import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

HERE = os.path.dirname(os.path.abspath(__file__))


class Encoder(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.pool = nn.AdaptiveAvgPool2d(4)

    def forward(self, x):
        x = torch.relu(self.bn1(self.stem(x)))
        x = torch.relu(self.bn2(self.conv(x)))
        return self.pool(x).flatten(1)


class Probe(nn.Module):
    def __init__(self, encoder, dim, classes):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, classes))

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            z = self.encoder(x)
        return self.head(z)


def stripes(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(4, (n,), generator=g)
    t = torch.arange(16.0)
    row, col = t[:, None], t[None, :]
    pattern = torch.stack([torch.sin(row).expand(16, 16), torch.sin(col).expand(16, 16),
                           torch.sin(row + col), torch.sin(row - col)])
    noise = 0.6 * torch.randn(n, 16, 16, generator=g)
    x = (pattern[y] + noise) * 40 + 128
    return TensorDataset(x[:, None], y)


def accuracy(model, loader):
    model.eval()
    hit = total = 0
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.float16):
        for x, y in loader:
            hit += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return hit / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--weights", default=os.path.join(HERE, "encoder_fp16.pt"))
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(0)

    encoder = Encoder()
    state = torch.load(args.weights, weights_only=True)
    state = {k: v.float() if v.is_floating_point() else v for k, v in state.items()}
    encoder.load_state_dict(state)
    encoder.requires_grad_(False)
    model = Probe(encoder, 48 * 16, 4)

    optimizer = torch.optim.Adam(model.head.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    train_loader = DataLoader(stripes(512, 1), batch_size=32, shuffle=True)
    test_loader = DataLoader(stripes(256, 2), batch_size=64)

    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = criterion(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            running += loss.item()
        print(f"[{epoch}] loss {running / len(train_loader):.4f} acc {accuracy(model, test_loader):.3f}")


if __name__ == "__main__":
    main()
