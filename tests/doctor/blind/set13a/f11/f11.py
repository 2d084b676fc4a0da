"""Small DCGAN on 12x12 rings; two optimizers, hinge objective."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rings(n, gen):
    t = torch.linspace(-1, 1, 12)
    y, x = torch.meshgrid(t, t, indexing="ij")
    r = torch.rand(n, 1, 1, generator=gen) * 0.3 + 0.4
    d = (x ** 2 + y ** 2).sqrt()[None] - r
    return (torch.exp(-(d / 0.15) ** 2) * 2 - 1)[:, None]


class Generator(nn.Module):
    def __init__(self, z=16, c=16):
        super().__init__()
        self.c = c
        self.fc = nn.Linear(z, c * 9)
        self.net = nn.Sequential(
            nn.BatchNorm2d(c), nn.ReLU(), nn.ConvTranspose2d(c, c, 4, 2, 1),
            nn.BatchNorm2d(c), nn.ReLU(), nn.ConvTranspose2d(c, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(self.fc(z).view(-1, self.c, 3, 3))


class Critic(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, c, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(c, c, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(9 * c, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


class GAN:
    def __init__(self, z=16, lr=1e-3):
        self.z = z
        self.G, self.D = Generator(z), Critic()
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=lr, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=lr, betas=(0.5, 0.99))

    def sample(self, n):
        return self.G(torch.randn(n, self.z))

    def train_step(self, real):
        fake = self.sample(len(real)).detach()

        self.opt_d.zero_grad()
        loss_d = F.relu(1 - self.D(real)).mean() + F.relu(1 + self.D(fake)).mean()
        loss_d.backward()
        self.opt_d.step()

        self.opt_g.zero_grad()
        loss_g = -self.D(fake).mean()
        loss_g.backward()
        self.opt_g.step()
        return loss_d.item(), loss_g.item()

    @torch.no_grad()
    def distance(self, real):
        fake = self.sample(256)
        return (fake.mean(0) - real.mean(0)).abs().mean().item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    gan = GAN()
    reference = rings(256, gen)
    print("start: distance of the mean images", round(gan.distance(reference), 4))
    for step in range(1, 201):
        d, g = gan.train_step(rings(24, gen))
        if step % 40 == 0:
            print(f"{step} loss_d {d:.3f} loss_g {g:.3f} distance {gan.distance(reference):.4f}")


if __name__ == "__main__":
    main()
