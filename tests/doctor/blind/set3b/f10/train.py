"""Adding problem for a plain recurrent network: two marked numbers of a sequence are summed."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

from guards import bounded_gradients, count_parameters


@bounded_gradients(0.5)
class Recurrent(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.inp = nn.Linear(2, hidden)
        self.rec = nn.Linear(hidden, hidden, bias=False)
        self.out = nn.Linear(hidden, 1)
        with torch.no_grad():
            self.rec.weight.copy_(torch.eye(hidden))

    def forward(self, seq):
        h = torch.zeros(seq.shape[0], self.rec.in_features, dtype=seq.dtype)
        for t in range(seq.shape[1]):
            h = torch.relu(self.inp(seq[:, t]) + self.rec(h))
        return self.out(h).squeeze(-1)


def adding(batch, length, gen):
    value = torch.rand(batch, length, generator=gen)
    mark = torch.zeros(batch, length)
    half = length // 2
    first = torch.randint(0, half, (batch, 1), generator=gen)
    second = torch.randint(half, length, (batch, 1), generator=gen)
    mark.scatter_(1, first, 1.0).scatter_(1, second, 1.0)
    return torch.stack([value, mark], -1), (value * mark).sum(1)


def batches(steps, batch, length, seed):
    gen = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield adding(batch, length, gen)


def train(cfg):
    torch.manual_seed(cfg.seed)
    net = Recurrent(cfg.hidden)
    print(f"{count_parameters(net)} parameters")
    opt = torch.optim.SGD(net.parameters(), lr=cfg.lr, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 13)
    running = None
    for step, (seq, total) in enumerate(batches(cfg.steps, cfg.batch, cfg.length, cfg.seed), 1):
        with torch.autocast("cpu", dtype=torch.float16):
            guess = net(seq)
        loss = F.mse_loss(guess.float(), total)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
        if step % 15 == 0:
            print(f"step {step:4d} mse {running:.4f}")
    return running


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=90)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--length", type=int, default=8)
    ap.add_argument("--hidden", type=int, default=24)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--seed", type=int, default=0)
    final = train(ap.parse_args())
    print(f"final mse {final:.4f} (always guessing 1 gives about 0.167)")
