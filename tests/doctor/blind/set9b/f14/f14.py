import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from rays import RayDataset
from render import composite, sample_along


class Fourier(nn.Module):
    def __init__(self, bands):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(bands) * torch.pi)

    def forward(self, x):
        phase = (x.unsqueeze(-1) * self.freq).flatten(-2)
        return torch.cat([x, phase.sin(), phase.cos()], dim=-1)


class RadianceField(nn.Module):
    def __init__(self, bands=4, width=64):
        super().__init__()
        self.encode = Fourier(bands)
        cin = 2 + 4 * bands
        self.trunk = nn.Sequential(nn.Linear(cin, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.sigma = nn.Linear(width, 1)
        self.rgb = nn.Linear(width, 3)

    def forward(self, points):
        h = self.trunk(self.encode(points))
        return torch.relu(self.sigma(h)).squeeze(-1), torch.sigmoid(self.rgb(h))


class Trainer:
    def __init__(self, args):
        self.args = args
        self.field = RadianceField(width=args.width)
        self.optimizer = torch.optim.Adam(self.field.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
        self.loader = DataLoader(RayDataset(args.views, args.pixels), batch_size=args.rays, shuffle=True)

    def render(self, origin, direction, jitter):
        points, depth = sample_along(origin, direction, self.args.samples, jitter)
        sigma, rgb = self.field(points)
        return composite(sigma, rgb, depth)

    def train_step(self, origin, direction, target):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            color, weights = self.render(origin, direction, jitter=True)
            loss = nn.functional.mse_loss(color, target)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def fit(self):
        for epoch in range(self.args.epochs):
            losses = torch.stack([self.train_step(*batch) for batch in self.loader])
            self.scheduler.step()
            mse = losses.mean()
            print(f"epoch {epoch} mse {mse.item():.5f} psnr {-10 * mse.log10().item():.2f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--views", type=int, default=16)
    p.add_argument("--pixels", type=int, default=48)
    p.add_argument("--samples", type=int, default=24)
    p.add_argument("--rays", type=int, default=64)
    p.add_argument("--width", type=int, default=48)
    p.add_argument("--lr", type=float, default=5e-3)
    args = p.parse_args()
    torch.manual_seed(6)
    Trainer(args).fit()
