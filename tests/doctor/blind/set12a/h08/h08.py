"""GAN on a skewed 1-D density: two optimizers, one scaler, critic head start, detached samples."""
import torch
import torch.nn as nn
import torch.nn.functional as F

HEAD_START, ITERS, BATCH, Z = 10, 220, 96, 4


def real_data(n):
    return 1.5 + 0.6 * torch.randn(n, 1) + 0.4 * torch.rand(n, 1) ** 2


class RoundSTE(torch.autograd.Function):
    """Snap to a grid in the forward pass, identity in the backward pass."""

    @staticmethod
    def forward(ctx, x, step):
        return (x / step).round() * step

    @staticmethod
    def backward(ctx, g):
        return g, None


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(Z, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, z):
        return RoundSTE.apply(self.net(z).float(), 0.01)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2),
                                 nn.Linear(48, 1))

    def forward(self, x):
        return self.net(x).float().squeeze(1)


def w1(a, b):
    return (a.flatten().sort().values - b.flatten().sort().values).abs().mean().item()


def main():
    torch.manual_seed(3)
    g, d = Generator(), Critic()
    og = torch.optim.Adam(g.parameters(), lr=1e-3, betas=(0.5, 0.99))
    od = torch.optim.Adam(d.parameters(), lr=2e-3, betas=(0.5, 0.99))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 13)
    amp = lambda: torch.autocast("cpu", dtype=torch.float16)
    for it in range(ITERS):
        with amp():
            fake = g(torch.randn(BATCH, Z))
            ld = F.softplus(-d(real_data(BATCH))).mean() + F.softplus(d(fake.detach())).mean()
        od.zero_grad(set_to_none=True)
        scaler.scale(ld).backward()
        scaler.step(od)

        if it >= HEAD_START:
            d.requires_grad_(False)
            with amp():
                lg = F.softplus(-d(fake)).mean()
            og.zero_grad(set_to_none=True)
            scaler.scale(lg).backward()
            scaler.unscale_(og)
            nn.utils.clip_grad_norm_(g.parameters(), 10.0)
            scaler.step(og)
            d.requires_grad_(True)
        scaler.update()
        if it % 20 == 0 or it == ITERS - 1:
            with torch.no_grad():
                dist = w1(g(torch.randn(1000, Z)), real_data(1000))
            text = f"{lg.item():.4f}" if it >= HEAD_START else "-"
            print(f"{it:4d} D {ld.item():.4f} G {text} W1 {dist:.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
