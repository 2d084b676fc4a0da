import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from data import ToneClips


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class ToneNet(nn.Module):
    def __init__(self, n_classes=4):
        super().__init__()
        self.input_norm = nn.BatchNorm2d(1)
        self.features = nn.Sequential(block(1, 8), block(8, 16), block(16, 32))
        self.fc = nn.Linear(32, n_classes)

    def forward(self, x):
        x = self.features(self.input_norm(x))
        return self.fc(x.mean((2, 3)))


def evaluate(model, loader):
    model.eval()
    loss = correct = n = 0
    with torch.no_grad():
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.float16):
                out = model(x)
            loss += F.cross_entropy(out.float(), y, reduction="sum").item()
            correct += (out.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, correct / n


def main():
    parser = argparse.ArgumentParser(description="tone classifier")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.manual_seed(0)

    train_loader = DataLoader(ToneClips(320, seed=0), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(ToneClips(80, seed=1, silent_lead=0.0), batch_size=40)
    model = ToneNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    scaler = torch.amp.GradScaler("cpu")

    for epoch in range(args.epochs):
        model.train()
        for step, (x, y) in enumerate(train_loader):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if step % 10 == 0:
                print(f"  epoch {epoch} step {step} loss {loss.item():.4f}")
        scheduler.step()
        val_loss, acc = evaluate(model, test_loader)
        print(f"epoch {epoch} val loss {val_loss:.4f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
