import random

import torch
from torch import nn

GRID, ACTIONS = 4, 4
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))


class Maze:
    """Walk to the exit of a small grid; a batch of independent walkers."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.reset()

    def reset(self):
        self.pos = [[self.rng.randrange(GRID), self.rng.randrange(GRID)] for _ in range(self.n)]
        self.clock = [0] * self.n

    def observe(self):
        obs = torch.zeros(self.n, GRID * GRID)
        for i, (r, c) in enumerate(self.pos):
            obs[i, r * GRID + c] = 1.0
        return obs

    def act(self, actions):
        reward = torch.full((self.n,), -0.1)
        done = torch.zeros(self.n)
        for i, a in enumerate(actions.tolist()):
            dr, dc = MOVES[a]
            r = min(max(self.pos[i][0] + dr, 0), GRID - 1)
            c = min(max(self.pos[i][1] + dc, 0), GRID - 1)
            self.pos[i] = [r, c]
            self.clock[i] += 1
            if r == c == GRID - 1:
                reward[i] = 1.0
            if reward[i] > 0 or self.clock[i] >= 20:
                done[i] = 1.0
                self.pos[i] = [self.rng.randrange(GRID), self.rng.randrange(GRID)]
                self.clock[i] = 0
        return reward, done


class Agent(nn.Module):
    def __init__(self, width=32, sharpness=16.0):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(GRID * GRID, width), nn.Tanh())
        self.policy = nn.Linear(width, ACTIONS)
        self.value = nn.Linear(width, 1)
        self.sharpness = sharpness

    def forward(self, obs):
        h = self.trunk(obs)
        return torch.softmax(self.sharpness * self.policy(h), -1), self.value(h).squeeze(-1)


def entropy_of(probs):
    return -(probs * torch.log(probs + 1e-9)).sum(-1)


def discounted(rewards, dones, bootstrap, gamma=0.95):
    out, running = [], bootstrap
    for r, d in zip(reversed(rewards), reversed(dones)):
        running = r + gamma * running * (1.0 - d)
        out.append(running)
    return torch.stack(out[::-1])


def rollout(env, agent, horizon):
    obs, acts, rewards, dones = [], [], [], []
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        for _ in range(horizon):
            o = env.observe()
            probs, _ = agent(o)
            a = torch.multinomial(probs.float(), 1).squeeze(-1)
            r, d = env.act(a)
            obs.append(o), acts.append(a), rewards.append(r), dones.append(d)
        _, last = agent(env.observe())
    returns = discounted(rewards, dones, last.float())
    return torch.cat(obs), torch.cat(acts), returns.flatten(), torch.stack(rewards).mean().item()


def main(iterations=100, horizon=8, walkers=16):
    torch.manual_seed(3)
    env = Maze(walkers, random.Random(3))
    agent = Agent()
    opt = torch.optim.Adam(agent.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for it in range(iterations):
        obs, acts, returns, mean_reward = rollout(env, agent, horizon)
        with torch.autocast("cpu", dtype=torch.float16):
            probs, value = agent(obs)
            picked = probs.gather(1, acts[:, None]).squeeze(1).float()
            bonus = entropy_of(probs).float().mean()
        advantage = returns - value.float()
        actor = -(picked.clamp_min(1e-6).log() * advantage.detach()).mean()
        critic = advantage.square().mean()
        loss = actor + 0.5 * critic - 0.0001 * bonus
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if it % 10 == 9:
            print(f"iter {it + 1} reward {mean_reward:+.3f} loss {loss.item():.4f} entropy {bonus.item():.3f}")


if __name__ == "__main__":
    main()
