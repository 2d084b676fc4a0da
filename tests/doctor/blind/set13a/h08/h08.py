"""Depth with uncertainty from one image; sensor holes come as NaN, warm restarts on the rate."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def scenes(n, gen, size=16):
    img = nn.functional.interpolate(torch.randn(n, 2, 4, 4, generator=gen), size=size, mode="bilinear")
    depth = 2.0 + 0.3 * img[:, :1] - 0.2 * img[:, 1:] ** 2
    img = img + 0.05 * torch.randn(img.shape, generator=gen)
    holes = torch.rand(n, 1, size, size, generator=gen) < 0.15
    depth = depth.masked_fill(holes, float("nan"))
    return img, depth


class DepthNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(2, c, 3, 1, 1), nn.GELU(), nn.Conv2d(c, c, 3, 1, 1), nn.GELU(), nn.Conv2d(c, 2, 1))

    def forward(self, x):
        mean, raw = self.f(x).chunk(2, 1)
        return mean + 2.0, raw.clamp(-8, 4)


def nll(mean, log_var, target):
    seen = torch.isfinite(target)
    err = mean[seen] - target[seen]
    lv = log_var[seen]
    return 0.5 * (lv + err.square() * torch.exp(-lv)).mean()


def rmse(net, img, depth):
    net.eval()
    with torch.no_grad():
        m, _ = net(img)
    net.train()
    return torch.nanmean((m - depth) ** 2).sqrt().item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(12)
    img, depth = scenes(128, gen)
    vi, vd = scenes(32, gen)
    net = DepthNet()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=32, T_mult=1, eta_min=1e-5)
    loader = DataLoader(TensorDataset(img, depth), batch_size=16, shuffle=True)
    for epoch in range(12):
        total = 0.0
        for x, d in loader:
            loss = nll(*net(x), d)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            sched.step()
            total += loss.item()
        print(f"epoch {epoch} nll {total / len(loader):.4f} val rmse {rmse(net, vi, vd):.4f} lr {opt.param_groups[0]['lr']:.5f}")


if __name__ == "__main__":
    main()
