import torch

from agent import ActorCritic
from world import Corridor


def rollout(env, agent, horizon, gen):
    obs, acts, rews = [], [], []
    o = env.reset()
    for _ in range(horizon):
        a = agent.act(o, gen)
        obs.append(o)
        acts.append(a)
        o, r = env.step(a)
        rews.append(r)
    return torch.stack(obs), torch.stack(acts), torch.stack(rews)


def main(updates=80, copies=32, horizon=40):
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(2)
    env = Corridor(copies, gen)
    agent = ActorCritic(env.obs_dim, env.n_actions)
    for u in range(updates):
        obs, acts, rews = rollout(env, agent, horizon, gen)
        pl, vl, ent = agent.update(obs, acts, rews)
        if u % 8 == 0 or u == updates - 1:
            print(f"update {u:3d}  reward {rews.mean().item():+.3f}  policy {pl:+.4f}  value {vl:.3f}  entropy {ent:.3f}")


if __name__ == "__main__":
    main()
