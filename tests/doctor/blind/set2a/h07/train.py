"""Deep Q-learning on a small grid with pits; prints a map of the greedy policy now and then."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE, MOVES = 5, [(-1, 0), (1, 0), (0, -1), (0, 1)]
PITS, GOAL = {(1, 1), (3, 2), (1, 3)}, (4, 4)


class Grid:
    def reset(self):
        self.at, self.t = (0, 0), 0
        return self.view()

    def view(self):
        x = torch.zeros(2, SIZE)
        x[0, self.at[0]] = x[1, self.at[1]] = 1
        return x.flatten()

    def legal(self):
        return torch.tensor([0 <= self.at[0] + a < SIZE and 0 <= self.at[1] + b < SIZE for a, b in MOVES])

    def step(self, move):
        a, b = MOVES[move]
        self.at, self.t = (self.at[0] + a, self.at[1] + b), self.t + 1
        if self.at == GOAL:
            return self.view(), 1.0, True
        if self.at in PITS:
            return self.view(), -1.0, True
        return self.view(), -0.02, self.t >= 40


class Memory:
    def __init__(self, capacity, width):
        self.x = torch.empty(capacity, width)
        self.nx = torch.empty(capacity, width)
        self.legal = torch.empty(capacity, len(MOVES), dtype=torch.bool)
        self.reward, self.alive = torch.empty(capacity), torch.empty(capacity)
        self.move = torch.empty(capacity, dtype=torch.long)
        self.capacity, self.n = capacity, 0
        for t in (self.x, self.nx, self.reward, self.alive):
            t.fill_(float("nan"))

    def add(self, x, move, reward, nx, legal, end):
        i = self.n % self.capacity
        self.x[i], self.nx[i], self.legal[i] = x, nx, legal
        self.move[i], self.reward[i], self.alive[i] = move, reward, float(not end)
        self.n += 1

    def draw(self, size, g):
        idx = torch.randint(0, min(self.n, self.capacity), (size,), generator=g)
        return self.x[idx], self.move[idx], self.reward[idx], self.nx[idx], self.legal[idx], self.alive[idx]


class Agent:
    def __init__(self, lr, gamma=0.95, tau=0.05):
        make = lambda: nn.Sequential(nn.Linear(2 * SIZE, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 4))
        self.q, self.slow = make(), make()
        self.slow.load_state_dict(self.q.state_dict())
        self.slow.requires_grad_(False)
        self.opt = torch.optim.AdamW(self.q.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu")
        self.gamma, self.tau = gamma, tau

    @torch.inference_mode()
    def greedy(self, x, legal):
        with torch.autocast("cpu", dtype=torch.float16):
            q = self.q(x[None])[0].float()
        return int(q.masked_fill(~legal, float("-inf")).argmax())

    def learn(self, batch):
        x, move, reward, nx, legal, alive = batch
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                ahead = self.slow(nx).float().masked_fill(~legal, float("-inf")).amax(1)
                goal = reward + self.gamma * alive * ahead
            guess = self.q(x).gather(1, move[:, None]).squeeze(1)
            loss = F.smooth_l1_loss(guess.float(), goal)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_value_(self.q.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        with torch.no_grad():
            for s, p in zip(self.slow.parameters(), self.q.parameters()):
                s.lerp_(p, self.tau)
        return loss.item()


def chart(agent):
    world, rows = Grid(), []
    for r in range(SIZE):
        line = ""
        for c in range(SIZE):
            world.at = (r, c)
            line += "G" if (r, c) == GOAL else "o" if (r, c) in PITS else "^v<>"[agent.greedy(world.view(), world.legal())]
        rows.append(line)
    return "\n".join(rows)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--episodes", type=int, default=60)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(130)
    random.seed(131)
    g = torch.Generator().manual_seed(132)
    world, memory, agent = Grid(), Memory(2000, 2 * SIZE), Agent(args.lr)
    for episode in range(args.episodes):
        x, end, gained, losses = world.reset(), False, 0.0, []
        while not end:
            legal = world.legal()
            if random.random() < max(0.05, 0.6 - episode / 60):
                move = random.choice([i for i, ok in enumerate(legal.tolist()) if ok])
            else:
                move = agent.greedy(x, legal)
            nx, reward, end = world.step(move)
            memory.add(x, move, reward, nx, world.legal(), end)
            x, gained = nx, gained + reward
            print(f"episode {episode} t {world.t} at {world.at} reward {reward}")
            if memory.n >= 64:
                losses.append(agent.learn(memory.draw(32, g)))
        if losses:
            print(f"episode {episode} return {gained:.2f} loss {sum(losses) / len(losses):.5f}")
        if episode % 15 == 14:
            print(chart(agent))


if __name__ == "__main__":
    main()
