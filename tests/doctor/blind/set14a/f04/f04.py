import torch
import torch.nn.functional as F

from models import Discriminator, Generator


class GANTrainer:
    def __init__(self, zdim=16, lr=1e-3, batch=24):
        self.zdim, self.batch = zdim, batch
        self.G, self.D = Generator(zdim), Discriminator()
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=lr, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=lr, betas=(0.5, 0.99))

    def real(self):
        yy, xx = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
        c = torch.rand(self.batch, 2, 1, 1) - 0.5
        return (torch.exp(-((xx - c[:, 0]) ** 2 + (yy - c[:, 1]) ** 2) * 6) * 2 - 1)[:, None]

    def d_step(self):
        with torch.no_grad():
            fake = self.G(torch.randn(self.batch, self.zdim))
        loss = F.softplus(-self.D(self.real())).mean() + F.softplus(self.D(fake)).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.item()

    def g_step(self):
        fake = self.G(torch.randn(self.batch, self.zdim))
        loss = F.softplus(-self.D(fake)).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        return loss.item()

    def fit(self, iters=125):
        for i in range(iters):
            d, g = self.d_step(), self.g_step()
            if i % 25 == 0 or i == iters - 1:
                print(f"iter {i:4d}  d_loss {d:.4f}  g_loss {g:.4f}")


if __name__ == "__main__":
    torch.manual_seed(11)
    trainer = GANTrainer()
    trainer.fit()
    with torch.no_grad():
        s = trainer.G(torch.randn(256, 16))
    print(f"sample mean {s.mean():.3f} std over samples {s.std(0).mean():.3f}")
