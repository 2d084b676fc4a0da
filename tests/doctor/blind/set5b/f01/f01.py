"""Node classification on a citation-like graph: three message passing layers,
dense adjacency because the graph is small enough."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_NODES, N_CLASSES, DIM = 1500, 5, 32
rng = np.random.default_rng(3)


def citation_graph(n, m=4):
    """Preferential attachment: a few surveys are cited by nearly everybody."""
    src, dst = [], []
    targets = list(range(m))
    repeated = []
    for v in range(m, n):
        for t in set(targets):
            src.append(v)
            dst.append(t)
        repeated.extend(targets)
        repeated.extend([v] * m)
        targets = [repeated[i] for i in rng.integers(0, len(repeated), m)]
        targets[0] = int(rng.integers(0, 12))
    return np.array(src), np.array(dst)


class SumConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.own = nn.Linear(d_in, d_out)
        self.nbr = nn.Linear(d_in, d_out, bias=False)

    def forward(self, h, adj):
        return self.own(h) + adj @ self.nbr(h)


class GraphNet(nn.Module):
    def __init__(self, d_in, width, n_classes):
        super().__init__()
        self.c1 = SumConv(d_in, width)
        self.c2 = SumConv(width, width)
        self.c3 = SumConv(width, width)
        self.out = nn.Linear(width + d_in, n_classes)

    def forward(self, x, adj):
        h = F.relu(self.c1(x, adj))
        h = F.relu(self.c2(h, adj))
        h = F.relu(self.c3(h, adj))
        h = F.layer_norm(h.float(), h.shape[-1:])
        return self.out(torch.cat([h, x], -1))


def main():
    torch.manual_seed(0)
    src, dst = citation_graph(N_NODES)
    labels = rng.integers(0, N_CLASSES, N_NODES)
    centers = rng.normal(size=(N_CLASSES, DIM)) * 3
    feats = centers[labels] + rng.normal(size=(N_NODES, DIM)) + 2.0

    adj = torch.zeros(N_NODES, N_NODES)
    adj[torch.from_numpy(src), torch.from_numpy(dst)] = 1.0
    adj = torch.maximum(adj, adj.t())
    x = torch.from_numpy(feats).float()
    y = torch.from_numpy(labels)
    train = torch.rand(N_NODES) < 0.6

    model = GraphNet(DIM, 32, N_CLASSES)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)

    for epoch in range(25):
        model.train()
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x, adj)
            loss = F.cross_entropy(logits[train], y[train])
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
        if epoch % 4 == 0:
            with torch.no_grad():
                acc = (logits.argmax(-1) == y)[~train].float().mean()
            print(f"epoch {epoch:3d}  loss {loss.item():.4f}  acc {acc:.3f}  scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
