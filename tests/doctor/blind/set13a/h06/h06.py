"""Super-resolution GAN: pixel + adversarial objective, one scaler for both optimizers."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Gen(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, c, 3, 1, 1), nn.PReLU(), nn.Conv2d(c, c, 3, 1, 1), nn.PReLU(), nn.Conv2d(c, 4, 3, 1, 1), nn.PixelShuffle(2))

    def forward(self, x):
        return self.net(x) + F.interpolate(x, scale_factor=2, mode="nearest")


class Disc(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, c, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(c, c, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(c, 1, 3, 1, 1))

    def forward(self, x):
        return self.net(x)


def batch(n, gen):
    t = torch.linspace(0, 1, 16)
    y, x = torch.meshgrid(t, t, indexing="ij")
    f = torch.rand(n, 2, 1, 1, generator=gen) * 20 + 4
    ph = torch.rand(n, 1, 1, generator=gen) * 6.28
    hr = torch.sin(f[:, 0] * x + f[:, 1] * y + ph).sign()[:, None] * 0.5
    return F.avg_pool2d(hr, 2), hr


def main(steps=60, w_adv=1e-3):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(5)
    G, D = Gen(), Disc()
    opt_g = torch.optim.Adam(G.parameters(), lr=3e-3)
    opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)
    amp = lambda: torch.autocast("cpu", dtype=torch.float16)
    for s in range(steps):
        lr_img, hr = batch(8, gen)

        D.requires_grad_(False)
        with amp():
            sr = G(lr_img)
            score = D(sr)
            pix = F.l1_loss(sr.float(), hr)
            adv = F.softplus(-score.float()).mean()
        opt_g.zero_grad()
        scaler.scale(pix + w_adv * adv).backward()
        scaler.step(opt_g)

        D.requires_grad_(True)
        with amp():
            real, fake = D(hr), D(sr.detach())
            loss_d = F.softplus(-real.float()).mean() + F.softplus(fake.float()).mean()
        opt_d.zero_grad()
        scaler.scale(loss_d).backward()
        scaler.step(opt_d)
        scaler.update()
        if s % 12 == 0 or s == steps - 1:
            bic = F.l1_loss(F.interpolate(lr_img, scale_factor=2, mode="nearest"), hr)
            print(f"{s} pix {pix.item():.4f} (nearest {bic.item():.4f}) adv {adv.item():.3f} d {loss_d.item():.3f} scale {scaler.get_scale():g}")


main()
