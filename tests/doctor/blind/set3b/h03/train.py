"""GAN on a ring of Gaussians; generator and discriminator have their own scalers."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def mlp(*sizes, act=nn.LeakyReLU):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def ring(n, modes=6, spread=0.05):
    angle = 2 * math.pi * torch.randint(0, modes, (n,)) / modes
    return torch.stack([angle.cos(), angle.sin()], 1) + spread * torch.randn(n, 2)


def half():
    return torch.autocast("cpu", dtype=torch.float16)


def closure_pair(G, D, opt_g, opt_d, scaler_g, scaler_d, n, latent):
    def discriminator(real):
        with half():
            with torch.no_grad():
                fake = G(torch.randn(n, latent))
            loss = F.softplus(-D(real)).float().mean() + F.softplus(D(fake)).float().mean()
        opt_d.zero_grad(set_to_none=True)
        scaler_d.scale(loss).backward()
        scaler_d.step(opt_d)
        scaler_d.update()
        return loss.item()

    def generator():
        with half():
            loss = F.softplus(-D(G(torch.randn(n, latent)))).float().mean()
        opt_g.zero_grad(set_to_none=True)
        scaler_g.scale(loss).backward()
        # the generator's pass leaves gradients in D as well
        D.zero_grad(set_to_none=True)
        scaler_g.unscale_(opt_g)
        nn.utils.clip_grad_norm_(G.parameters(), 1.0)
        scaler_g.step(opt_g)
        scaler_g.update()
        return loss.item()

    return discriminator, generator


def main(steps=100, n=64, latent=4):
    torch.manual_seed(0)
    G, D = mlp(latent, 32, 32, 2), mlp(2, 32, 32, 1)
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.99))
    scaler_g = torch.amp.GradScaler("cpu", init_scale=2.0 ** 20)
    scaler_d = torch.amp.GradScaler("cpu", init_scale=2.0 ** 22)
    discriminator, generator = closure_pair(G, D, opt_g, opt_d, scaler_g, scaler_d, n, latent)
    for step in range(1, steps + 1):
        d = discriminator(ring(n))
        g = generator() if step % 2 == 0 else float("nan")
        if step % 20 == 0:
            with torch.inference_mode():
                radius = G(torch.randn(256, latent)).norm(dim=1)
            print(f"{step:4d} D {d:.3f} G {g:.3f} radius {radius.mean():.3f}+-{radius.std():.3f} "
                  f"scales {scaler_g.get_scale():.0f} {scaler_d.get_scale():.0f}")


if __name__ == "__main__":
    main()
