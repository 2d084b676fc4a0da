"""One-file advantage actor-critic on a small grid world, several environments in parallel."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

SIZE, N_ENV, HORIZON = 5, 32, 8
GAMMA, ENT = 0.95, 0.01


class GridWorld:
    """Walk to the corner; vectorised."""

    moves = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])

    def __init__(self, n, gen):
        self.gen = gen
        self.pos = torch.randint(0, SIZE, (n, 2), generator=gen)

    def obs(self):
        return F.one_hot(self.pos, SIZE).flatten(1).float()

    def step(self, a):
        self.pos = (self.pos + self.moves[a]).clamp(0, SIZE - 1)
        done = (self.pos == SIZE - 1).all(1)
        reward = torch.where(done, 1.0, -0.02)
        fresh = torch.randint(0, SIZE, self.pos.shape, generator=self.gen)
        self.pos = torch.where(done[:, None], fresh, self.pos)
        return reward, done.float()


def mlp(n_out):
    return nn.Sequential(nn.Linear(2 * SIZE, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n_out))


class Agent:
    def __init__(self):
        self.actor, self.critic = mlp(4), mlp(1)
        self.opt_pi = torch.optim.Adam(self.actor.parameters(), lr=3e-3)
        self.opt_v = torch.optim.SGD(self.critic.parameters(), lr=0.02, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)

    @torch.no_grad()
    def act(self, obs):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.actor(obs)
        return Categorical(logits=logits.float()).sample()

    def learn(self, obs, act, ret):
        with torch.autocast("cpu", dtype=torch.float16):
            value = self.critic(obs).squeeze(-1)
            logits = self.actor(obs)
        value, logits = value.float(), logits.float()
        adv = ret - value.detach()
        dist = Categorical(logits=logits)
        loss_pi = -(dist.log_prob(act) * adv).mean() - ENT * dist.entropy().mean()
        loss_v = F.smooth_l1_loss(value, ret)
        self.opt_pi.zero_grad()
        self.opt_v.zero_grad()
        self.scaler.scale(loss_pi + 0.5 * loss_v).backward()
        self.scaler.step(self.opt_pi)
        self.opt_v.step()
        self.scaler.update()
        return loss_pi.item(), loss_v.item()


def rollout(env, agent):
    obs_l, act_l, rew_l, done_l = [], [], [], []
    for _ in range(HORIZON):
        o = env.obs()
        a = agent.act(o)
        r, d = env.step(a)
        obs_l.append(o), act_l.append(a), rew_l.append(r), done_l.append(d)
    with torch.no_grad():
        boot = agent.critic(env.obs()).squeeze(-1)
    rets = []
    for r, d in zip(reversed(rew_l), reversed(done_l)):
        boot = r + GAMMA * (1 - d) * boot
        rets.insert(0, boot)
    return torch.cat(obs_l), torch.cat(act_l), torch.cat(rets), torch.stack(rew_l).mean().item()


def main():
    torch.manual_seed(0)
    env = GridWorld(N_ENV, torch.Generator().manual_seed(0))
    agent = Agent()
    for it in range(60):
        obs, act, ret, rew = rollout(env, agent)
        lp, lv = agent.learn(obs, act, ret)
        if it % 6 == 0:
            print(f"it {it:3d} reward {rew:+.3f} policy {lp:+.3f} value {lv:.4g}")


main()
