"""Metric learning: batch-hard triplets over an embedding of glyph classes."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Sampler, DataLoader, TensorDataset


class PKSampler(Sampler):
    def __init__(self, labels, p, k, batches, seed=0):
        self.groups = {int(c): (labels == c).nonzero().flatten() for c in labels.unique()}
        self.p, self.k, self.batches = p, k, batches
        self.gen = torch.Generator().manual_seed(seed)

    def __len__(self):
        return self.batches

    def __iter__(self):
        names = list(self.groups)
        for _ in range(self.batches):
            out = []
            for c in torch.randperm(len(names), generator=self.gen)[:self.p].tolist():
                g = self.groups[names[c]]
                out += g[torch.randperm(len(g), generator=self.gen)[:self.k]].tolist()
            yield out


def pairwise_distances(x):
    sq = (x * x).sum(1)
    d2 = sq[:, None] - 2.0 * (x @ x.t()) + sq[None, :]
    return d2.clamp(min=0.0).sqrt()


def batch_hard(x, labels, margin=0.3):
    d = pairwise_distances(x)
    same = labels[:, None] == labels[None, :]
    hardest_pos = (d * same.float()).max(1).values
    hardest_neg = (d + 10.0 * same.float()).min(1).values
    spread = d.mean()
    loss = F.softplus(hardest_pos - hardest_neg + margin).mean()
    return loss - 0.01 * spread, (hardest_pos < hardest_neg).float().mean()


class Embedder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.fc = nn.Linear(32 * 9, dim)

    def forward(self, x):
        return F.normalize(self.fc(self.conv(x).flatten(1)), dim=1)


def glyphs(classes=12, per=20):
    g = torch.Generator().manual_seed(9)
    proto = torch.rand(classes, 1, 12, 12, generator=g)
    y = torch.arange(classes).repeat_interleave(per)
    x = proto[y] + 0.5 * torch.randn(len(y), 1, 12, 12, generator=g)
    return x, y


@torch.no_grad()
def recall_at_1(net, x, y):
    net.eval()
    sim = net(x)
    sim = sim @ sim.t()
    sim.fill_diagonal_(-2)
    net.train()
    return (y[sim.argmax(1)] == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = glyphs()
    net = Embedder()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-5)
    loader = DataLoader(TensorDataset(x, y), batch_sampler=PKSampler(y, 6, 4, 12))
    for epoch in range(4):
        for xb, yb in loader:
            loss, acc = batch_hard(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f} triplet acc {acc.item():.3f} R@1 {recall_at_1(net, x, y):.3f}")
