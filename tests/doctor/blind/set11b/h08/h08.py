"""Adversarial speech enhancement: mask network against a critic with gradient penalty."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

from amp_step import Stepper


def spectra(n, bins, g):
    centre = torch.randint(4, bins - 4, (n, 1), generator=g).float()
    width = 1.5 + torch.rand(n, 1, generator=g)
    clean = torch.exp(-((torch.arange(bins) - centre) / width) ** 2)
    noise = 0.5 * torch.rand(n, bins, generator=g)
    return clean, clean + noise


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o))


class Enhancer(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.net = mlp(bins, 96, bins)

    def forward(self, noisy):
        return torch.sigmoid(self.net(noisy)) * noisy


def penalty(critic, real, fake, scale):
    """Two-sided penalty; the inner gradient is taken of the scaled score."""
    t = torch.rand(len(real), 1)
    mix = (t * real + (1 - t) * fake.detach()).requires_grad_(True)
    with torch.autocast("cpu", dtype=torch.float16):
        score = critic(mix)
    grad, = torch.autograd.grad(score.float().sum() * scale, mix, create_graph=True)
    grad = grad / scale
    return (grad.float().square().sum(-1).add(1e-12).sqrt() - 1).square().mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=240)
    ap.add_argument("--bins", type=int, default=32)
    ap.add_argument("--critic-every", type=int, default=2)
    ap.add_argument("--adv", type=float, default=0.02)
    ap.add_argument("--gp", type=float, default=5.0)
    args = ap.parse_args()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    enhancer, critic = Enhancer(args.bins), mlp(args.bins, 64, 1)
    g_opt = torch.optim.Adam(enhancer.parameters(), lr=2e-3, betas=(0.5, 0.99))
    c_opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.99))
    stepper = Stepper(torch.amp.GradScaler("cpu", init_scale=2.0 ** 14, growth_interval=100))

    for r in range(args.rounds):
        clean, noisy = spectra(64, args.bins, g)
        with torch.autocast("cpu", dtype=torch.float16):
            out = enhancer(noisy)
        train_critic = r % args.critic_every == 0
        if train_critic:
            with torch.autocast("cpu", dtype=torch.float16):
                real, fake = critic(clean), critic(out.detach())
            gp = penalty(critic, clean, out.float(), 256.0)
            stepper.backward(fake.float().mean() - real.float().mean() + args.gp * gp)
            stepper.step(critic, c_opt, 5.0)
            stepper.finish()
        critic.requires_grad_(False)
        with torch.autocast("cpu", dtype=torch.float16):
            adv = -critic(out).float().mean()
        l2 = F.mse_loss(out.float(), clean)
        stepper.backward(10 * l2 + args.adv * adv)
        critic.requires_grad_(True)
        norm = stepper.step(enhancer, g_opt, 1.0)
        stepper.finish()
        if r % 40 == 0 or r == args.rounds - 1:
            print(f"round {r:3d} l2 {l2.item():.5f} adv {adv.item():.4f} gp {gp.item():.4f} norm {norm:.3f} "
                  f"scale {stepper.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
