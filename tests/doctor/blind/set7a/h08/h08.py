"""PPO on a grid with illegal actions masked out of the policy; an epoch stops early when the KL is large."""
import torch
import torch.nn as nn

N = 5
MOVES = torch.tensor([[-1, 0], [1, 0], [0, -1], [0, 1]])


class Grid:
    def __init__(self, n, gen):
        self.pos = torch.randint(0, N, (n, 2), generator=gen)

    def observe(self):
        return torch.cat([nn.functional.one_hot(self.pos[:, k], N) for k in (0, 1)], 1).float()

    def legal(self):
        nxt = self.pos[:, None] + MOVES[None]
        return ((nxt >= 0) & (nxt < N)).all(-1)

    def step(self, a):
        self.pos = self.pos + MOVES[a]
        return (self.pos == N - 1).all(1).float()


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2 * N, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.pi, self.v = nn.Linear(48, 4), nn.Linear(48, 1)

    def forward(self, obs, legal):
        h = self.body(obs)
        logits = self.pi(h).float().masked_fill(~legal, float("-inf"))
        return torch.log_softmax(logits, -1), self.v(h).squeeze(-1).float()


def entropy(logp):
    p = logp.exp()
    return -(p * logp.masked_fill(p == 0, 0.0)).sum(-1)


def collect(model, gen, n=32, horizon=12):
    env = Grid(n, gen)
    data = []
    for _ in range(horizon):
        obs, legal = env.observe(), env.legal()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            logp, v = model(obs, legal)
        a = torch.multinomial(logp.exp(), 1, generator=gen).squeeze(1)
        data.append([obs, legal, a, logp.gather(1, a[:, None]).squeeze(1), v, env.step(a)])
    ret, out = torch.zeros(n), []
    for row in reversed(data):
        ret = row[5] + 0.9 * ret
        out.append(row[:5] + [ret])
    reward = sum(r[5].sum().item() for r in data) / n
    return [torch.cat(c) for c in zip(*out)], reward


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(3)
    model = ActorCritic()
    opt = torch.optim.Adam(model.parameters(), lr=6e-3)
    for it in range(25):
        (obs, legal, a, old, v, ret), reward = collect(model, gen)
        adv = ret - v
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        updates = 0
        for _ in range(6):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logp, value = model(obs, legal)
            new = logp.gather(1, a[:, None]).squeeze(1)
            if (old - new).mean().item() > 0.02:
                break
            ratio = (new - old).exp()
            policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
            loss = policy + 0.5 * (value - ret).square().mean() - 0.01 * entropy(logp).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            updates += 1
        if it % 4 == 0:
            print(f"it {it} reward {reward:.3f} loss {loss.item():.4f} updates {updates}")


if __name__ == "__main__":
    main()
