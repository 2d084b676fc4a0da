"""Link prediction with a GCN encoder; gradients are gathered over edge chunks."""
import logging

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("link")

HP = {"nodes": 400, "blocks": 8, "dim": 32, "chunks": 4, "epochs": 30, "lr": 0.01,
      "clip": 2.0, "seed": 9}


def build(hp):
    g = torch.Generator().manual_seed(hp["seed"])
    block = torch.randint(0, hp["blocks"], (hp["nodes"],), generator=g)
    p = torch.where(block[:, None] == block[None, :], 0.15, 0.004)
    upper = torch.triu(torch.rand(hp["nodes"], hp["nodes"], generator=g) < p, 1)
    edges = upper.nonzero()
    edges = edges[torch.randperm(len(edges), generator=g)]
    cut = int(0.85 * len(edges))
    return edges[:cut], edges[cut:]


def normalized_adjacency(edges, n):
    a = torch.eye(n)
    a[edges[:, 0], edges[:, 1]] = 1.0
    a[edges[:, 1], edges[:, 0]] = 1.0
    inv = a.sum(1).rsqrt()
    return inv[:, None] * a * inv[None, :]


class Encoder(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.feat = nn.Embedding(n, dim)
        self.w1 = nn.Linear(dim, dim)
        self.w2 = nn.Linear(dim, dim)

    def forward(self, adj):
        h = F.relu(adj @ self.w1(self.feat.weight))
        return adj @ self.w2(h)


def edge_loss(z, pos, n):
    neg = torch.randint(0, n, pos.shape)
    s_pos = (z[pos[:, 0]] * z[pos[:, 1]]).sum(-1)
    s_neg = (z[neg[:, 0]] * z[neg[:, 1]]).sum(-1)
    return -(F.logsigmoid(s_pos.float()).mean() + F.logsigmoid(-s_neg.float()).mean())


@torch.no_grad()
def auc(net, adj, pos, n):
    z = net(adj)
    neg = torch.randint(0, n, (1000, 2))
    sp = (z[pos[:, 0]] * z[pos[:, 1]]).sum(-1)
    sn = (z[neg[:, 0]] * z[neg[:, 1]]).sum(-1)
    return (sp[:, None] > sn[None, :]).float().mean().item()


def train_epoch(net, adj, edges, optimizer, scaler, hp):
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    parts = edges[torch.randperm(len(edges))].chunk(hp["chunks"])
    for k, part in enumerate(parts):
        with torch.autocast("cpu", dtype=torch.float16):
            z = net(adj)
            loss = edge_loss(z, part, hp["nodes"]) / len(parts)
        scaler.scale(loss).backward()
        total += loss.item()
        if (k + 1) % 2 == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), hp["clip"])
    scaler.step(optimizer)
    scaler.update()
    return total


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(HP["seed"])
    train_edges, test_edges = build(HP)
    adj = normalized_adjacency(train_edges, HP["nodes"])
    net = Encoder(HP["nodes"], HP["dim"])
    optimizer = torch.optim.Adam(net.parameters(), lr=HP["lr"])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    log.info("edges: %d train, %d test", len(train_edges), len(test_edges))
    for epoch in range(1, HP["epochs"] + 1):
        loss = train_epoch(net, adj, train_edges, optimizer, scaler, HP)
        if epoch % 5 == 0:
            log.info("epoch %d loss %.4f auc %.3f", epoch, loss, auc(net, adj, test_edges, HP["nodes"]))


if __name__ == "__main__":
    main()
