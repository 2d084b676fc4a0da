import argparse
import math
import sys
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, LENGTH, BOS = 12, 8, 0


class Policy(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, VOCAB)
        self.start = nn.Linear(4, dim)

    def step(self, token, state):
        state = self.rnn(self.tok(token), state)
        return self.head(state), state

    @torch.no_grad()
    def sample(self, prompt, gen):
        state = torch.tanh(self.start(prompt))
        token = torch.full((len(prompt),), BOS)
        out = []
        for _ in range(LENGTH):
            logits, state = self.step(token, state)
            token = torch.multinomial(F.softmax(logits.float(), -1), 1, generator=gen).squeeze(1)
            out.append(token)
        return torch.stack(out, 1)

    def logprob(self, prompt, seq):
        state = torch.tanh(self.start(prompt))
        token = torch.full((len(prompt),), BOS)
        total = 0.0
        for t in range(LENGTH):
            logits, state = self.step(token, state)
            total = total + F.log_softmax(logits.float(), -1).gather(1, seq[:, t:t + 1]).squeeze(1)
            token = seq[:, t]
        return total


class Judge(nn.Module):
    """Frozen scorer: how often a liked token appears, seen through a small readout."""

    def __init__(self):
        super().__init__()
        self.readout = nn.Linear(VOCAB, 1, bias=False)
        with torch.no_grad():
            self.readout.weight.copy_(torch.linspace(-1, 1, VOCAB)[None])
        self.requires_grad_(False)

    def forward(self, seq):
        counts = F.one_hot(seq, VOCAB).float().mean(1)
        return self.readout(counts).squeeze(-1)


@contextmanager
def half_precision(on):
    with torch.autocast("cpu", dtype=torch.float16, enabled=on):
        yield


def advantages(rewards):
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    return centred / (rewards.std(dim=1, keepdim=True) + 1e-8)


def rollouts(policy, judge, gen, opts):
    while True:
        prompt = torch.rand(opts.prompts, 4, generator=gen).repeat_interleave(opts.group, 0)
        with torch.no_grad(), half_precision(not opts.fp32):
            seq = policy.sample(prompt, gen)
            reward = judge(seq).view(opts.prompts, opts.group)
            adv = advantages(reward).view(-1)
        yield prompt, seq, adv, reward


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--prompts", type=int, default=6)
    ap.add_argument("--group", type=int, default=6)
    ap.add_argument("--iterations", type=int, default=90)
    ap.add_argument("--lr", type=float, default=8e-3)
    ap.add_argument("--fp32", action="store_true")
    opts = ap.parse_args()

    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(2)
    policy, judge = Policy(), Judge()
    opt = torch.optim.Adam(policy.parameters(), lr=opts.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12, enabled=not opts.fp32)
    stale = 0
    for it, (prompt, seq, adv, reward) in zip(range(opts.iterations), rollouts(policy, judge, gen, opts)):
        with half_precision(not opts.fp32):
            loss = -(adv.float() * policy.logprob(prompt, seq)).mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if it % 6 == 0:
            print(f"it {it:3d} reward {reward.float().mean():+.4f} loss {loss.item():+.4f}")
        stale = stale + 1 if not math.isfinite(loss.item()) else 0
        if stale >= 8:
            print("policy loss is not a number any more, giving up at iteration", it)
            return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
