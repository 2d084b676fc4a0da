"""Texture synthesis: optimise pixels with L-BFGS against filter statistics."""
import torch
from torch import nn


class Filters(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        g = torch.Generator().manual_seed(3)
        w1 = torch.randn(ch, 3, 5, 5, generator=g)
        w2 = torch.randn(ch, ch, 3, 3, generator=g)
        self.register_buffer("w1", w1 / 75 ** 0.5)
        self.register_buffer("w2", 1.4 * w2 / (9 * ch) ** 0.5)

    def forward(self, x):
        a = nn.functional.softplus(nn.functional.conv2d(x, self.w1, padding=2))
        b = nn.functional.softplus(nn.functional.conv2d(nn.functional.avg_pool2d(a, 2), self.w2, padding=1))
        return [a, b]


def statistics(feats):
    out = []
    for f in feats:
        f = f.float().flatten(2)
        out.append(torch.bmm(f, f.transpose(1, 2)) / f.shape[-1])
    return out


def exemplar(size=32):
    axis = torch.arange(float(size))
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack([torch.sin(0.8 * xx), torch.sin(0.8 * xx + 0.6 * yy), torch.cos(0.9 * yy)])[None]


class Synthesis:
    def __init__(self, size=32, tv=1e-3):
        self.filters = Filters()
        self.tv = tv
        with torch.no_grad():
            self.targets = statistics(self.filters(exemplar(size)))
        self.image = nn.Parameter(0.3 * torch.randn(1, 3, size, size))
        self.opt = torch.optim.LBFGS([self.image], lr=1.0, max_iter=8, history_size=12,
                                     line_search_fn="strong_wolfe")
        self.evals = 0

    def objective(self):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            feats = self.filters(self.image)
        stats = statistics(feats)
        loss = sum(((s - t) ** 2).mean() for s, t in zip(stats, self.targets))
        dx = (self.image[..., 1:] - self.image[..., :-1]).abs().mean()
        dy = (self.image[..., 1:, :] - self.image[..., :-1, :]).abs().mean()
        return loss + self.tv * (dx + dy)

    def step(self):
        def closure():
            self.opt.zero_grad()
            loss = self.objective()
            loss.backward()
            self.evals += 1
            return loss
        return self.opt.step(closure).item()

    @torch.no_grad()
    def preview(self):
        """Quick check of the current image through the reduced-precision path."""
        with torch.autocast("cpu", dtype=torch.bfloat16):
            stats = statistics(self.filters(self.image))
        return max(((s - t).abs().max() / t.abs().max()).item() for s, t in zip(stats, self.targets))


def main(outer=14):
    torch.manual_seed(12)
    syn = Synthesis()
    best = float("inf")
    for i in range(outer):
        loss = syn.step()
        if loss < best:
            best, keep = loss, syn.image.detach().clone()
        print(f"outer {i:2d} loss {loss:.6f} best {best:.6f} evals {syn.evals} dev {syn.preview():.4f}")
    print("pixel range", round(keep.min().item(), 2), round(keep.max().item(), 2))


if __name__ == "__main__":
    main()
