"""Advantage actor-critic on a corridor; the auxiliary head joins later."""
import argparse

import torch
from torch import nn
from torch.distributions import Categorical


class Corridor:
    """Walk right to the goal; action 2 is closed in odd cells."""

    def __init__(self, lanes, length, seed):
        self.lanes, self.length = lanes, length
        self.gen = torch.Generator().manual_seed(seed)
        self.pos = torch.zeros(lanes, dtype=torch.long)

    def observe(self):
        return nn.functional.one_hot(self.pos, self.length).float()

    def allowed(self):
        ok = torch.ones(self.lanes, 3, dtype=torch.bool)
        ok[:, 2] = self.pos % 2 == 0
        return ok

    def step(self, action):
        jump = torch.tensor([-1, 1, 2])[action]
        slip = torch.rand(self.lanes, generator=self.gen) < 0.1
        self.pos = (self.pos + torch.where(slip, 0, jump)).clamp(0, self.length - 1)
        done = self.pos == self.length - 1
        reward = torch.where(done, 10.0, -0.1)
        self.pos = torch.where(done, 0, self.pos)
        return reward, done


class Agent(nn.Module):
    def __init__(self, size, hidden=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.policy = nn.Linear(hidden, 3)
        self.value = nn.Linear(hidden, 1)
        self.forward_model = nn.Linear(hidden, size)

    def forward(self, obs, allowed):
        h = self.body(obs)
        logits = self.policy(h).float().masked_fill(~allowed, float("-inf"))
        return logits, self.value(h).float().squeeze(-1), h


def entropy(logits):
    logp = logits.log_softmax(-1)
    p = logp.exp()
    return -(p * logp.masked_fill(p == 0, 0.0)).sum(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=80)
    ap.add_argument("--rollout", type=int, default=16)
    ap.add_argument("--lanes", type=int, default=16)
    ap.add_argument("--length", type=int, default=10)
    ap.add_argument("--aux-from", type=int, default=40)
    ap.add_argument("--gamma", type=float, default=0.95)
    ap.add_argument("--dtype", choices=["float16", "bfloat16"], default="float16")
    args = ap.parse_args()
    torch.manual_seed(0)
    dtype = getattr(torch, args.dtype)
    env, agent = Corridor(args.lanes, args.length, 1), Agent(args.length)
    main_params = [p for n, p in agent.named_parameters() if not n.startswith("forward_model")]
    opt = torch.optim.Adam(main_params, lr=3e-3)
    aux_opt = torch.optim.Adam(agent.forward_model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", growth_interval=25, enabled=dtype == torch.float16)

    for update in range(1, args.updates + 1):
        logps, values, rewards, dones, ents, aux = [], [], [], [], [], []
        with torch.autocast("cpu", dtype=dtype):
            for _ in range(args.rollout):
                logits, value, h = agent(env.observe(), env.allowed())
                dist = Categorical(logits=logits)
                action = dist.sample()
                reward, done = env.step(action)
                if update > args.aux_from:
                    aux.append(nn.functional.cross_entropy(agent.forward_model(h.detach()).float(), env.pos))
                logps.append(dist.log_prob(action)); values.append(value); ents.append(entropy(logits))
                rewards.append(reward); dones.append(done.float())
            with torch.no_grad():
                ret = agent(env.observe(), env.allowed())[1]
        targets = []
        for reward, done in zip(reversed(rewards), reversed(dones)):
            ret = reward + args.gamma * (1 - done) * ret
            targets.append(ret)
        target, value = torch.stack(targets[::-1]), torch.stack(values)
        adv = (target - value).detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        loss = -(torch.stack(logps) * adv).mean() + 0.5 * (target - value).pow(2).mean() - 0.01 * torch.stack(ents).mean()
        opt.zero_grad(set_to_none=True)
        aux_opt.zero_grad(set_to_none=True)
        scaler.scale(loss + sum(aux) / args.rollout).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(main_params, 1.0)
        scaler.step(opt)
        if aux:
            scaler.step(aux_opt)
        scaler.update()
        if update % 10 == 0:
            print(f"update {update} loss {loss.item():.3f} reward {torch.stack(rewards).mean():.3f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
