"""Face-verification style training: multi-positive contrastive loss where pairs
that must not count are -inf before the log-sum-exp."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PEOPLE, SHOTS, DIM = 24, 12, 48


def gallery(seed=0):
    g = torch.Generator().manual_seed(seed)
    who = torch.arange(PEOPLE).repeat_interleave(SHOTS)
    base = torch.randn(PEOPLE, DIM, generator=g)
    x = base[who] + 1.2 * torch.randn(PEOPLE * SHOTS, DIM, generator=g)
    return x, who


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(DIM, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 32))
        self.logit_scale = nn.Parameter(torch.tensor(2.3))

    def forward(self, x):
        return F.normalize(self.f(x).float(), dim=-1)


def multi_positive_loss(z, who, scale):
    sim = z @ z.t() * scale
    n = len(z)
    self_pair = torch.eye(n, dtype=torch.bool)
    positive = (who[:, None] == who[None]) & ~self_pair
    everything = sim.float().masked_fill(self_pair, float("-inf")).logsumexp(1)
    has = positive.any(1)
    pos = sim.float()[has].masked_fill(~positive[has], float("-inf")).logsumexp(1)
    return (everything[has] - pos).sum() / has.sum().clamp(min=1)


def retrieval(net, x, who):
    net.eval()
    with torch.no_grad():
        z = net(x)
        sim = (z @ z.t()).fill_diagonal_(float("-inf"))
    net.train()
    return (who[sim.argmax(1)] == who).float().mean().item()


def main():
    torch.manual_seed(0)
    x, who = gallery()
    net = Net()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for step in range(100):
        idx = torch.randperm(len(x))[:48]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = net(x[idx] + 0.3 * torch.randn(len(idx), DIM))
            loss = multi_positive_loss(z, who[idx], net.logit_scale.exp().clamp(max=50))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"{step:3d} loss {loss.item():.4f} top-1 {retrieval(net, x, who):.3f}")
    print(f"end top-1 {retrieval(net, x, who):.3f}")


if __name__ == "__main__":
    main()
