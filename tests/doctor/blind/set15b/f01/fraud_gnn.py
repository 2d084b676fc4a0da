"""Account-to-account fraud detection, GIN style sum aggregation, full batch."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_num_threads(1)

N, FEAT, HID, EPOCHS = 900, 12, 48, 40
HUBS = 6  # payment processors: nearly every account talks to them


def make_graph():
    adj = torch.zeros(N, N)
    src = torch.randint(0, N, (6000,))
    dst = torch.randint(0, N, (6000,))
    n_tx = torch.distributions.LogNormal(0.5, 0.8).sample((6000,)).ceil()
    adj.index_put_((src, dst), n_tx, accumulate=True)
    hub_tx = torch.distributions.LogNormal(2.0, 0.7).sample((HUBS, N)).ceil()
    adj[:HUBS] += hub_tx
    adj = adj + adj.t()  # undirected, entries = number of transactions
    adj.fill_diagonal_(0)
    return adj


def make_features(adj):
    y = (torch.rand(N) < 0.3).long()
    x = torch.randn(N, FEAT)
    x[:, 0] += 1.5 * y
    x[:, 3] -= 1.0 * y
    x[:, -1] = torch.log1p(adj.sum(1))
    return x, y


class GINLayer(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.lin1 = nn.Linear(d_in, d_out)
        self.lin2 = nn.Linear(d_out, d_out)
        self.norm = nn.LayerNorm(d_out)

    def forward(self, x, adj):
        nb = adj @ x
        h = (1 + self.eps) * x + nb
        h = self.lin2(F.relu(self.lin1(h)))
        return F.relu(self.norm(h.float()))


class FraudNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(FEAT, HID)
        self.layers = nn.ModuleList(GINLayer(HID, HID) for _ in range(2))
        self.jump = nn.Linear(FEAT, HID)
        self.out = nn.Linear(HID, 2)

    def forward(self, x, adj):
        h = F.relu(self.inp(x))
        for layer in self.layers:
            h = layer(h, adj)
        return self.out(h + self.jump(x))


def main():
    adj = make_graph()
    x, y = make_features(adj)
    # money moved matters more than the number of transfers
    value = torch.distributions.LogNormal(3.0, 0.5).sample((N, N))
    adj = adj * value
    perm = torch.randperm(N)
    train, test = perm[:700], perm[700:]

    net = FraudNet()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(EPOCHS):
        net.train()
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = net(x, adj)
            loss = F.cross_entropy(logits[train], y[train])
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if epoch % 5 == 0 or epoch == EPOCHS - 1:
            acc = (logits[test].argmax(-1) == y[test]).float().mean()
            print(f"epoch {epoch:3d} loss {loss.item():.4f} test acc {acc:.3f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
