"""DQN on a small grid, run with --no-amp: the mixed precision objects are there, but switched off."""
import argparse
import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("--amp", action=argparse.BooleanOptionalAction, default=False)
ap.add_argument("--episodes", type=int, default=60)
args = ap.parse_args()

SIZE, MOVES = 5, [(0, 1), (0, -1), (1, 0), (-1, 0)]


class Grid:
    def reset(self):
        self.r = self.c = self.t = 0
        return self.state()

    def state(self):
        return F.one_hot(torch.tensor(self.r * SIZE + self.c), SIZE * SIZE).float()

    def legal(self):
        return torch.tensor([0 <= self.r + a < SIZE and 0 <= self.c + b < SIZE for a, b in MOVES])

    def step(self, a):
        self.r, self.c, self.t = self.r + MOVES[a][0], self.c + MOVES[a][1], self.t + 1
        win = self.r == SIZE - 1 and self.c == SIZE - 1
        return self.state(), 1.0 if win else -0.01, win, win or self.t >= 40


random.seed(0)
torch.manual_seed(0)
online = nn.Sequential(nn.Linear(SIZE * SIZE, 64), nn.ReLU(), nn.Linear(64, 4))
target = nn.Sequential(nn.Linear(SIZE * SIZE, 64), nn.ReLU(), nn.Linear(64, 4))
target.load_state_dict(online.state_dict())
opt = torch.optim.Adam(online.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", enabled=args.amp)
memory, env, lengths, n = deque(maxlen=2000), Grid(), [], 0

for ep in range(1, args.episodes + 1):
    s, over, eps = env.reset(), False, max(0.05, 1.0 - ep / 30)
    while not over:
        ok = env.legal()
        if random.random() < eps:
            a = random.choice(ok.nonzero().flatten().tolist())
        else:
            with torch.no_grad():
                a = online(s).masked_fill(~ok, float("-inf")).argmax().item()
        s2, r, win, over = env.step(a)
        memory.append((s, a, r, s2, win, env.legal()))
        s, n = s2, n + 1
        if len(memory) < 64 or n % 2:
            continue
        bs, ba, br, bs2, bd, bok = zip(*random.sample(memory, 32))
        bs, bs2, bok = torch.stack(bs), torch.stack(bs2), torch.stack(bok)
        with torch.autocast("cpu", dtype=torch.float16, enabled=args.amp):
            q = online(bs).gather(1, torch.tensor(ba)[:, None]).squeeze(1)
            with torch.no_grad():
                best = target(bs2).masked_fill(~bok, float("-inf")).max(1).values
            y = torch.tensor(br) + 0.97 * best * (~torch.tensor(bd)).float()
            loss = F.smooth_l1_loss(q.float(), y.float())
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if n % 100 == 0:
            target.load_state_dict(online.state_dict())
    lengths.append(env.t)
    if ep % 10 == 0:
        print(f"episode {ep} mean length {sum(lengths[-10:]) / 10:.1f} loss {loss.item():.5f}")
