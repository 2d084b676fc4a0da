"""Transfer a shape classifier to a new set of classes."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def shapes(n, kinds, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, len(kinds), (n,), generator=g)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 20), torch.linspace(-1, 1, 20), indexing="ij")
    imgs = []
    for k in y.tolist():
        cx, cy = (torch.rand(2, generator=g) * 0.6 - 0.3).tolist()
        u, v = (xx - cx).abs(), (yy - cy).abs()
        base = {
            "disk": u * u + v * v < 0.25, "square": torch.maximum(u, v) < 0.45,
            "cross": (u < 0.12) | (v < 0.12), "diamond": u + v < 0.55,
            "ring": (u * u + v * v < 0.36) & (u * u + v * v > 0.15), "bar": v < 0.15,
        }[kinds[k]]
        imgs.append(base.float() + 0.2 * torch.randn(20, 20, generator=g))
    return torch.stack(imgs).unsqueeze(1), y


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12), nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )
        self.head = nn.Linear(96, classes)

    def forward(self, x):
        return self.head(self.features(x))


class Learner:
    def __init__(self, net, lr):
        self.net = net
        self.lr = lr
        self.opt = torch.optim.Adam(net.parameters(), lr=lr)

    def freeze_features(self):
        for p in self.net.features.parameters():
            p.requires_grad = False

    def new_head(self, classes):
        self.net.head = nn.Linear(self.net.head.in_features, classes)

    def fit(self, data, epochs, tag):
        loader = DataLoader(TensorDataset(*data), batch_size=64, shuffle=True)
        for e in range(epochs):
            total = 0.0
            for x, y in loader:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = F.cross_entropy(self.net(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item()
            print(f"{tag} epoch {e}: loss {total / len(loader):.4f}")


def main():
    torch.manual_seed(0)
    learner = Learner(Net(3), lr=3e-3)
    learner.fit(shapes(384, ["disk", "square", "cross"], 1), 3, "source")
    learner.freeze_features()
    learner.new_head(3)
    learner.fit(shapes(384, ["diamond", "ring", "bar"], 2), 5, "target")


if __name__ == "__main__":
    main()
