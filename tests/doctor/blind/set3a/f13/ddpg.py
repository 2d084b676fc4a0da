import argparse
import collections
import copy
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=260)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--gamma", type=float, default=0.95)
parser.add_argument("--tau", type=float, default=0.02)
parser.add_argument("--actor-lr", type=float, default=1e-3)
parser.add_argument("--critic-lr", type=float, default=2e-3)
parser.add_argument("--noise", type=float, default=0.3)
parser.add_argument("--warmup", type=int, default=100)
parser.add_argument("--update-every", type=int, default=2)
parser.add_argument("--seed", type=int, default=0)

Step = collections.namedtuple("Step", "s a r s2 done")


class PointMass:
    """Drive a point to the origin with a bounded force."""

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.x, self.v, self.t = self.rng.uniform(-1, 1), 0.0, 0
        return [self.x, self.v]

    def step(self, a):
        self.v = 0.9 * self.v + 0.15 * a
        self.x += self.v
        self.t += 1
        r = -abs(self.x) - 0.05 * a * a
        return [self.x, self.v], r, self.t >= 25


def mlp(i, o, w=48):
    return nn.Sequential(nn.Linear(i, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, o))


class Agent:
    def __init__(self, args):
        self.args = args
        self.actor = nn.Sequential(mlp(2, 1), nn.Tanh())
        self.critic = mlp(3, 1)
        self.actor_t, self.critic_t = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=args.actor_lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=args.critic_lr)
        self.scaler = torch.amp.GradScaler("cpu")

    def q(self, net, s, a):
        return net(torch.cat([s, a], 1)).float().squeeze(1)

    def update_critic(self, b):
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                y = b.r + self.args.gamma * (1 - b.done) * self.q(self.critic_t, b.s2, self.actor_t(b.s2).float())
            loss = F.smooth_l1_loss(self.q(self.critic, b.s, b.a), y)
        self.critic_opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.critic_opt.step()
        return loss.item()

    def update_actor(self, b):
        for p in self.critic.parameters():
            p.requires_grad_(False)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = -self.q(self.critic, b.s, self.actor(b.s).float()).mean()
        self.actor_opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.actor_opt)
        self.scaler.update()
        for p in self.critic.parameters():
            p.requires_grad_(True)
        return loss.item()

    @torch.no_grad()
    def soft_update(self):
        for net, tgt in ((self.actor, self.actor_t), (self.critic, self.critic_t)):
            for p, t in zip(net.parameters(), tgt.parameters()):
                t.lerp_(p, self.args.tau)


def main():
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)
    env, agent = PointMass(rng), Agent(args)
    memory = collections.deque(maxlen=5000)
    s, ret, returns = env.reset(), 0.0, []
    for t in range(args.steps):
        if t < args.warmup:
            a = rng.uniform(-1, 1)
        else:
            with torch.no_grad():
                a = agent.actor(torch.tensor([s])).item() + rng.gauss(0, args.noise)
            a = max(-1.0, min(1.0, a))
        s2, r, done = env.step(a)
        memory.append(Step(s, [a], r, s2, float(done)))
        ret += r
        s = s2
        if done:
            returns.append(ret)
            s, ret = env.reset(), 0.0
        if t >= args.warmup and t % args.update_every == 0:
            b = Step(*(torch.tensor(c) for c in zip(*rng.sample(list(memory), args.batch))))
            lc = agent.update_critic(b)
            la = agent.update_actor(b)
            agent.soft_update()
            if t % 20 == 0:
                recent = sum(returns[-4:]) / max(len(returns[-4:]), 1)
                print(f"t {t:4d} return {recent:8.3f} critic {lc:10.4f} actor {la:10.4f} scale {agent.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
