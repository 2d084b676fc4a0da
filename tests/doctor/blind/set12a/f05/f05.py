"""Contextual bandit, REINFORCE with an entropy bonus; cosine policy as in retrieval rankers."""
import argparse
from collections import deque
import torch
import torch.nn as nn
import torch.nn.functional as F


class CosinePolicy(nn.Module):
    def __init__(self, obs, actions, dim=32, sharp=16.0):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, dim))
        self.items = nn.Parameter(torch.randn(actions, dim))
        self.sharp = sharp

    def forward(self, x):
        h = F.normalize(self.body(x).float(), dim=-1)
        e = F.normalize(self.items, dim=-1)
        return self.sharp * torch.matmul(h, e.t())


class Bandit:
    def __init__(self, obs=10, actions=6, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.w = torch.randn(obs, actions, generator=g)
        self.obs = obs
        self.g = g

    def reset(self, n):
        return torch.randn(n, self.obs, generator=self.g)

    def reward(self, x, a):
        return ((x @ self.w).argmax(1) == a).float()


def run(cfg):
    torch.manual_seed(cfg.seed)
    env = Bandit(seed=cfg.seed)
    policy = CosinePolicy(env.obs, 6)
    opt = torch.optim.Adam(policy.parameters(), lr=cfg.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    baseline, window = 0.0, deque(maxlen=20)
    for it in range(cfg.iters):
        x = env.reset(cfg.batch)
        with torch.no_grad():
            pi = torch.distributions.Categorical(logits=policy(x))
            a = pi.sample()
        r = env.reward(x, a)
        adv = r - baseline
        baseline = 0.9 * baseline + 0.1 * r.mean().item()

        with torch.autocast("cpu", dtype=torch.float16):
            logits = policy(x)
            probs = torch.softmax(logits, dim=-1)
            entropy = -(probs * torch.log(probs + 1e-8)).sum(-1).mean()
            logp = F.log_softmax(logits.float(), dim=-1).gather(1, a[:, None]).squeeze(1)
            pg = -(adv * logp).mean()
            loss = pg - cfg.beta * entropy.float()

        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(policy.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
        window.append(r.mean().item())
        if it % 20 == 0:
            print(f"{it:4d} reward {sum(window)/len(window):.3f} pg {pg.item():.4f} "
                  f"H {entropy.item():.4f} loss {loss.item():.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=200)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--beta", type=float, default=0.003)
    ap.add_argument("--seed", type=int, default=1)
    run(ap.parse_args())
