"""Actor-critic for a small card-drafting game in which most moves are illegal."""
import copy

import torch
import torch.nn as nn

CARDS, HAND, ENVS = 8, 5, 48


class Draft:
    """Take cards whose weight still fits; the last action ends the game and scores the hand."""

    def __init__(self, n, g):
        self.n, self.g = n, g
        self.reset(torch.ones(n, dtype=torch.bool))

    def reset(self, which):
        fresh_w = torch.randint(1, 6, (self.n, CARDS), generator=self.g).float()
        fresh_v = torch.randint(1, 8, (self.n, CARDS), generator=self.g).float()
        if not hasattr(self, "w"):
            self.w, self.v = fresh_w, fresh_v
            self.taken, self.room = torch.zeros(self.n, CARDS), torch.full((self.n, 1), 9.0)
        m = which[:, None]
        self.w, self.v = torch.where(m, fresh_w, self.w), torch.where(m, fresh_v, self.v)
        self.taken = self.taken.masked_fill(m, 0.0)
        self.room = self.room.masked_fill(m, 9.0)

    def state(self):
        obs = torch.cat([self.w / 5, self.v / 7, self.taken, self.room / 9], 1)
        fits = (self.w <= self.room) & (self.taken == 0)
        return obs, torch.cat([fits, torch.ones(self.n, 1, dtype=torch.bool)], 1)

    def step(self, a):
        stop = a == CARDS
        pick = nn.functional.one_hot(a, CARDS + 1)[:, :CARDS].float()
        reward = (pick * self.v).sum(1) / 10
        self.taken = self.taken + pick
        self.room = self.room - (pick * self.w).sum(1, keepdim=True)
        self.reset(stop)
        return reward, stop


class Net(nn.Module):
    def __init__(self, inputs=3 * CARDS + 1, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.pi, self.v = nn.Linear(hidden, CARDS + 1), nn.Linear(hidden, 1)

    def forward(self, obs, legal):
        h = self.body(obs)
        logp = self.pi(h).masked_fill(~legal, float("-inf")).log_softmax(-1)
        return logp, self.v(h).squeeze(-1)


def entropy(logp):
    finite = torch.where(logp.isinf(), torch.zeros(()), logp)
    return -(logp.exp() * finite).sum(-1)


def main():
    torch.manual_seed(5)
    g = torch.Generator().manual_seed(5)
    env, net = Draft(ENVS, g), Net()
    slow = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    finished, score = [], torch.zeros(ENVS)
    for update in range(300):
        logps, values, rewards, stops, ents = [], [], [], [], []
        final = torch.full((8, ENVS), float("nan"))
        for t in range(8):
            obs, legal = env.state()
            logp, value = net(obs, legal)
            a = torch.multinomial(logp.detach().exp(), 1)
            reward, stop = env.step(a.squeeze(1))
            score = score + reward
            final[t][stop] = score[stop]
            score = score.masked_fill(stop, 0.0)
            logps.append(logp.gather(1, a).squeeze(1))
            values.append(value), rewards.append(reward), stops.append(stop.float()), ents.append(entropy(logp))
        ret, targets = slow(*env.state())[1], []
        for r, s in zip(reversed(rewards), reversed(stops)):
            ret = r + 0.99 * (1 - s) * ret
            targets.append(ret)
        target, value = torch.stack(targets[::-1]), torch.stack(values)
        adv = (target - value).detach()
        loss = -(torch.stack(logps) * adv).mean() + 0.5 * (target - value).square().mean() - 0.01 * torch.stack(ents).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        for p, q in zip(slow.parameters(), net.parameters()):
            p.lerp_(q.detach(), 0.05)
        finished.append(final.nanmean().item())
        if (update + 1) % 50 == 0:
            recent = torch.tensor(finished[-50:])
            print(f"update {update + 1:4d} loss {loss.item():+.4f} value of a finished hand {recent.nanmean():.3f} "
                  f"min logp {torch.stack(logps).min().item():.2f}")


if __name__ == "__main__":
    main()
