"""Matrix factorisation with item vectors that come from a co-occurrence SVD."""
import torch
import torch.nn as nn
import torch.nn.functional as F

USERS, ITEMS, DIM = 80, 120, 8


def interactions(n, g):
    u_true = torch.randn(USERS, 4, generator=g)
    i_true = torch.randn(ITEMS, 4, generator=g)
    u = torch.randint(0, USERS, (n,), generator=g)
    i = torch.randint(0, ITEMS, (n,), generator=g)
    p = torch.sigmoid(2.0 * (u_true[u] * i_true[i]).sum(1))
    return u, i, torch.bernoulli(p, generator=g)


def svd_vectors(u, i, y):
    """Start values, small so that the model begins near to indifference."""
    m = torch.zeros(USERS, ITEMS)
    m.index_put_((u[:400], i[:400]), y[:400] - 0.5)
    left, s, right = torch.linalg.svd(m, full_matrices=False)
    return 0.1 * left[:, :DIM], 0.1 * right[:DIM].t().contiguous()


class MF(nn.Module):
    def __init__(self, users, items):
        super().__init__()
        self.user = nn.Embedding.from_pretrained(users)
        self.item = nn.Embedding.from_pretrained(items)
        self.bias = nn.Parameter(torch.zeros(1))
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, u, i):
        return self.gain * (self.user(u) * self.item(i)).sum(1) + self.bias


def main():
    torch.manual_seed(9)
    g = torch.Generator().manual_seed(9)
    u, i, y = interactions(8000, g)
    model = MF(*svd_vectors(u, i, y))
    tables = [model.user.weight, model.item.weight]
    opt_tables = torch.optim.Adagrad(tables, lr=0.2)
    opt_rest = torch.optim.Adam([model.bias, model.gain], lr=1e-3)
    cut = 6400
    for epoch in range(6):
        order = torch.randperm(cut, generator=g)
        for idx in order.split(128):
            loss = F.binary_cross_entropy_with_logits(model(u[idx], i[idx]), y[idx])
            for o in (opt_tables, opt_rest):
                o.zero_grad()
            loss.backward()
            for o in (opt_tables, opt_rest):
                o.step()
        with torch.no_grad():
            out = model(u[cut:], i[cut:])
            bce = F.binary_cross_entropy_with_logits(out, y[cut:]).item()
            acc = ((out > 0).float() == y[cut:]).float().mean().item()
        print(f"epoch {epoch} train {loss.item():.4f} valid {bce:.4f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
