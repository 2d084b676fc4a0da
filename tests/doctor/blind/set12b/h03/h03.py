"""Sparse mixture of experts: an expert may get no rows in a step."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, d, w):
        super().__init__()
        self.a, self.b = nn.Linear(d, w), nn.Linear(w, d)

    def forward(self, x):
        return self.b(F.silu(self.a(x)))


class SparseMoE(nn.Module):
    def __init__(self, d=12, w=24, experts=8):
        super().__init__()
        self.route = nn.Linear(d, experts)
        self.experts = nn.ModuleList(Expert(d, w) for _ in range(experts))

    def forward(self, x):
        score = self.route(x).float()
        best = score.topk(2, -1)
        gate = torch.full_like(score, float("-inf")).scatter(-1, best.indices, best.values).softmax(-1)
        out = torch.zeros_like(x)
        for k, ex in enumerate(self.experts):
            rows = (gate[:, k] > 0).nonzero().squeeze(-1)
            if len(rows) == 0:
                continue
            out = out.index_add(0, rows, (gate[rows, k : k + 1] * ex(x[rows])).to(out.dtype))
        return out


class Net(nn.Module):
    def __init__(self, d=12, classes=5):
        super().__init__()
        self.embed = nn.Linear(6, d)
        for p in self.embed.parameters():
            p.requires_grad_(False)
        self.moe = SparseMoE(d)
        self.head = nn.Linear(d, classes)

    def forward(self, x):
        h = self.embed(x).float()
        return self.head(h + self.moe(h))


def main():
    torch.manual_seed(2)
    centers = torch.randn(5, 6) * 2
    net = Net()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    idle = 0
    for step in range(100):
        y = torch.randint(0, 5, (6,))
        x = centers[y] + 0.5 * torch.randn(6, 6)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x).float(), y)
        loss.backward()
        idle += sum(ex.a.weight.grad is None for ex in net.moe.experts)
        opt.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f} idle experts so far {idle}")
    with torch.no_grad():
        y = torch.randint(0, 5, (200,))
        acc = (net(centers[y] + 0.5 * torch.randn(200, 6)).argmax(-1) == y).float().mean()
    print("acc", round(acc.item(), 3))


main()
