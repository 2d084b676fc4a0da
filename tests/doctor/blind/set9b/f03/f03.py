import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from data import IdentityImages, TripletSampler
from losses import TripletMarginCriterion


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU(), nn.MaxPool2d(2))


class Embedder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.trunk = nn.Sequential(conv_block(1, 16), conv_block(16, 32), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.proj = nn.Linear(128, dim)

    def forward(self, x):
        return self.proj(self.trunk(x))


def recall_at_1(model, dataset):
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        z = model(dataset.images).float()
    d = torch.cdist(z, z)
    d.fill_diagonal_(float("inf"))
    nearest = d.argmin(dim=1)
    model.train()
    return (dataset.labels[nearest] == dataset.labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description="metric learning on identity crops")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--identities", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--margin", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(11)
    dataset = IdentityImages(args.identities)
    loader = DataLoader(TripletSampler(dataset, length=360), batch_size=args.batch_size, shuffle=True)
    model = Embedder()
    criterion = TripletMarginCriterion(args.margin)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, total_iters=10)

    for epoch in range(args.epochs):
        seen, running = 0, 0.0
        for anchor, positive, negative in loader:
            n = anchor.shape[0]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = model(torch.cat([anchor, positive, negative]))
                za, zp, zn = z.split(n)
                loss = criterion(za, zp, zn)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            warmup.step()
            running += loss.item() * n
            seen += n
        print(f"epoch {epoch + 1}/{args.epochs} triplet {running / seen:.4f} "
              f"recall@1 {recall_at_1(model, dataset):.3f}")


if __name__ == "__main__":
    main()
