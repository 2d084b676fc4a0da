"""Denoising of document scans: small residual CNN, pages padded to one size."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from engine import Engine
from losses import Objective


class Denoiser(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, 1, 3, padding=1),
        )

    def forward(self, x, valid):
        return (x + self.net(x)) * valid


def pages(n=64, size=20, seed=5):
    g = torch.Generator().manual_seed(seed)
    clean = torch.ones(n, 1, size, size)
    for i in range(n):
        for row in range(3, size - 3, 4):
            stop = int(torch.randint(size // 2, size - 2, (1,), generator=g))
            ink = torch.rand(stop - 2, generator=g) < 0.7
            clean[i, 0, row, 2:stop][ink] = 0.1
    noisy = clean + 0.15 * torch.randn(clean.shape, generator=g)
    valid = torch.ones_like(clean)
    for i in range(0, n, 5):
        height = int(torch.randint(size - 6, size - 2, (1,), generator=g))
        valid[i, :, height:] = 0.0
    return TensorDataset(noisy * valid, clean * valid, valid)


def main():
    torch.manual_seed(2)
    net = Denoiser()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    engine = Engine(net, Objective(tv_weight=0.05, tv_from=2), opt, torch.amp.GradScaler("cpu"))
    meters = {}

    @engine.on("batch")
    def collect(eng, epoch, loss, parts):
        for name, value in {"loss": loss, **parts}.items():
            meters.setdefault(name, []).append(value.item())

    @engine.on("epoch")
    def show(eng, epoch):
        line = " ".join(f"{k} {sum(v) / len(v):.4f}" for k, v in meters.items())
        print(f"[{epoch}] {line} scale {eng.scaler.get_scale():g}")
        meters.clear()

    loader = DataLoader(pages(), batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(0))
    engine.fit(loader, epochs=6)


if __name__ == "__main__":
    main()
