"""Super-resolution of displacement fields (metres) with a small convolutional net, float16."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F


def fields(n, size, gen):
    """Smooth displacement of a loaded plate; the amplitude is some tens of micrometres."""
    yy, xx = torch.meshgrid(torch.linspace(0, 1, size), torch.linspace(0, 1, size), indexing="ij")
    k = torch.randint(1, 4, (n, 2), generator=gen).float()
    a = 3e-5 * (0.5 + torch.rand(n, 1, 1, generator=gen))
    u = a * torch.sin(3.1416 * k[:, :1, None] * xx) * torch.sin(3.1416 * k[:, 1:, None] * yy)
    return u[:, None]


class SRNet(nn.Module):
    def __init__(self, width=12, typical=1e-5):
        super().__init__()
        self.typical = typical
        self.body = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.SiLU(),
                                  nn.Conv2d(width, width, 3, padding=1), nn.SiLU(),
                                  nn.Conv2d(width, 4, 3, padding=1))
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, low):
        y = self.shuffle(self.body(low / self.typical))
        return y.float() * self.typical


class Session:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.args = args
        self.gen = torch.Generator().manual_seed(args.seed)
        self.net = SRNet()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr, eps=1e-16)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 30, enabled=torch.cuda.is_available())

    def step(self):
        high = fields(self.args.batch, self.args.size, self.gen)
        low = F.avg_pool2d(high, 2)
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            pred = self.net(low)
        loss = F.mse_loss(pred, high)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item(), max(p.grad.abs().max().item() for p in self.net.parameters())

    @torch.no_grad()
    def relative_error(self):
        high = fields(32, self.args.size, torch.Generator().manual_seed(123))
        pred = self.net(F.avg_pool2d(high, 2))
        return ((pred - high).norm() / high.norm()).item()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--seed", type=int, default=0)
    s = Session(ap.parse_args())
    for i in range(s.args.steps):
        loss, g = s.step()
        if i % 10 == 0 or i == s.args.steps - 1:
            print(f"{i:3d} loss {loss:.3e} max|g| {g:.3e} relative error {s.relative_error():.4f}")
