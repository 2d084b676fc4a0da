import argparse
import math
import random
import sys

import torch
import torch.nn as nn

ap = argparse.ArgumentParser()
ap.add_argument("--iters", type=int, default=30)
ap.add_argument("--target", type=float, default=0.995, help="stop with code 0 when the mean return reaches this")
ap.add_argument("--verbose", action="store_true", default=True)
args = ap.parse_args()

SIZE = 4
MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(SIZE * SIZE, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, s, legal):
        return self.f(s).float().masked_fill(~legal, -math.inf)


def legal_moves(r, c):
    return [0 <= r + dr < SIZE and 0 <= c + dc < SIZE for dr, dc in MOVES]


def one_hot(r, c):
    x = torch.zeros(SIZE * SIZE)
    x[r * SIZE + c] = 1
    return x


@torch.no_grad()
def episodes(net, rng, n=8, limit=14):
    S, L, A, R, rets = [], [], [], [], []
    for _ in range(n):
        r, c = rng.randrange(SIZE), rng.randrange(SIZE)
        rewards = []
        for _ in range(limit):
            s, l = one_hot(r, c), torch.tensor(legal_moves(r, c))
            p = net(s[None], l[None]).softmax(-1)[0]
            a = torch.multinomial(p, 1).item()
            S.append(s); L.append(l); A.append(a)
            r, c = r + MOVES[a][0], c + MOVES[a][1]
            done = (r, c) == (SIZE - 1, SIZE - 1)
            rewards.append(1.0 if done else -0.02)
            if args.verbose:
                print(f"({r},{c}) {'goal' if done else ''}".strip(), end=" ")
            if done:
                break
        if args.verbose:
            print()
        g, out = 0.0, []
        for x in reversed(rewards):
            g = x + 0.95 * g
            out.append(g)
        R += out[::-1]
        rets.append(sum(rewards))
    return torch.stack(S), torch.stack(L), torch.tensor(A), torch.tensor(R), sum(rets) / n


def main():
    torch.manual_seed(0)
    rng = random.Random(0)
    net = Policy()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu")
    best = -math.inf
    for it in range(args.iters):
        S, L, A, R, ret = episodes(net, rng)
        adv = (R - R.mean()) / (R.std() + 1e-5)
        with torch.autocast("cpu", dtype=torch.float16):
            logp = net(S, L).log_softmax(-1)
            ent = -(logp.exp() * logp.masked_fill(~L, 0)).sum(-1).mean()
            loss = -(logp.gather(1, A[:, None]).squeeze(1) * adv).mean() - 0.005 * ent
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        best = max(best, ret)
        print(f"## iter {it} return {ret:.3f} best {best:.3f} entropy {ent.item():.3f}")
        if ret >= args.target:
            sys.exit(0)
    print("target not reached")
    sys.exit(3)


main()
