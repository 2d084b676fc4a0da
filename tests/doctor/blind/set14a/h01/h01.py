"""WGAN-GP on a ring of gaussians, float16 autocast, gradient penalty as in the PyTorch AMP examples."""
import argparse

import torch
import torch.nn as nn


def mlp(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o))


def ring(n, modes=8):
    a = torch.randint(0, modes, (n,)).float() * (2 * torch.pi / modes)
    return torch.stack([a.cos(), a.sin()], 1) * 1.5 + 0.05 * torch.randn(n, 2)


def penalty(critic, real, fake, scaler):
    eps = torch.rand(len(real), 1)
    x = (eps * real + (1 - eps) * fake).requires_grad_(True)
    with torch.autocast("cpu", dtype=torch.float16):
        out = critic(x)
    scaled = torch.autograd.grad(scaler.scale(out.float().sum()), x, create_graph=True)[0]
    grad = scaled.float() / scaler.get_scale()
    with torch.autocast("cpu", enabled=False):
        norm = (grad.square().sum(1) + 1e-12).sqrt()
        return (norm - 1).square().mean()


def distance(gen):
    with torch.no_grad():
        a, b = ring(400), gen(torch.randn(400, 4))
        d = lambda u, v: torch.cdist(u, v).mean()
        return (2 * d(a, b) - d(a, a) - d(b, b)).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=150)
    ap.add_argument("--critic-steps", type=int, default=3)
    ap.add_argument("--gp", type=float, default=2.0)
    args = ap.parse_args()
    torch.manual_seed(14)
    gen, critic = mlp(4, 2), mlp(2, 1)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.5, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 22, growth_interval=200)
    skipped = 0
    for it in range(args.iters):
        for _ in range(args.critic_steps):
            real = ring(128)
            with torch.autocast("cpu", dtype=torch.float16):
                fake = gen(torch.randn(128, 4)).detach().float()
                w = critic(fake).float().mean() - critic(real).float().mean()
            gp = penalty(critic, real, fake, scaler)
            opt_c.zero_grad()
            scaler.scale(w + args.gp * gp).backward()
            before = scaler.get_scale()
            scaler.step(opt_c)
            scaler.update()
            skipped += scaler.get_scale() < before
        with torch.autocast("cpu", dtype=torch.float16):
            g_loss = -critic(gen(torch.randn(128, 4))).float().mean()
        opt_g.zero_grad()
        scaler.scale(g_loss).backward()
        scaler.step(opt_g)
        scaler.update()
        if it % 25 == 0 or it == args.iters - 1:
            print(f"it {it:4d} wasserstein {-w.item():.4f} gp {gp.item():.4f} energy dist {distance(gen):.4f} "
                  f"scale {scaler.get_scale():.0f} skipped critic steps {skipped}")


if __name__ == "__main__":
    main()
