import argparse

import torch

from agent import Dqn
from pole import Pole


def options():
    p = argparse.ArgumentParser(prog="play", description="DQN on a pole", fromfile_prefix_chars="@")
    p.add_argument("-e", "--episodes", type=int, default=45)
    p.add_argument("-s", "--seed", type=int, default=0)
    p.add_argument("--set", nargs=2, action="append", default=[], metavar=("KEY", "VALUE"))
    p.add_argument("-v", "--verbose", action="count", default=0)
    a = p.parse_args()
    o = dict(lr=2e-3, gamma=0.97, batch=32, memory=4000, sync=40, seed=a.seed)
    o.update({k: type(o[k])(v) for k, v in a.set})
    return a, o


def main():
    a, o = options()
    torch.manual_seed(a.seed)
    env, agent = Pole(a.seed), Dqn(o)
    for ep in range(a.episodes):
        obs, done, steps, eps = env.reset(), False, 0, max(0.05, 0.5 * 0.93 ** ep)
        while not done:
            act = agent.act(obs, eps)
            nxt, r, fell, done = env.step(act)
            agent.mem.push(obs, act, r, nxt, float(fell))
            obs, steps = nxt, steps + 1
            if agent.mem.size >= 64:
                loss = agent.learn()
                if a.verbose:
                    print(f"    update {agent.updates} loss {loss:.3f} empty rows {agent.mem.obs.isnan().any(1).sum().item()}")
        print(f"episode {ep:3d} length {steps:3d} eps {eps:.2f}", flush=True)


if __name__ == "__main__":
    main()
