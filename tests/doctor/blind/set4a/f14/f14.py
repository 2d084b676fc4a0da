"""Point cloud classification (PointNet style), one epoch function, bfloat16."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def solids(n, points, seed):
    gen = torch.Generator().manual_seed(seed)
    clouds, labels = [], []
    for i in range(n):
        p = torch.randn(points, 3, generator=gen)
        kind = i % 4
        if kind == 0:
            p = F.normalize(p, dim=1)
        elif kind == 1:
            p = p / p.abs().amax(1, keepdim=True)
        elif kind == 2:
            p = torch.cat([F.normalize(p[:, :2], dim=1), p[:, 2:].clamp(-1, 1)], 1)
        else:
            p = p * torch.tensor([1.0, 1.0, 0.05]) * 0.6
        clouds.append(p + 0.01 * torch.randn(points, 3, generator=gen))
        labels.append(kind)
    return TensorDataset(torch.stack(clouds), torch.tensor(labels))


class PointNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.l1 = nn.Linear(3, 32)
        self.l2 = nn.Linear(32, 64)
        self.l3 = nn.Linear(64, 64)
        self.head = nn.Linear(64, classes)

    def forward(self, p):
        h = F.relu(self.l1(p))
        h = F.relu(self.l2(h))
        h = self.l3(h).amax(1)
        return self.head(F.relu(h))


def train_epoch(model, loader, opt):
    model.train()
    losses = []
    for cloud, label in loader:
        opt.zero_grad()
        loss = F.cross_entropy(model(cloud), label)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = sum((model(c).argmax(1) == l).sum().item() for c, l in loader)
    return hits / len(loader.dataset)


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(solids(256, 64, 1), batch_size=16, shuffle=True)
    val_loader = DataLoader(solids(64, 64, 2), batch_size=32)
    model = PointNet()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        for epoch in range(6):
            loss = train_epoch(model, train_loader, opt)
            acc = accuracy(model, val_loader)
            print(f"epoch {epoch}: loss {loss:.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
