"""A vector-field model rolled out over a trajectory (neural ODE, Euler steps)."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def spirals(n, steps, seed):
    g = torch.Generator().manual_seed(seed)
    state = torch.randn(n, 2, generator=g) * 1.5
    turn = torch.tensor([[-0.08, 1.2], [-1.2, -0.08]])
    path = [state]
    for _ in range(steps):
        state = state + 0.1 * state @ turn
        path.append(state)
    return torch.stack(path, 1)


class Field(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.inp = nn.Linear(2, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 2)

    def forward(self, x):
        h = nn.functional.relu(self.inp(x))
        h = h + nn.functional.relu(self.mid(h))
        return self.out(h)


class Rollout(nn.Module):
    def __init__(self, field, dt=0.1):
        super().__init__()
        self.field, self.dt = field, dt

    def forward(self, x0, steps):
        x, out = x0, []
        for _ in range(steps):
            x = x + self.dt * self.field(x).float()
            out.append(x)
        return torch.stack(out, 1)


def warmup(step, warm):
    return min(1.0, (step + 1) / warm)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--steps", type=int, default=12)
    ap.add_argument("--hidden", type=int, default=48)
    ap.add_argument("--lr", type=float, default=1.6)
    ap.add_argument("--warmup", type=int, default=60)
    ap.add_argument("--momentum", type=float, default=0.9)
    args = ap.parse_args()
    torch.manual_seed(0)

    path = spirals(512, args.steps, 1)
    loader = DataLoader(TensorDataset(path), batch_size=32, shuffle=True)
    model = Rollout(Field(args.hidden))
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: warmup(s, args.warmup))

    step = 0
    for epoch in range(args.epochs):
        for (batch,) in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = model(batch[:, 0], args.steps)
            loss = (pred - batch[:, 1:]).pow(2).mean()
            loss.backward()
            opt.step()
            sched.step()
            if step % 8 == 0:
                print(f"epoch {epoch} step {step:3d} lr {sched.get_last_lr()[0]:.3f} loss {loss.item():.4g}")
            step += 1


if __name__ == "__main__":
    main()
