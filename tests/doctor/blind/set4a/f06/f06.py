"""REINFORCE with normalised returns, one episode per update."""
import argparse
import torch
import torch.nn as nn
from torch.distributions import Categorical


class PoleEnv:
    """A cart-pole without gym."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def reset(self):
        self.s = (torch.rand(4, generator=self.gen) - 0.5) * torch.tensor([1.0, 0.4, 0.41, 0.6])
        self.t = 0
        return self.s.clone()

    def step(self, a):
        x, xd, th, thd = self.s.tolist()
        force = 10.0 if a == 1 else -10.0
        sin, cos = torch.sin(self.s[2]).item(), torch.cos(self.s[2]).item()
        tmp = (force + 0.05 * thd * thd * sin) / 1.1
        thacc = (9.8 * sin - cos * tmp) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        xacc = tmp - 0.05 * thacc * cos / 1.1
        self.s = torch.tensor([x + 0.02 * xd, xd + 0.02 * xacc, th + 0.02 * thd, thd + 0.02 * thacc])
        self.t += 1
        done = abs(self.s[0]) > 2.4 or abs(self.s[2]) > 0.2 or self.t >= 60
        return self.s.clone(), 1.0, bool(done)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 2))

    def forward(self, s):
        return self.net(s)


def discounted(rewards, gamma):
    out, acc = [], 0.0
    for r in reversed(rewards):
        acc = r + gamma * acc
        out.append(acc)
    return torch.tensor(out[::-1])


def run_episode(env, policy):
    s, done = env.reset(), False
    log_probs, rewards = [], []
    while not done:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = policy(s[None]).squeeze(0)
        dist = Categorical(logits=logits.float())
        a = dist.sample()
        log_probs.append(dist.log_prob(a))
        s, r, done = env.step(a.item())
        rewards.append(r)
    return torch.stack(log_probs), rewards


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--episodes", type=int, default=160)
    ap.add_argument("--gamma", type=float, default=0.98)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    env, policy = PoleEnv(args.seed), Policy()
    opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
    lengths = []
    for ep in range(args.episodes):
        log_probs, rewards = run_episode(env, policy)
        returns = discounted(rewards, args.gamma)
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        loss = -(log_probs * returns).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        lengths.append(len(rewards))
        if ep % 20 == 0:
            print(f"episode {ep} length {lengths[-1]} loss {loss.item():.4f}")
    print("mean of the last 20:", sum(lengths[-20:]) / 20)


if __name__ == "__main__":
    main()
