"""Sparse mixture of experts for a synthetic regression, with recomputation in the
experts and gradient accumulation."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Expert(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(d, hidden), nn.Linear(hidden, d)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class MoE(nn.Module):
    def __init__(self, d=16, hidden=32, experts=6):
        super().__init__()
        self.router = nn.Linear(d, experts)
        self.experts = nn.ModuleList(Expert(d, hidden) for _ in range(experts))

    def forward(self, x):
        scores = self.router(x).float()
        masked = scores.masked_fill(scores < scores.topk(2, dim=-1).values[:, -1:], float("-inf"))
        gate = masked.softmax(-1)
        out = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            rows = gate[:, k].nonzero().squeeze(-1)
            if rows.numel() == 0:
                continue
            y = checkpoint(expert, x[rows], use_reentrant=False)
            out = out.index_add(0, rows, y.float() * gate[rows, k, None])
        share = (gate > 0).float().mean(0)
        balance = (share * scores.softmax(-1).mean(0)).sum() * len(self.experts)
        confidence = torch.stack([gate[gate[:, k] > 0, k].mean() for k in range(len(self.experts))])
        return out, balance, confidence.detach()


class Model(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.inp = nn.Linear(6, d)
        self.moe = MoE(d)
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        h = self.inp(x).float()
        y, balance, conf = self.moe(h)
        return self.out(self.norm(h + y)).squeeze(-1), balance, conf


def teacher(x):
    region = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    table = torch.stack([x[:, 2], -x[:, 3], x[:, 4] + x[:, 5], x[:, 2] * x[:, 3]], 1)
    return table.gather(1, region[:, None]).squeeze(1)


def main():
    torch.manual_seed(3)
    model = Model()
    opt = torch.optim.AdamW(model.parameters(), lr=6e-3)
    scaler = torch.amp.GradScaler("cpu")
    accumulate, micro = 4, 16
    for step in range(90):
        opt.zero_grad(set_to_none=True)
        for _ in range(accumulate):
            x = torch.randn(micro, 6)
            with torch.autocast("cpu", dtype=torch.float16):
                pred, balance, conf = model(x)
                task = F.mse_loss(pred.float(), teacher(x))
                loss = (task + 0.01 * balance) / accumulate
            scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if step % 15 == 0:
            print(f"step {step:3d} task {task.item():.4f} gate per expert",
                  " ".join(f"{c:.2f}" for c in conf.tolist()))
    with torch.no_grad():
        x = torch.randn(500, 6)
        print(f"test mse {F.mse_loss(model(x)[0], teacher(x)).item():.4f}")


if __name__ == "__main__":
    main()
