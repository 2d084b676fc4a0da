"""Dense depth completion: ground truth exists only where the lidar hit, elsewhere it is NaN."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

MISSING = float("nan")


class TinyUNet(nn.Module):
    def __init__(self, w=6):
        super().__init__()
        self.enc = nn.Conv2d(2, w, 3, padding=1)
        self.down = nn.Conv2d(w, 2 * w, 3, stride=2, padding=1)
        self.mid = nn.Conv2d(2 * w, 2 * w, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.out = nn.Conv2d(2 * w, 1, 1)

    def forward(self, x):
        a = F.relu(self.enc(x))
        b = F.relu(self.mid(F.relu(self.down(a))))
        return self.out(torch.cat([a, F.relu(self.up(b))], 1))


def scenes(n, size, seed):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.linspace(0, 1, size), torch.linspace(0, 1, size), indexing="ij")
    c = torch.rand(n, 4, 1, 1, generator=g)
    depth = 2.0 + 3.0 * (c[:, 0] * xx + c[:, 1] * yy) + torch.sin(6 * (xx * c[:, 2] + c[:, 3]))
    depth = depth[:, None]
    image = torch.cat([1.0 / depth, depth.diff(dim=-1, prepend=depth[..., :1])], 1)
    image = image + 0.02 * torch.randn(image.shape, generator=g)
    hit = torch.rand(depth.shape, generator=g) < 0.15
    target = torch.full_like(depth, MISSING)
    target[hit] = depth[hit]
    # a few returns never come back
    target[(torch.rand(depth.shape, generator=g) < 0.005) & hit] = float("inf")
    return image, target


def berhu(pred, target):
    """Reverse Huber loss over the pixels that have a measurement."""
    known = torch.isfinite(target)
    err = (pred.float()[known] - target[known]).abs()
    c = 0.2 * err.detach().max().clamp_min(1e-6)
    return torch.where(err <= c, err, (err * err + c * c) / (2 * c)).mean()


def run(args):
    torch.manual_seed(args.seed)
    image, target = scenes(48, 16, args.seed)
    net = TinyUNet()
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 24, growth_interval=50)
    skipped = 0
    for step in range(args.steps):
        rows = torch.randint(0, len(image), (8,))
        with torch.autocast("cpu", dtype=torch.float16):
            pred = net(image[rows])
        loss = berhu(pred, target[rows])
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        scaler.step(opt)
        old = scaler.get_scale()
        scaler.update()
        skipped += scaler.get_scale() < old
        if step < 6 or step % 10 == 9:
            print(f"step {step + 1:3d} loss {loss.item():.4f} norm {norm.item():.3g} "
                  f"target mean {target[rows].mean().item()} scale 2^{torch.tensor(scaler.get_scale()).log2().item():.0f}")
    print(f"{skipped} steps skipped")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=50)
    ap.add_argument("--seed", type=int, default=0)
    run(ap.parse_args())
