"""Left-to-right phone HMM with neural emissions, trained by exact log-likelihood."""
import torch
import torch.nn as nn

NEG = float("-inf")


def synth(n, frames, states, dims, g):
    means = 2 * torch.randn(states, dims, generator=g)
    xs, zs = [], []
    for _ in range(n):
        cuts = torch.sort(torch.randperm(frames - 1, generator=g)[: states - 1] + 1).values
        z = torch.bucketize(torch.arange(frames), cuts, right=True)
        zs.append(z)
        xs.append(means[z] + torch.randn(frames, dims, generator=g))
    return torch.stack(xs), torch.stack(zs)


def log_dot(scores, dim):
    """logsumexp in which a column that nothing reaches stays at -inf."""
    closed = scores.isneginf().all(dim, keepdim=True)
    return scores.masked_fill(closed, 0.0).logsumexp(dim).masked_fill(closed.squeeze(dim), NEG)


class LeftToRight(nn.Module):
    def __init__(self, states, dims):
        super().__init__()
        self.states = states
        self.stay = nn.Parameter(torch.zeros(states))
        self.mean = nn.Parameter(0.1 * torch.randn(states, dims))
        self.log_std = nn.Parameter(torch.zeros(states, dims))
        start = torch.full((states,), NEG)
        start[0] = 0.0
        final = torch.full((states,), NEG)
        final[-1] = 0.0
        self.register_buffer("start", start)
        self.register_buffer("final", final)

    def transitions(self):
        table = self.mean.new_full((self.states, self.states), NEG)
        i = torch.arange(self.states)
        stay, move = nn.functional.logsigmoid(self.stay), nn.functional.logsigmoid(-self.stay)
        table = table.index_put((i, i), stay)
        return table.index_put((i[:-1], i[1:]), move[:-1])

    def emission(self, x):
        z = (x.unsqueeze(2) - self.mean) * torch.exp(-self.log_std)
        return (-0.5 * z.square() - self.log_std - 0.9189385).sum(-1)

    def log_prob(self, x):
        e, trans = self.emission(x), self.transitions()
        alpha = self.start + e[:, 0]
        for t in range(1, x.shape[1]):
            alpha = log_dot(alpha.unsqueeze(2) + trans, 1) + e[:, t]
        return log_dot(alpha + self.final, 1), alpha

    @torch.no_grad()
    def viterbi(self, x):
        e, trans = self.emission(x), self.transitions()
        score, back = self.start + e[:, 0], []
        for t in range(1, x.shape[1]):
            best = (score.unsqueeze(2) + trans).max(1)
            back.append(best.indices)
            score = best.values + e[:, t]
        path = [(score + self.final).argmax(1)]
        for b in reversed(back):
            path.append(b.gather(1, path[-1].unsqueeze(1)).squeeze(1))
        return torch.stack(path[::-1], 1)


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(2)
    x, z = synth(300, 24, 5, 4, g)
    model = LeftToRight(5, 4)
    first = torch.stack([c.mean((0, 1)) for c in x[:50].chunk(5, dim=1)])
    with torch.no_grad():
        model.mean.add_(first)
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    floor = float("-inf")
    best = -float("inf")
    for epoch in range(12):
        total = 0.0
        for idx in torch.randperm(256).split(32):
            ll, alpha = model.log_prob(x[idx])
            loss = -ll.mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += ll.sum().item()
            floor = alpha.min().item()
        best = max(best, total / 256)
        acc = (model.viterbi(x[256:]) == z[256:]).float().mean().item()
        print(f"epoch {epoch:2d} log-lik {total / 256:.3f} best {best:.3f} smallest alpha {floor:.1f} state acc {acc:.3f}")
    print("unreached transitions:", int(model.transitions().isinf().sum()))


if __name__ == "__main__":
    main()
