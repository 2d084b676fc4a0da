"""Node classification with mean aggregation on a citation-like graph."""
import logging
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("gnn")


@dataclass
class Config:
    nodes: int = 600
    feats: int = 48
    hidden: int = 64
    classes: int = 5
    p_in: float = 0.03
    p_out: float = 0.002
    isolated: int = 12
    epochs: int = 60
    lr: float = 5e-3
    seed: int = 11


def make_graph(cfg):
    g = torch.Generator().manual_seed(cfg.seed)
    y = torch.randint(0, cfg.classes, (cfg.nodes,), generator=g)
    same = y[:, None] == y[None, :]
    prob = torch.where(same, cfg.p_in, cfg.p_out)
    a = (torch.rand(cfg.nodes, cfg.nodes, generator=g) < prob).float()
    a = torch.triu(a, 1)
    a = a + a.t()
    lonely = torch.randperm(cfg.nodes, generator=g)[:cfg.isolated]
    a[lonely] = 0
    a[:, lonely] = 0
    proto = torch.randn(cfg.classes, cfg.feats, generator=g) * 0.5
    x = proto[y] + torch.randn(cfg.nodes, cfg.feats, generator=g)
    train = torch.rand(cfg.nodes, generator=g) < 0.5
    return x, a, y, train


class SageLayer(nn.Module):
    def __init__(self, n_in, n_out, eps=1e-8):
        super().__init__()
        self.own = nn.Linear(n_in, n_out)
        self.nbr = nn.Linear(n_in, n_out, bias=False)
        self.gate = nn.Linear(n_in, 1)
        self.eps = eps

    def forward(self, x, adj):
        weight = torch.sigmoid(self.gate(x))
        total = torch.matmul(adj, weight)
        message = torch.matmul(adj, self.nbr(x) * weight)
        message = message / (total + self.eps)
        return self.own(x) + message


class Sage(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.l1 = SageLayer(cfg.feats, cfg.hidden)
        self.l2 = SageLayer(cfg.hidden, cfg.classes)
        self.drop = nn.Dropout(0.3)

    def forward(self, x, adj):
        h = self.drop(F.relu(self.l1(x, adj)))
        return self.l2(h, adj)


def evaluate(net, x, adj, y, mask):
    net.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        out = net(x, adj)
    return (out.argmax(1)[mask] == y[mask]).float().mean().item()


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    cfg = Config()
    torch.manual_seed(cfg.seed)
    x, adj, y, train = make_graph(cfg)
    net = Sage(cfg)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr, weight_decay=1e-4)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    for epoch in range(cfg.epochs):
        net.train()
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = net(x, adj)
            loss = F.cross_entropy(out[train], y[train])
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if epoch % 10 == 9:
            acc = evaluate(net, x, adj, y, ~train)
            log.info("epoch %3d loss %.4f held-out acc %.3f", epoch + 1, loss.item(), acc)


if __name__ == "__main__":
    main()
