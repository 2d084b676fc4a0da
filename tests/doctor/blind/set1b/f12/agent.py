import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, o))


class ActorCritic:
    def __init__(self, obs_dim, n_actions, lr_actor=3e-3, lr_critic=1e-2, gamma=0.97, entropy=0.01):
        self.actor = mlp(obs_dim, 48, n_actions)
        self.critic = mlp(obs_dim, 48, 1)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=lr_actor)
        self.critic_opt = torch.optim.SGD(self.critic.parameters(), lr=lr_critic)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        self.gamma, self.entropy = gamma, entropy

    @torch.no_grad()
    def act(self, obs, gen):
        probs = torch.softmax(self.actor(obs), -1)
        return torch.multinomial(probs, 1, generator=gen).squeeze(-1)

    def returns(self, rewards):
        out, run = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
        for t in reversed(range(len(rewards))):
            run = rewards[t] + self.gamma * run
            out[t] = run
        return out

    def update(self, obs, actions, rewards):
        ret = self.returns(rewards)
        with torch.autocast("cpu", dtype=torch.float16):
            value = self.critic(obs).squeeze(-1)
            logits = self.actor(obs)
        value_loss = F.smooth_l1_loss(value.float(), ret)
        adv = ret - value.detach().float()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        logp = F.log_softmax(logits.float(), -1)
        chosen = logp.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        ent = -(logp.exp() * logp).sum(-1).mean()
        policy_loss = -(chosen * adv).mean() - self.entropy * ent

        self.critic_opt.zero_grad()
        self.scaler.scale(value_loss).backward()
        self.critic_opt.step()

        self.actor_opt.zero_grad()
        self.scaler.scale(policy_loss).backward()
        self.scaler.step(self.actor_opt)
        self.scaler.update()
        return policy_loss.item(), value_loss.item(), ent.item()
