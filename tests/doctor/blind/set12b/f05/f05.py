"""Node classification on a random block graph with a two-layer GCN."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def block_graph(sizes=(40, 40, 40), p_in=0.09, p_out=0.005):
    label = torch.cat([torch.full((s,), k) for k, s in enumerate(sizes)])
    same = label[:, None] == label[None]
    prob = torch.where(same, p_in, p_out)
    up = torch.triu((torch.rand_like(prob) < prob).float(), 1)
    adj = up + up.t()
    feat = torch.randn(len(label), 16) + F.one_hot(label, 16).float() * 0.7
    return adj, feat, label


def propagate_matrix(adj):
    deg = adj.sum(1)
    inv = deg.pow(-0.5)
    return inv[:, None] * adj * inv[None, :]


class GCN(nn.Module):
    def __init__(self, n_in, n_hid, n_out, drop=0.3):
        super().__init__()
        self.l1 = nn.Linear(n_in, n_hid)
        self.l2 = nn.Linear(n_hid, n_out)
        self.skip = nn.Linear(n_in, n_hid)
        self.drop = drop

    def forward(self, a, x):
        h = F.relu(a @ self.l1(x) + self.skip(x))
        h = F.dropout(h, self.drop, self.training)
        return a @ self.l2(h) + h.mean(-1, keepdim=True)


def accuracy(model, a, x, y, idx):
    model.eval()
    with torch.no_grad():
        hit = (model(a, x).argmax(-1) == y)[idx]
    model.train()
    return hit.float().mean().item()


def main():
    torch.manual_seed(5)
    adj, x, y = block_graph()
    print("edges", int(adj.sum()) // 2, "smallest degree", int(adj.sum(1).min()))
    a = propagate_matrix(adj)
    order = torch.randperm(len(y))
    tr, te = order[:60], order[60:]
    model = GCN(16, 32, 3)
    opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(40):
        opt.zero_grad()
        out = model(a, x)
        loss = F.cross_entropy(out[tr], y[tr])
        loss.backward()
        opt.step()
        if epoch % 10 == 0:
            print(f"{epoch:3d} loss {loss.item():.4f} test {accuracy(model, a, x, y, te):.3f}")


main()
