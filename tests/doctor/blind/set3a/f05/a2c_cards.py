"""A2C on a small card game; illegal moves are masked by the environment."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.amp import GradScaler, autocast

N_CARDS, HAND = 10, 5
GAMMA, ENT_COEF, VALUE_COEF = 0.97, 0.01, 0.5


class TrickGame:
    """Play a card that beats the table card; a follower must keep to the table's colour if he can."""

    def __init__(self, rng, strict_after):
        self.rng, self.strict_after, self.games = rng, strict_after, 0

    def reset(self):
        self.games += 1
        self.hand = self.rng.sample(range(N_CARDS), HAND)
        self.table = self.rng.randrange(N_CARDS)
        return self.obs()

    def obs(self):
        o = torch.zeros(2 * N_CARDS)
        o[self.hand] = 1
        o[N_CARDS + self.table] = 1
        return o

    def legal(self):
        m = torch.ones(N_CARDS, dtype=torch.bool)
        if self.games > self.strict_after:
            same = [c for c in self.hand if c % 2 == self.table % 2]
            m[:] = False
            m[same or self.hand] = True
        return m

    def play(self, a):
        if a not in self.hand:
            reward = -1.0
        else:
            reward = 1.0 if a >= self.table else -0.2
            self.hand.remove(a)
        self.table = self.rng.randrange(N_CARDS)
        return self.obs(), reward, len(self.hand) == 0


class ActorCritic(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2 * N_CARDS, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi = nn.Linear(width, N_CARDS)
        self.v = nn.Linear(width, 1)

    def forward(self, obs, legal):
        h = self.body(obs)
        logits = self.pi(h).masked_fill(~legal, -1e4)
        return logits, self.v(h).squeeze(-1)


def policy_loss(logits, values, actions, returns):
    probs = F.softmax(logits, dim=-1)
    log_probs = F.log_softmax(logits, dim=-1)
    adv = (returns - values).detach()
    pg = -(log_probs.gather(1, actions[:, None]).squeeze(1) * adv).mean()
    entropy = -(probs * torch.log(probs + 1e-8)).sum(-1).mean()
    vloss = F.mse_loss(values, returns)
    return pg + VALUE_COEF * vloss - ENT_COEF * entropy, entropy


def rollout(env, net, length=48):
    obs, legal, acts, rews, dones = [], [], [], [], []
    o = env.reset()
    turns = 0
    for _ in range(length):
        m = env.legal()
        with torch.no_grad():
            logits, _ = net(o[None], m[None])
        a = torch.distributions.Categorical(logits=logits[0]).sample().item()
        o2, r, done = env.play(a)
        turns += 1
        done = done or turns >= 10
        obs.append(o); legal.append(m); acts.append(a); rews.append(r); dones.append(done)
        o = o2
        if done:
            o, turns = env.reset(), 0
    ret, out = 0.0, []
    for r, d in zip(reversed(rews), reversed(dones)):
        ret = r + GAMMA * ret * (not d)
        out.append(ret)
    return torch.stack(obs), torch.stack(legal), torch.tensor(acts), torch.tensor(out[::-1]), sum(rews) / length


def main(updates=60):
    random.seed(2)
    torch.manual_seed(2)
    env = TrickGame(random.Random(4), strict_after=120)
    net = ActorCritic()
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    scaler = GradScaler("cpu", init_scale=2.0 ** 12)
    for it in range(updates):
        obs, legal, acts, rets, avg = rollout(env, net)
        opt.zero_grad()
        with autocast("cpu", dtype=torch.float16):
            logits, values = net(obs, legal)
            loss, ent = policy_loss(logits, values, acts, rets)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        scaler.step(opt)
        scaler.update()
        if it % 5 == 0:
            print("update %3d  reward %+.3f  entropy %.3f  loss %.4f" % (it, avg, ent.item(), loss.item()))


if __name__ == "__main__":
    main()
