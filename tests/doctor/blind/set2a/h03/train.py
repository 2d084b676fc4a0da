"""Learn an embedding of gestures whose dynamic-time-warping distance separates two kinds of movement."""
import torch
import torch.nn as nn

INF = float("inf")


def gesture(kind, n, g, length=10):
    t = torch.linspace(0, 1, length)[None] * (0.8 + 0.4 * torch.rand(n, 1, generator=g))
    a = torch.sin(6.28 * t) if kind == 0 else torch.sin(6.28 * t) * (1 - 2 * t)
    b = torch.cos(3.14 * t)
    return torch.stack([a, b], -1) + 0.05 * torch.randn(n, length, 2, generator=g)


def pairs(g, n=12):
    while True:
        kinds = torch.randint(0, 2, (2, n), generator=g)
        both = [torch.stack([gesture(int(k), 1, g)[0] for k in row]) for row in kinds]
        yield both[0], both[1], kinds[0] == kinds[1]


class Table:
    """Cumulative costs of an alignment, one frame of infinities around the field."""

    def __init__(self, cost, smooth=0.1):
        n, rows, cols = cost.shape
        self.cost, self.smooth = cost, smooth
        edge = cost.new_full((n,), INF)
        self.cells = {(-1, j): edge for j in range(cols)}
        self.cells.update({(i, -1): edge for i in range(rows)})
        self.cells[-1, -1] = cost.new_zeros(n)
        self.rows, self.cols = rows, cols

    def softmin(self, *values):
        stack = torch.stack(values) / -self.smooth
        return -self.smooth * torch.logsumexp(stack, 0)

    def solve(self):
        for i in range(self.rows):
            for j in range(self.cols):
                c = self.cells
                self.cells[i, j] = self.cost[:, i, j] + self.softmin(c[i - 1, j - 1], c[i - 1, j], c[i, j - 1])
        return self.cells[self.rows - 1, self.cols - 1]


class Frames(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.f = nn.Sequential(nn.Conv1d(2, dim, 3, padding=1), nn.ReLU(), nn.Conv1d(dim, 8, 3, padding=1))

    def forward(self, x):
        return self.f(x.transpose(1, 2)).transpose(1, 2)


def main(steps=26):
    torch.manual_seed(90)
    g = torch.Generator().manual_seed(91)
    model = Frames()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 20)
    lowest = torch.tensor(INF)
    for step, (a, b, same) in zip(range(steps), pairs(g)):
        with torch.autocast("cpu", dtype=torch.float16):
            ea, eb = model(a), model(b)
        gap = (ea[:, :, None].float() - eb[:, None].float()).square().sum(-1)
        cost = Table(gap).solve() / gap.shape[1]
        loss = torch.where(same, cost, torch.relu(1.0 - cost)).mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        lowest = torch.minimum(lowest, loss.detach())
        if step % 5 == 0:
            print(f"{step:2d} loss {loss.item():.4f} lowest {lowest.item():.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
