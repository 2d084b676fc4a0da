import argparse
import copy
import tempfile
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class EmbeddingNet(nn.Module):
    def __init__(self, in_dim=32, hidden=128, out_dim=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(in_dim, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
        )
        self.head = nn.Linear(hidden, out_dim)

    def forward(self, x):
        return self.head(self.body(x))


class ProxyLoss(nn.Module):
    def __init__(self, classes, dim, temperature=0.1):
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(classes, dim))
        self.temperature = temperature

    def forward(self, emb, labels):
        emb = F.normalize(emb.float(), dim=-1)
        prox = F.normalize(self.proxies, dim=-1)
        return F.cross_entropy(emb @ prox.t() / self.temperature, labels)


class MetricTrainer:
    def __init__(self, args, train_set, val_set):
        self.args = args
        self.loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True,
                                 generator=torch.Generator().manual_seed(args.seed))
        self.val_set = val_set
        self.model = EmbeddingNet()
        self.criterion = ProxyLoss(args.classes, 128)
        params = list(self.model.parameters()) + list(self.criterion.parameters())
        self.opt = torch.optim.Adam(params, lr=args.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
        self.best = -1.0
        self.workdir = Path(tempfile.mkdtemp())

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.loader:
            self.opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                emb = self.model(x)
                loss = self.criterion(emb, y)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
            total += loss.item()
        return total / len(self.loader)

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        x, y = self.val_set.tensors
        with torch.autocast("cpu", dtype=torch.float16):
            emb = self.model(x)
            sq = emb.pow(2).sum(dim=1)
            dist = sq[:, None] + sq[None, :] - 2 * emb @ emb.t()
        dist.fill_diagonal_(float("inf"))
        nearest = dist.argmin(dim=1)
        recall = (y[nearest] == y).float().mean().item()
        intra = dist[(y[:, None] == y[None, :]) & ~torch.eye(len(y), dtype=torch.bool)].float().mean().item()
        return recall, intra

    def fit(self):
        for epoch in range(self.args.epochs):
            loss = self.train_epoch()
            recall, intra = self.evaluate()
            print(f"epoch {epoch}: loss {loss:.4f}  recall@1 {recall:.3f}  intra-class distance {intra:.1f}")
            if recall > self.best:
                self.best = recall
                torch.save(copy.deepcopy(self.model.state_dict()), self.workdir / "best.pt")
        print(f"best recall@1 {self.best:.3f}")


def make_data(classes, per_class, gen, centers):
    xs, ys = [], []
    for c in range(classes):
        xs.append(centers[c] + 0.9 * torch.randn(per_class, centers.shape[1], generator=gen))
        ys.append(torch.full((per_class,), c))
    return TensorDataset(250 * torch.cat(xs), torch.cat(ys))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--classes", type=int, default=12)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    centers = torch.randn(args.classes, 32, generator=gen)
    train_set = make_data(args.classes, 60, gen, centers)
    val_set = make_data(args.classes, 15, gen, centers)
    MetricTrainer(args, train_set, val_set).fit()


if __name__ == "__main__":
    main()
