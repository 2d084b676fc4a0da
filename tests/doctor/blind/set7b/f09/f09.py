"""Learn the one-step map of a damped, driven pendulum with a residual MLP (large-batch recipe)."""
import torch
import torch.nn as nn

BASE_LR = 0.05
BASE_BATCH = 16


def simulate(n, dt=0.1, gen=None):
    q = (torch.rand(n, generator=gen) * 2 - 1) * 2.5
    p = (torch.rand(n, generator=gen) * 2 - 1) * 2.0
    drive = torch.rand(n, generator=gen) * 2 - 1
    state = torch.stack([q, p, drive], 1)
    for _ in range(5):
        p = p + dt / 5 * (-torch.sin(q) - 0.1 * p + drive)
        q = q + dt / 5 * p
    target = (torch.stack([q, p], 1) - state[:, :2]) / dt
    return state, target


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a = nn.Linear(d, d)
        self.b = nn.Linear(d, d)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


class StepModel(nn.Module):
    def __init__(self, d=64, depth=3):
        super().__init__()
        self.inp = nn.Linear(3, d)
        self.blocks = nn.Sequential(*[Block(d) for _ in range(depth)])
        self.out = nn.Linear(d, 2)

    def forward(self, s):
        return self.out(self.blocks(self.inp(s)))


def scaled_lr(batch_size):
    return BASE_LR * batch_size / BASE_BATCH


def main(batch_size=256, steps=60):
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(7)
    model = StepModel()
    opt = torch.optim.SGD(model.parameters(), lr=scaled_lr(batch_size), momentum=0.9)
    for step in range(steps):
        s, target = simulate(batch_size, gen=gen)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = model(s)
        loss = nn.functional.mse_loss(pred.float(), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0:
            print(f"step {step:3d} loss {loss.item():.4g}")


if __name__ == "__main__":
    main()
