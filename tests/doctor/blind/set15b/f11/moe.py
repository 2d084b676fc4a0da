"""Sparse mixture of experts as a surrogate for a 6-parameter beam simulator."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)
torch.set_num_threads(1)


def simulate(n, gen):
    p = torch.rand(n, 6, generator=gen) * 2 - 1
    regime = (p[:, 0] > 0).float() + 2 * (p[:, 1] > 0).float()
    y = torch.stack([
        torch.sin(3 * p[:, 2]) * (regime - 1.5) + p[:, 3] * p[:, 4],
        torch.cos(2 * p[:, 5]) + 0.5 * regime * p[:, 2],
    ], 1)
    return p, y


class Expert(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.up = nn.Linear(d, h)
        self.down = nn.Linear(h, d)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class MoE(nn.Module):
    def __init__(self, d=48, experts=4, top=2):
        super().__init__()
        self.gate = nn.Linear(d, experts)
        self.experts = nn.ModuleList(Expert(d, 2 * d) for _ in range(experts))
        self.top = top

    def forward(self, x):
        prob = torch.softmax(self.gate(x).float(), -1)
        w, idx = prob.topk(self.top, -1)
        w = w / w.sum(-1, keepdim=True)
        weight = torch.zeros_like(prob).scatter(1, idx, w)
        out = sum(weight[:, i:i + 1] * e(x) for i, e in enumerate(self.experts))
        load = (weight > 0).float().mean(0)
        aux = len(self.experts) * (load * prob.mean(0)).sum()
        return x + out, aux


class Surrogate(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.inp = nn.Linear(6, d)
        self.moe = nn.ModuleList(MoE(d) for _ in range(2))
        self.out = nn.Linear(d, 2)

    def forward(self, p):
        h, aux = F.gelu(self.inp(p)), 0.0
        for m in self.moe:
            h, a = m(h)
            aux = aux + a
        return self.out(h), aux


@torch.no_grad()
def evaluate(model, p, y):
    model.eval()
    with torch.autocast("cpu", dtype=torch.float16):
        pred, _ = model(p)
    model.train()
    return F.mse_loss(pred.float(), y).item()


def train(model, p, y, epochs=12, bs=128):
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
    with torch.autocast("cpu", dtype=torch.float16):
        for epoch in range(epochs):
            total = 0.0
            perm = torch.randperm(len(p)).split(bs)
            for idx in perm:
                opt.zero_grad(set_to_none=True)
                pred, aux = model(p[idx])
                loss = F.mse_loss(pred, y[idx]) + 0.01 * aux
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
                total += loss.item()
            sched.step()
            if epoch % 2 == 0:
                wn = sum(q.square().sum() for q in model.parameters()).sqrt().item()
                print(f"epoch {epoch:2d} loss {total / len(perm):.4f} |w| {wn:.2f} lr {sched.get_last_lr()[0]:.1e}")


gen = torch.Generator().manual_seed(1)
p_train, y_train = simulate(2048, gen)
p_val, y_val = simulate(512, gen)
model = Surrogate()
print(f"val mse before {evaluate(model, p_val, y_val):.4f}")
train(model, p_train, y_train)
print(f"val mse after  {evaluate(model, p_val, y_val):.4f}")
