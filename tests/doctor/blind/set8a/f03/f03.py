"""Actor-critic on a small corridor world where walls make some moves illegal."""
import argparse
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F


class Corridor:
    def __init__(self, n_envs, length=9, seed=0):
        self.n, self.length = n_envs, length
        self.g = torch.Generator().manual_seed(seed)
        self.pos = torch.randint(1, length - 1, (n_envs,), generator=self.g)
        self.t = torch.zeros(n_envs, dtype=torch.long)

    def observe(self):
        onehot = F.one_hot(self.pos, self.length).float()
        legal = torch.ones(self.n, 3, dtype=torch.bool)
        legal[:, 0] = self.pos > 0
        legal[:, 2] = self.pos < self.length - 1
        return onehot, legal

    def step(self, a):
        self.pos = (self.pos + a - 1).clamp(0, self.length - 1)
        self.t += 1
        reward = (self.pos == self.length - 1).float() - 0.05
        done = (self.pos == self.length - 1) | (self.t >= 20)
        new = torch.randint(0, self.length - 1, (self.n,), generator=self.g)
        self.pos = torch.where(done, new, self.pos)
        self.t[done] = 0
        return reward, done.float()


class Policy(nn.Module):
    def __init__(self, n_obs, n_act=3, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, n_act)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs, legal):
        h = self.body(obs)
        logits = self.pi(h).masked_fill(~legal, -1e4)
        return logits, self.v(h).squeeze(-1)


def entropy(probs):
    return -(probs * torch.log(probs + 1e-8)).sum(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--rollout", type=int, default=16)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--gamma", type=float, default=0.95)
    parser.add_argument("--ent-coef", type=float, default=0.01)
    args = parser.parse_args()
    torch.manual_seed(4)

    env = Corridor(args.envs)
    net = Policy(env.length)
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu")
    history = deque(maxlen=20)

    for it in range(args.updates):
        buf = []
        for _ in range(args.rollout):
            obs, legal = env.observe()
            with torch.no_grad():
                logits, _ = net(obs, legal)
            act = torch.distributions.Categorical(logits=logits).sample()
            rew, done = env.step(act)
            history.append(rew.mean().item())
            buf.append((obs, legal, act, rew, done))

        obs, legal = env.observe()
        with torch.no_grad():
            ret = net(obs, legal)[1]
        returns = []
        for _, _, _, rew, done in reversed(buf):
            ret = rew + args.gamma * ret * (1 - done)
            returns.insert(0, ret)
        returns = torch.cat(returns)
        obs, legal, act = (torch.cat([b[i] for b in buf]) for i in range(3))

        with torch.autocast("cpu", dtype=torch.float16):
            logits, value = net(obs, legal)
            probs = F.softmax(logits, dim=-1)
            logp = F.log_softmax(logits, dim=-1).gather(1, act[:, None]).squeeze(1)
            adv = returns - value.detach()
            pg = -(adv * logp).mean()
            vf = F.mse_loss(value, returns)
            loss = pg + 0.5 * vf - args.ent_coef * entropy(probs).mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        scaler.step(opt)
        scaler.update()
        if it % 10 == 0:
            print(f"update {it:3d} loss {loss.item():.4f} reward {sum(history) / len(history):.3f}")


if __name__ == "__main__":
    main()
