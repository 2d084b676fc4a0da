"""A2C on a toy corridor with four moves, some of which the walls forbid."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)
L, ACTIONS, ENVS, HORIZON = 8, 4, 16, 10


class Corridor:
    """Positions 0..L-1; move 0 left, 1 right, 2 stay, 3 jump two. The goal is at the right end."""

    def __init__(self, n):
        self.pos = torch.zeros(n, dtype=torch.long)

    def obs(self):
        return F.one_hot(self.pos, L).float()

    def legal(self):
        m = torch.ones(len(self.pos), ACTIONS, dtype=torch.bool)
        m[self.pos == 0, 0] = False
        m[self.pos >= L - 2, 3] = False
        return m

    def step(self, a):
        delta = torch.tensor([-1, 1, 0, 2])[a]
        self.pos = (self.pos + delta).clamp(0, L - 1)
        done = self.pos == L - 1
        reward = done.float() - 0.02
        self.pos = torch.where(done, torch.zeros_like(self.pos), self.pos)
        return reward, done


class ActorCritic(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(L, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi = nn.Linear(width, ACTIONS)
        self.v = nn.Linear(width, 1)

    def forward(self, obs, legal):
        h = self.body(obs)
        logits = self.pi(h).masked_fill(~legal, -1e4)
        return logits.softmax(-1), self.v(h).squeeze(-1)


def entropy(probs):
    return -(probs * torch.log(probs + 1e-8)).sum(-1)


env = Corridor(ENVS)
net = ActorCritic()
opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

for update in range(60):
    chosen, values, ents, rewards, dones = [], [], [], [], []
    with torch.autocast("cpu", dtype=torch.float16):
        for _ in range(HORIZON):
            obs, legal = env.obs(), env.legal()
            probs, v = net(obs, legal)
            a = torch.multinomial(probs.detach().float().clamp(min=0.0), 1)
            chosen.append(probs.gather(1, a).squeeze(1))
            ents.append(entropy(probs))
            values.append(v.float())
            r, d = env.step(a.squeeze(1))
            rewards.append(r)
            dones.append(d)
        with torch.no_grad():
            ret = net(env.obs(), env.legal())[1].float()
    returns = []
    for r, d in zip(reversed(rewards), reversed(dones)):
        ret = r + 0.95 * ret * (~d).float()
        returns.insert(0, ret)
    returns, values = torch.stack(returns), torch.stack(values)
    adv = (returns - values).detach()
    logp = torch.stack(chosen).float().log()
    loss = -(logp * adv).mean() + 0.5 * F.mse_loss(values, returns) - 0.01 * torch.stack(ents).float().mean()
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    scaler.step(opt)
    scaler.update()
    if update % 10 == 9:
        print(f"update {update + 1} loss {loss.item():.4f} reward {torch.stack(rewards).mean().item():.4f}")
