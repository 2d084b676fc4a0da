import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F


class Waves(torch.utils.data.IterableDataset):
    def __init__(self, seed, length):
        self.seed, self.length = seed, length

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        while True:
            freq = 0.2 + torch.rand(2, generator=g)
            phase = 6.28 * torch.rand(1, generator=g)
            t = torch.arange(self.length + 1) * 0.4
            x = torch.sin(freq[0] * t + phase) + 0.5 * torch.sin(freq[1] * 2 * t)
            yield x[:-1, None], x[1:, None]


class Forecast(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.rnn = nn.GRU(1, dim, batch_first=True)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h.float())


class Guarded:
    """Attaches what is done to each gradient as soon as autograd has it."""

    def __init__(self, limit):
        self.limit = limit
        self.handles = []

    def attach(self, module):
        for p in module.parameters():
            self.handles.append(p.register_post_accumulate_grad_hook(self.bound))
        return module

    def bound(self, p):
        p.grad.clamp_(-self.limit, self.limit)

    def detach(self):
        for h in self.handles:
            h.remove()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--limit", type=float, default=1.0)
    ap.add_argument("--lr", type=float, default=0.3)
    ap.add_argument("--fp32", action="store_true")
    args = ap.parse_args()

    torch.manual_seed(31)
    loader = torch.utils.data.DataLoader(Waves(4, 40), batch_size=16)
    guard = Guarded(args.limit)
    model = guard.attach(Forecast())
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 0.5 * (1 + math.cos(math.pi * s / args.steps)))
    scaler = torch.amp.GradScaler("cpu", init_scale=8192.0, enabled=not args.fp32)
    recent = []
    for step, (x, y) in zip(range(args.steps), loader):
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16, enabled=not args.fp32):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        sched.step()
        recent = (recent + [loss.item()])[-10:]
        if step % 10 == 9:
            print(f"{step + 1:3d}: {sum(recent) / len(recent):.5f}")
    guard.detach()


if __name__ == "__main__":
    main()
