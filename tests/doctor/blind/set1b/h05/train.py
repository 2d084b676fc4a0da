import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from memory import Replay


class Grid:
    """Reach the corner of a 6 x 6 grid; moves off the board aren't allowed."""

    moves = torch.tensor([[1, 0], [-1, 0], [0, 1], [0, -1]])

    def __init__(self, n, gen, side=6):
        self.n, self.gen, self.side = n, gen, side
        self.pos = torch.randint(0, side, (n, 2), generator=gen)

    def obs(self):
        return self.pos.float() / (self.side - 1) - 0.5

    def step(self, a):
        self.pos = (self.pos + self.moves[a]).clamp(0, self.side - 1)
        done = (self.pos == self.side - 1).all(1)
        nxt = self.obs()
        self.pos[done] = torch.randint(0, self.side - 1, (int(done.sum()), 2), generator=self.gen)
        return nxt, torch.where(done, 10.0, -1.0), done


def legal(obs):
    """-inf for the moves which leave the board."""
    m = torch.zeros(len(obs), 4)
    m[obs[:, 0] > 0.49, 0] = -float("inf")
    m[obs[:, 0] < -0.49, 1] = -float("inf")
    m[obs[:, 1] > 0.49, 2] = -float("inf")
    m[obs[:, 1] < -0.49, 3] = -float("inf")
    return m


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--gamma", type=float, default=0.95)
    args = p.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    env = Grid(16, gen)
    net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    target = copy.deepcopy(net)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu")
    memory = Replay(4000, 2, gen)
    recent = []
    for t in range(args.steps):
        o = env.obs()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            q = net(o).float()
        q = torch.where(torch.rand(len(o), 1, generator=gen) < max(0.1, 1 - t / 150), torch.rand(q.shape, generator=gen), q)
        a = (q + legal(o)).argmax(1)
        n, r, d = env.step(a)
        memory.push(o, a, r, n, d)
        recent.append(r.mean().item())
        if t < 8:
            continue
        bo, ba, br, bn, bd = memory.sample(64)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            best = (target(bn).float() + legal(bn)).max(1).values
        y = br + args.gamma * best * (~bd)
        with torch.autocast("cpu", dtype=torch.float16):
            pred = net(bo).gather(1, ba[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(pred.float(), y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if t % 20 == 0:
            target.load_state_dict(net.state_dict())
        if t % 30 == 0:
            print(f"t {t:4d} loss {loss.item():.4f} reward {sum(recent[-30:]) / len(recent[-30:]):+.3f}")


if __name__ == "__main__":
    main()
