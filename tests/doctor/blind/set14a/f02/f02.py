import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from data import TileDataset

torch.manual_seed(1)
EPOCHS, TAU = 6, 0.2


class Encoder(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, dim, 3, padding=1, bias=False), nn.ReLU())

    def forward(self, x):
        return self.body(x).mean(dim=(2, 3))


def augment(x):
    x = torch.roll(x, shifts=(int(torch.randint(0, 16, ())), int(torch.randint(0, 16, ()))), dims=(2, 3))
    flip = torch.rand(x.shape[0], 1, 1, 1) < 0.5
    x = torch.where(flip, x.flip(3), x)
    return x + 0.1 * torch.randn_like(x)


def nt_xent(a, b):
    z = F.normalize(torch.cat([a, b]), dim=1)
    sim = z @ z.t() / TAU
    n = a.shape[0]
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    target = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(sim, target)


class FeatureBank:
    """Keeps the embeddings of a data set in half precision for the kNN probe."""

    def __init__(self):
        self.feats, self.labels = [], []

    def add(self, f, y):
        self.feats.append(F.normalize(f.half(), dim=1))
        self.labels.append(y)

    def tensors(self):
        return torch.cat(self.feats), torch.cat(self.labels)


@torch.no_grad()
def knn_probe(encoder, bank_loader, query_loader, k=9, classes=4):
    encoder.eval()
    bank, query = FeatureBank(), FeatureBank()
    for x, y in bank_loader:
        bank.add(encoder(x), y)
    for x, y in query_loader:
        query.add(encoder(x), y)
    bf, by = bank.tensors()
    qf, qy = query.tensors()
    sim = qf.float() @ bf.float().t()
    w, idx = sim.topk(k, dim=1)
    w = torch.exp(w / 0.1)
    votes = torch.zeros(len(qf), classes).scatter_add_(1, by[idx], w)
    prob = votes / votes.sum(1, keepdim=True)
    nll = F.nll_loss(prob.clamp_min(1e-6).log(), qy)
    encoder.train()
    return (prob.argmax(1) == qy).float().mean().item(), nll.item()


train, test = TileDataset(512, seed=0), TileDataset(192, seed=1)
loader = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
bank_loader, query_loader = DataLoader(train, batch_size=128), DataLoader(test, batch_size=96)

encoder, head = Encoder(), nn.Sequential(nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 24))
opt = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=2e-3)
for epoch in range(EPOCHS):
    total = 0.0
    for x, _ in loader:
        a, b = head(encoder(augment(x))), head(encoder(augment(x)))
        loss = nt_xent(a, b)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.item()
    acc, nll = knn_probe(encoder, bank_loader, query_loader)
    print(f"epoch {epoch}: ntxent {total / len(loader):.3f}  knn acc {acc:.3f}  knn nll {nll:.3f}")
