"""Monocular depth with aleatoric uncertainty on synthetic scenes."""
import torch
import torch.nn as nn

from losses import batch_mean, laplace_nll, masked_mean


class DepthNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(1, c, 3, padding=1), nn.GroupNorm(4, c), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(c, 2 * c, 3, padding=1), nn.GroupNorm(4, 2 * c), nn.ReLU())
        self.up = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(2 * c, c, 3, padding=1), nn.GroupNorm(4, c), nn.SiLU())
        self.mu = nn.Conv2d(c, 1, 3, padding=1)
        self.b = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x):
        h = self.up(self.down(x))
        return self.mu(h), self.b(h)


def scene(n, size=16):
    yy, xx = torch.meshgrid(torch.linspace(0, 1, size), torch.linspace(0, 1, size), indexing="ij")
    depth = 1.0 + 2.0 * torch.rand(n, 1, 1) * yy + 0.5 * torch.rand(n, 1, 1) * xx
    c = torch.rand(n, 2, 1, 1)
    ball = ((xx - c[:, 0]) ** 2 + (yy - c[:, 1]) ** 2) < 0.04
    depth = torch.where(ball, depth * 0.6, depth)
    image = 1 / depth + 0.05 * torch.randn(n, size, size)
    valid = torch.rand(n, size, size) < 0.8
    valid[torch.rand(n) < 0.03] = False
    return image[:, None], depth[:, None], valid[:, None]


def validate(net, data):
    net.eval()
    with torch.no_grad():
        image, depth, valid = data
        mu, _ = net(image)
        err = (mu - depth).abs()[valid].mean().item()
    net.train()
    return err


def main():
    torch.manual_seed(31)
    net = DepthNet()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.0)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-3, total_steps=160)
    val = scene(64)
    for step in range(160):
        image, depth, valid = scene(24)
        mu, b = net(image)
        loss = batch_mean(masked_mean(laplace_nll(mu, b, depth), valid), valid)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        sched.step()
        if step % 20 == 0 or step == 159:
            print(f"step {step:3d} nll {loss.item():.4f} val mae {validate(net, val):.4f}")


if __name__ == "__main__":
    main()
