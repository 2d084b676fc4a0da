"""Actor-critic on a corridor with two optimizers, each with a scaler of its own."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Hyper:
    length: int = 9
    envs: int = 32
    horizon: int = 12
    gamma: float = 0.95
    actor_lr: float = 5e-3
    critic_lr: float = 5e-3
    entropy: float = 0.01
    actor_clip: float = 0.5
    critic_clip: float = 0.0
    iterations: int = 80


def net(i, o):
    return nn.Sequential(nn.Linear(i, 48), nn.Tanh(), nn.Linear(48, o))


class Corridor:
    """Walk right to the end for a reward; walking left from the start costs a little."""

    def __init__(self, hp, seed):
        self.hp, self.g = hp, torch.Generator().manual_seed(seed)
        self.pos = torch.zeros(hp.envs, dtype=torch.long)

    def obs(self):
        return F.one_hot(self.pos, self.hp.length).float()

    def step(self, a):
        slip = torch.rand(self.hp.envs, generator=self.g) < 0.1
        move = torch.where(slip, 1 - a, a) * 2 - 1
        nxt = self.pos + move
        r = torch.where(nxt >= self.hp.length - 1, 10.0, torch.where(nxt < 0, -0.5, -0.1))
        done = nxt >= self.hp.length - 1
        self.pos = torch.where(done, 0, nxt.clamp(min=0))
        return r, done


class Half:
    """One network with optimizer and scaler."""

    def __init__(self, module, lr, clip, init_scale=2.0 ** 16):
        self.module, self.clip = module, clip
        self.opt = torch.optim.Adam(module.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=50)

    def apply(self, loss, keep_graph=False):
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward(retain_graph=keep_graph)
        if self.clip > 0:
            self.scaler.unscale_(self.opt)
            nn.utils.clip_grad_norm_(self.module.parameters(), self.clip)
        self.scaler.step(self.opt)
        self.scaler.update()


def rollout(env, actor, hp):
    S, A, R, D = [], [], [], []
    for _ in range(hp.horizon):
        s = env.obs()
        with torch.no_grad():
            a = torch.distributions.Categorical(logits=actor(s)).sample()
        r, d = env.step(a)
        S.append(s), A.append(a), R.append(r), D.append(d)
    return torch.stack(S), torch.stack(A), torch.stack(R), torch.stack(D).float()


def main():
    hp = Hyper()
    torch.manual_seed(0)
    env = Corridor(hp, 0)
    actor = Half(net(hp.length, 2), hp.actor_lr, hp.actor_clip)
    critic = Half(net(hp.length, 1), hp.critic_lr, hp.critic_clip, init_scale=2.0 ** 22)
    for it in range(hp.iterations):
        s, a, r, d = rollout(env, actor.module, hp)
        with torch.no_grad():
            ret = critic.module(env.obs()).squeeze(-1)
            returns = []
            for t in reversed(range(hp.horizon)):
                ret = r[t] + hp.gamma * (1 - d[t]) * ret
                returns.append(ret)
            returns = torch.stack(returns[::-1])
        with torch.autocast("cpu", dtype=torch.float16):
            v = critic.module(s).squeeze(-1)
            logits = actor.module(s)
        v_loss = F.mse_loss(v.float(), returns)
        adv = returns - v.detach().float()
        adv = (adv - adv.mean()) / (adv.std() + 1e-5)
        dist = torch.distributions.Categorical(logits=logits.float())
        pi_loss = -(dist.log_prob(a) * adv).mean() - hp.entropy * dist.entropy().mean()
        critic.apply(v_loss)
        actor.apply(pi_loss)
        if it % 10 == 0 or it == hp.iterations - 1:
            print(f"it {it:3d} reward {r.sum(0).mean().item():7.3f} value {v_loss.item():8.4f} policy {pi_loss.item():7.4f} "
                  f"scales {actor.scaler.get_scale():g} {critic.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
