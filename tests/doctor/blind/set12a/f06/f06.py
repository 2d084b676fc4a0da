"""Dense graph attention network for node labels on a small citation-like graph."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def planted_graph(n=60, blocks=3, p_in=0.25, p_out=0.02, seed=4):
    g = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % blocks
    same = label[:, None] == label[None, :]
    prob = torch.where(same, torch.tensor(p_in), torch.tensor(p_out))
    upper = torch.triu(torch.rand(n, n, generator=g) < prob, diagonal=1)
    adj = upper | upper.t()
    # the newest paper of the crawl
    adj[n - 1, :] = False
    adj[:, n - 1] = False
    feats = torch.randn(n, 12, generator=g) + F.one_hot(label, 12).float()
    return feats, adj, label


class GATLayer(nn.Module):
    def __init__(self, din, dout, heads):
        super().__init__()
        self.w = nn.Linear(din, heads * dout, bias=False)
        self.src = nn.Parameter(torch.randn(heads, dout) * 0.1)
        self.dst = nn.Parameter(torch.randn(heads, dout) * 0.1)
        self.heads, self.dout = heads, dout

    def forward(self, x, adj):
        h = self.w(x).view(-1, self.heads, self.dout)
        e = (h * self.src).sum(-1)[:, None] + (h * self.dst).sum(-1)[None, :]
        e = F.leaky_relu(e, 0.2)
        e = e.masked_fill(~adj[..., None], float("-inf"))
        a = torch.softmax(e, dim=1)
        out = torch.einsum("ijh,jhd->ihd", a, h)
        return out.reshape(x.size(0), -1)


class GAT(nn.Module):
    def __init__(self, din, hidden, classes, heads=4):
        super().__init__()
        self.g1 = GATLayer(din, hidden, heads)
        self.g2 = GATLayer(hidden * heads, classes, 1)
        self.drop = nn.Dropout(0.2)

    def forward(self, x, adj):
        return self.g2(self.drop(F.elu(self.g1(x, adj))), adj)


def accuracy(model, x, adj, y, idx):
    model.eval()
    with torch.no_grad():
        return (model(x, adj)[idx].argmax(1) == y[idx]).float().mean().item()


def main():
    torch.manual_seed(0)
    x, adj, y = planted_graph()
    perm = torch.randperm(len(y))
    train, val = perm[:40], perm[40:]
    model = GAT(x.size(1), 8, 3)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    for epoch in range(80):
        model.train()
        logits = model(x, adj)
        loss = F.cross_entropy(logits[train], y[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 10 == 0:
            print(f"epoch {epoch:3d} loss {loss.item():.4f} train {accuracy(model, x, adj, y, train):.2f} "
                  f"val {accuracy(model, x, adj, y, val):.2f}")


if __name__ == "__main__":
    main()
