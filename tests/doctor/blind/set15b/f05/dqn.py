import argparse
import copy
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

from buffer import Replay
from env import AssignEnv

NEG = float("-inf")


def make_net(obs, act, hid=64):
    return nn.Sequential(nn.Linear(obs, hid), nn.ReLU(), nn.Linear(hid, hid), nn.ReLU(), nn.Linear(hid, act))


class Agent:
    def __init__(self, env, args):
        self.args = args
        self.q = make_net(2 * env.n, env.n)
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=args.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

    @torch.no_grad()
    def act(self, obs, legal, eps):
        if random.random() < eps:
            return random.choice(legal.nonzero().flatten().tolist())
        with torch.autocast("cpu", dtype=torch.float16):
            q = self.q(obs[None])[0]
        return int(q.masked_fill(~legal, NEG).argmax())

    def learn(self, batch):
        s, a, r, s2, d, legal2 = batch
        with torch.autocast("cpu", dtype=torch.float16):
            qa = self.q(s).gather(1, a[:, None]).squeeze(1)
            with torch.no_grad():
                q2 = self.target(s2).float()
                best = q2.masked_fill(~legal2, NEG).max(1).values
                y = r + self.args.gamma * (1 - d) * best
            loss = F.smooth_l1_loss(qa, y)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--episodes", type=int, default=150)
    ap.add_argument("--gamma", type=float, default=0.98)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--sync", type=int, default=100)
    args = ap.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    torch.set_num_threads(1)
    env = AssignEnv()
    agent = Agent(env, args)
    mem = Replay(5000, 2 * env.n, env.n)
    updates, loss = 0, 0.0
    for ep in range(args.episodes):
        obs, done, ret = env.reset(), False, 0.0
        eps = max(0.05, 1 - ep / 80)
        while not done:
            a = agent.act(obs, env.legal(), eps)
            nxt, r, done = env.step(a)
            mem.add(obs, a, r, nxt, done, env.legal())
            obs, ret = nxt, ret + r
            if mem.n > 200:
                loss = agent.learn(mem.sample(args.batch))
                updates += 1
                if updates % args.sync == 0:
                    agent.target.load_state_dict(agent.q.state_dict())
        if ep % 15 == 0:
            print(f"episode {ep:3d} return {ret:.3f} loss {loss:.4f} updates {updates} scale {agent.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
