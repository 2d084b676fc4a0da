"""VAE with an EMA copy; the copy is evaluated in half precision."""
import argparse
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def bars(n, size, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.zeros(n, 1, size, size)
    for i in range(n):
        rows = torch.rand(size, generator=g) < 0.2
        cols = torch.rand(size, generator=g) < 0.2
        x[i, 0, rows] = 1.0
        x[i, 0][:, cols] = 1.0
    return x


class VAE(nn.Module):
    def __init__(self, size, latent, width=128):
        super().__init__()
        self.size = size
        self.enc = nn.Sequential(nn.Flatten(), nn.Linear(size * size, width), nn.ReLU(), nn.Linear(width, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, size * size))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, 1)
        std = torch.exp(0.5 * logvar.float()).to(mu.dtype)
        z = mu + std * torch.randn_like(mu) if self.training else mu
        return self.dec(z).view(-1, 1, self.size, self.size), mu, logvar


def elbo(logits, x, mu, logvar):
    mu, logvar = mu.float(), logvar.float()
    rec = nn.functional.binary_cross_entropy_with_logits(logits.float(), x, reduction="sum")
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
    return rec + kl, rec, kl


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.copy = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model, step):
        d = min(self.decay, (1 + step) / (10 + step))
        for e, p in zip(self.copy.parameters(), model.parameters()):
            e.lerp_(p.detach(), 1 - d)


@torch.no_grad()
def evaluate(ema, x):
    net = copy.deepcopy(ema.copy).half()
    logits, _, _ = net(x.half())
    prob = logits.sigmoid()
    sure = torch.log(prob).neg()
    print(f"   half copy: error {((prob > 0.5) != (x > 0.5)).float().mean():.4f}, largest surprise {sure.max():.1f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--size", type=int, default=12)
    ap.add_argument("--latent", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    train, test = bars(1536, args.size, 1), bars(256, args.size, 2)
    loader = DataLoader(TensorDataset(train), 64, shuffle=True)
    model = VAE(args.size, args.latent)
    ema = EMA(model, 0.98)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    step = 0
    for epoch in range(args.epochs):
        model.train()
        totals = [0.0, 0.0, 0.0]
        for (x,) in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                logits, mu, logvar = model(x)
                parts = elbo(logits, x, mu, logvar)
            scaler.scale(parts[0]).backward()
            scaler.step(opt)
            scaler.update()
            ema.update(model, step)
            step += 1
            totals = [t + p.item() / len(train) for t, p in zip(totals, parts)]
        print("epoch {} loss {:.2f} rec {:.2f} kl {:.2f} scale {:g}".format(epoch, *totals, scaler.get_scale()))
        evaluate(ema, test)


if __name__ == "__main__":
    main()
