"""Policy gradient for walking to a target on a random graph (bfloat16)."""
import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Hyper:
    nodes: int = 24
    degree: int = 4
    hidden: int = 64
    episodes: int = 32
    horizon: int = 12
    updates: int = 120
    lr: float = 1e-2
    entropy: float = 0.01
    seed: int = 16


class GraphWorld:
    def __init__(self, hp):
        rnd = random.Random(hp.seed)
        n = hp.nodes
        edges = {i: {(i + 1) % n, (i - 1) % n} for i in range(n)}
        while min(len(v) for v in edges.values()) < hp.degree:
            i = min(edges, key=lambda k: len(edges[k]))
            j = rnd.choice([k for k in range(n) if k != i and k not in edges[i]])
            edges[i].add(j)
            edges[j].add(i)
        self.width = max(len(v) for v in edges.values())
        self.next = torch.full((n, self.width), -1)
        for i, v in edges.items():
            self.next[i, :len(v)] = torch.tensor(sorted(v))
        self.goal = n // 2
        self.n = n

    def start(self, count):
        return torch.randint(0, self.n, (count,))

    def step(self, at, action):
        new = self.next[at, action]
        done = new.eq(self.goal)
        return new, torch.where(done, 1.0, -0.05), done


class Policy(nn.Module):
    def __init__(self, n, width, hidden):
        super().__init__()
        self.emb = nn.Embedding(n, hidden)
        self.net = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, width))

    def forward(self, at, legal):
        logits = self.net(self.emb(at)).float()
        return logits.masked_fill(~legal, float("-inf"))


def rollout(world, policy, hp):
    at = world.start(hp.episodes)
    alive = at.ne(world.goal)
    logps, rewards, entropies, lives = [], [], [], []
    for _ in range(hp.horizon):
        legal = world.next[at].ge(0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = policy(at, legal)
        dist = torch.distributions.Categorical(logits=logits)
        action = dist.sample()
        logp = dist.log_prob(action)
        plogp = F.softmax(logits, -1) * F.log_softmax(logits, -1).masked_fill(~legal, 0.0)
        new, reward, done = world.step(at, action)
        lives.append(alive.float())
        logps.append(logp)
        rewards.append(reward * alive)
        entropies.append(-plogp.sum(-1))
        at = torch.where(alive, new, at)
        alive = alive & ~done
    stack = torch.stack
    return stack(logps), stack(rewards), stack(entropies), stack(lives)


def main():
    hp = Hyper()
    torch.manual_seed(hp.seed)
    world = GraphWorld(hp)
    policy = Policy(world.n, world.width, hp.hidden)
    opt = torch.optim.Adam(policy.parameters(), lr=hp.lr)
    smooth = None
    for update in range(1, hp.updates + 1):
        logp, reward, entropy, live = rollout(world, policy, hp)
        back = reward.flip(0).cumsum(0).flip(0)
        advantage = (back - (back * live).sum() / live.sum()) * live
        advantage = advantage / (advantage.std() + 1e-6)
        loss = -(logp * advantage).sum() / live.sum() - hp.entropy * (entropy * live).sum() / live.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        ret = reward.sum(0).mean().item()
        smooth = ret if smooth is None else 0.9 * smooth + 0.1 * ret
        if update % 10 == 0:
            print(f"update {update} loss {loss.item():+.4f} return {ret:.3f} smooth {smooth:.3f}")


if __name__ == "__main__":
    main()
