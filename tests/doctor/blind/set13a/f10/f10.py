"""Shifted textures -> optical flow with a small correlation network (fp32)."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=120)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--warmup", type=int, default=10)
    p.add_argument("--radius", type=int, default=2)
    return p.parse_args()


def pairs(n, size=20, reach=2, gen=None):
    big = torch.randn(n, 1, size + 8, size + 8, generator=gen)
    big = F.avg_pool2d(big, 3, 1, 1) * 3
    shift = torch.randint(-reach, reach + 1, (n, 2), generator=gen)
    a = big[:, :, 4:4 + size, 4:4 + size]
    b = torch.stack([big[i, :, 4 + s[1]:4 + s[1] + size, 4 + s[0]:4 + s[0] + size] for i, s in enumerate(shift.tolist())])
    return a, b, shift.float()


class FlowNet(nn.Module):
    def __init__(self, radius, c=8):
        super().__init__()
        self.r = radius
        self.feat = nn.Sequential(nn.Conv2d(1, c, 3, 1, 1), nn.LeakyReLU(0.1), nn.Conv2d(c, c, 3, 1, 1))
        n = (2 * radius + 1) ** 2
        self.dec = nn.Sequential(nn.Conv2d(n, 32, 1), nn.LeakyReLU(0.1), nn.Conv2d(32, 2, 1))

    def corr(self, f, g):
        h, w = f.shape[-2:]
        g = F.pad(g, [self.r] * 4)
        vol = [(f * g[..., i:i + h, j:j + w]).mean(1) for i in range(2 * self.r + 1) for j in range(2 * self.r + 1)]
        return torch.stack(vol, 1)

    def forward(self, a, b):
        return self.dec(self.corr(self.feat(a), self.feat(b)))


def epe(flow, gt):
    return (flow - gt[:, :, None, None]).norm(dim=1).mean()


def main():
    args = get_args()
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(8)
    net = FlowNet(args.radius)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)

    def factor(it):
        return (it + 1) / args.warmup

    sched = torch.optim.lr_scheduler.LambdaLR(opt, factor)
    for it in range(args.iters):
        a, b, gt = pairs(args.batch, gen=gen)
        flow = net(a, b)
        loss = F.mse_loss(flow, gt[:, :, None, None].expand_as(flow))
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if it % 15 == 0 or it == args.iters - 1:
            print(f"{it:4d} loss {loss.item():.4g} epe {epe(flow.detach(), gt).item():.4g} lr {opt.param_groups[0]['lr']:.3f}")


if __name__ == "__main__":
    main()
