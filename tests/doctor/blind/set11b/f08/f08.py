"""Node classification with a two-layer GCN on a synthetic citation graph."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

from train_utils import GradClipper, Meter


def citation_graph(n=400, classes=5, feats=32, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    same = y[:, None] == y[None, :]
    prob = torch.where(same, 0.06, 0.006)
    adj = (torch.rand(n, n, generator=g) < prob).float().triu(1)
    adj = adj + adj.t() + torch.eye(n)
    d = adj.sum(1).rsqrt()
    x = 0.6 * torch.randn(classes, feats, generator=g)[y] + torch.randn(n, feats, generator=g)
    return x, d[:, None] * adj * d[None, :], y, torch.rand(n, generator=g) < 0.4


class GCN(nn.Module):
    def __init__(self, feats, hidden, classes, dropout=0.3):
        super().__init__()
        self.l1, self.l2 = nn.Linear(feats, hidden), nn.Linear(hidden, classes)
        self.dropout = dropout

    def forward(self, x, adj):
        h = F.relu(adj @ self.l1(x))
        h = F.dropout(h, self.dropout, self.training)
        return adj @ self.l2(h)


class Runner:
    def __init__(self, args):
        self.args = args
        self.x, self.adj, self.y, self.train_mask = citation_graph(seed=args.seed)
        self.model = GCN(self.x.size(1), args.hidden, int(self.y.max()) + 1)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 80, 0.5)
        self.scaler = torch.amp.GradScaler("cpu", enabled=args.amp)
        self.clip = GradClipper(args.clip)

    def train_epoch(self):
        self.model.train()
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.args.amp):
            z = self.model(self.x, self.adj)
            loss = F.cross_entropy(z[self.train_mask], self.y[self.train_mask])
        self.scaler.scale(loss).backward()
        self.clip(self.model.parameters())
        self.scaler.step(self.opt)
        self.scaler.update()
        self.sched.step()
        return loss.item()

    @torch.inference_mode()
    def test(self):
        self.model.eval()
        pred = self.model(self.x, self.adj).argmax(-1)
        return (pred == self.y)[~self.train_mask].float().mean().item()

    def fit(self):
        meter = Meter()
        for epoch in range(self.args.epochs):
            meter.add(self.train_epoch())
            if epoch % 20 == 19:
                print(f"epoch {epoch + 1:3d} loss {meter.mean:.4f} test {self.test():.3f} "
                      f"lr {self.sched.get_last_lr()[0]:g} scale {self.scaler.get_scale():g}")
                meter = Meter()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=120)
    ap.add_argument("--hidden", type=int, default=32)
    ap.add_argument("--lr", type=float, default=0.1)
    ap.add_argument("--clip", type=float, default=1.0)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    Runner(a).fit()
