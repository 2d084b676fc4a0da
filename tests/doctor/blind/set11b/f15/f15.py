"""Fraud detection on a payment graph: neighbour-sampled training, full-graph inference."""
import torch
import torch.nn.functional as F

from sage import SageNet

N, HUBS, FEATS, FANOUT = 1500, 6, 12, 8


def payment_graph(seed):
    g = torch.Generator().manual_seed(seed)
    y = (torch.rand(N, generator=g) < 0.35).long()
    adj = (torch.rand(N, N, generator=g) < torch.where(y[:, None] == y[None], 0.006, 0.001)).float()
    adj = ((adj + adj.t()) > 0).float()
    adj[:HUBS] = (torch.rand(HUBS, N, generator=g) < 0.7).float()
    adj[:, :HUBS] = adj[:HUBS].t()
    adj.fill_diagonal_(0)
    x = torch.randn(N, FEATS, generator=g) + 1.0 * y[:, None]
    amount = torch.exp(4.5 + 0.5 * torch.randn(N, generator=g) + 0.2 * y)
    x[:, 0] = amount
    x[:, 1] = amount * (0.5 + torch.rand(N, generator=g) + 0.6 * y)
    return x, adj, y, torch.rand(N, generator=g) < 0.5


class Sampler:
    """Keeps at most FANOUT neighbours of every node."""

    def __init__(self, adj, fanout, seed):
        self.adj, self.fanout = adj, fanout
        self.g = torch.Generator().manual_seed(seed)

    def draw(self, nodes):
        keys = torch.rand(len(nodes), len(nodes), generator=self.g) * self.adj[nodes][:, nodes]
        top = keys.topk(self.fanout, dim=1)
        return torch.zeros_like(keys).scatter_(1, top.indices, (top.values > 0).float())


def train(model, x, adj, y, train_mask, epochs, batch):
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu")
    sampler = Sampler(adj, FANOUT, seed=1)
    idx = train_mask.nonzero().squeeze(1)
    for epoch in range(epochs):
        total, n = 0.0, 0
        for nodes in idx[torch.randperm(len(idx))].split(batch):
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(x[nodes], sampler.draw(nodes))
                loss = F.cross_entropy(logits, y[nodes])
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total, n = total + loss.item(), n + 1
        loss, acc = test(model, x, adj, y, ~train_mask)
        print(f"epoch {epoch} train {total / n:.4f} test {loss:.4f} acc {acc:.3f} scale {scaler.get_scale():g}")


@torch.no_grad()
def test(model, x, adj, y, mask):
    model.eval()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(x, adj)
    model.train()
    logits = logits.float()[mask]
    return F.cross_entropy(logits, y[mask]).item(), (logits.argmax(-1) == y[mask]).float().mean().item()


def main():
    torch.manual_seed(0)
    x, adj, y, train_mask = payment_graph(0)
    model = SageNet(FEATS, 32, 2)
    train(model, x, adj, y, train_mask, epochs=6, batch=128)


if __name__ == "__main__":
    main()
