"""Actor-critic on a small corridor task, half precision on CPU."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Corridor:
    """The agent sees noisy distances to one of five doors and must choose the nearest."""

    def __init__(self, n_envs=64, doors=5, seed=0):
        self.n, self.doors = n_envs, doors
        self.gen = torch.Generator().manual_seed(seed)

    def reset(self):
        self.dist = torch.rand(self.n, self.doors, generator=self.gen) * 4
        return self.observe()

    def observe(self):
        return self.dist + 0.05 * torch.randn(self.n, self.doors, generator=self.gen)

    def step(self, action):
        best = self.dist.argmin(1)
        reward = torch.where(action == best, 1.0, -0.2)
        self.dist = torch.rand(self.n, self.doors, generator=self.gen) * 4
        return self.observe(), reward


class ActorCritic(nn.Module):
    def __init__(self, obs, act, hidden=64, temperature=0.1):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, act)
        self.v = nn.Linear(hidden, 1)
        self.temperature = temperature

    def forward(self, x):
        h = self.body(x)
        probs = torch.softmax(self.pi(h) / self.temperature, dim=-1)
        return probs, self.v(h).squeeze(-1)


def rollout(env, model, obs, horizon):
    log_probs, values, rewards, entropies = [], [], [], []
    for _ in range(horizon):
        probs, value = model(obs)
        log_p = torch.log(probs)
        action = torch.multinomial(probs.detach().float(), 1, generator=env.gen).squeeze(1)
        log_probs.append(log_p.gather(1, action[:, None]).squeeze(1))
        entropies.append(-(probs * log_p).sum(-1))
        values.append(value)
        obs, reward = env.step(action)
        rewards.append(reward)
    return obs, log_probs, values, rewards, entropies


def train(updates=120, horizon=4, gamma=0.5, lr=3e-3, entropy_coef=0.002):
    torch.manual_seed(2)
    env = Corridor()
    model = ActorCritic(5, 5)
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    obs = env.reset()
    for u in range(updates):
        with torch.autocast("cpu", dtype=torch.float16):
            obs, log_probs, values, rewards, entropies = rollout(env, model, obs, horizon)
        returns, acc = [], torch.zeros(env.n)
        for r in reversed(rewards):
            acc = r + gamma * acc
            returns.insert(0, acc)
        ret = torch.stack(returns)
        val = torch.stack(values).float()
        adv = (ret - val).detach()
        policy_loss = -(torch.stack(log_probs).float() * adv).mean()
        value_loss = F.mse_loss(val, ret)
        loss = policy_loss + 0.5 * value_loss - entropy_coef * torch.stack(entropies).float().mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(opt)
        scaler.update()
        if u % 10 == 0:
            print(f"update {u:3d} loss {loss.item():8.4f} reward {torch.stack(rewards).mean().item():.3f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    train()
