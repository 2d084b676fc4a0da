"""Deep Q-learning for Nim-like take-away games with illegal moves masked out."""
import copy
import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F

START, MAX_TAKE, GAMMA = 12, 3, 1.0


def legal(pile):
    return torch.arange(1, MAX_TAKE + 1) <= pile[:, None]


def encode(pile):
    return F.one_hot(pile, START + 1).float()


class Player:
    def __init__(self, seed=0):
        torch.manual_seed(seed)
        self.rng = random.Random(seed)
        self.net = nn.Sequential(nn.Linear(START + 1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, MAX_TAKE))
        self.target = copy.deepcopy(self.net).requires_grad_(False)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=2e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
        self.memory = deque(maxlen=4000)

    def q(self, net, pile):
        with torch.autocast("cpu", dtype=torch.float16):
            return net(encode(pile)).float()

    @torch.no_grad()
    def act(self, pile, eps):
        if self.rng.random() < eps:
            return self.rng.randint(1, min(MAX_TAKE, pile))
        p = torch.tensor([pile])
        q = self.q(self.net, p).masked_fill(~legal(p), -torch.inf)
        return int(q.argmax(1)) + 1

    def play(self, eps):
        pile = START - self.rng.randint(0, 4)
        while pile > 0:
            take = self.act(pile, eps)
            left = pile - take
            if left == 0:
                self.memory.append((pile, take, 1.0, 0))
                return
            reply = (left % 4) or self.rng.randint(1, min(MAX_TAKE, left))
            nxt = left - reply
            self.memory.append((pile, take, -1.0 if nxt == 0 else 0.0, nxt))
            pile = nxt

    def learn(self, batch=64):
        s, a, r, n = zip(*self.rng.sample(list(self.memory), batch))
        s, a, n, r = torch.tensor(s), torch.tensor(a), torch.tensor(n), torch.tensor(r)
        with torch.no_grad():
            q_next = self.q(self.target, n).masked_fill(~legal(n), -torch.inf)
            best = q_next.max(1).values
            goal = torch.where(n == 0, r, r + GAMMA * best)
        q = self.q(self.net, s).gather(1, (a - 1)[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, goal)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        for t, p in zip(self.target.parameters(), self.net.parameters()):
            t.lerp_(p.detach(), 0.05)
        return loss.item()


def main():
    player = Player()
    for _ in range(120):
        player.play(eps=1.0)
    recent = deque(maxlen=30)
    for it in range(150):
        player.play(eps=0.3)
        recent.append(player.learn())
        if it % 25 == 24:
            print(f"update {it + 1} td loss {sum(recent) / len(recent):.4f} scale {player.scaler.get_scale():g}")
    winning = [p for p in range(1, START + 1) if p % 4]
    right = sum(player.act(p, 0.0) == p % 4 for p in winning)
    print(f"optimal move in {right}/{len(winning)} won positions")


if __name__ == "__main__":
    main()
