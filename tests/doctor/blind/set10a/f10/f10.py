"""Image-to-image GAN: colour a grey blob image (conditional, L1 plus adversarial)."""
import torch
from torch import nn
from torch.nn.utils import spectral_norm


def block(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1), nn.GroupNorm(4, o), nn.SiLU())


class Painter(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.down1, self.down2 = block(1, ch), block(ch, ch * 2, 2)
        self.mid = block(ch * 2, ch * 2)
        self.up = nn.ConvTranspose2d(ch * 2, ch, 4, 2, 1)
        self.out = nn.Conv2d(ch * 2, 3, 3, padding=1)

    def forward(self, grey):
        a = self.down1(grey)
        h = self.up(self.mid(self.down2(a)))
        return torch.sigmoid(self.out(torch.cat([a, h], 1)))


class PatchCritic(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.net = nn.Sequential(
            spectral_norm(nn.Conv2d(4, ch, 4, 2, 1)), nn.LeakyReLU(0.2),
            spectral_norm(nn.Conv2d(ch, ch * 2, 4, 2, 1)), nn.LeakyReLU(0.2),
            spectral_norm(nn.Conv2d(ch * 2, 1, 3, 1, 1)))

    def forward(self, grey, colour):
        return self.net(torch.cat([grey, colour], 1))


def batch(n, g):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 24), torch.linspace(-1, 1, 24), indexing="ij")
    c = torch.rand(n, 2, 1, 1, generator=g) - 0.5
    blob = torch.exp(-((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2) * 4)
    hue = torch.stack([blob, blob ** 2, 1 - blob], 1)
    return hue.mean(1, keepdim=True), hue


def hinge_d(real, fake):
    return torch.relu(1 - real).mean() + torch.relu(1 + fake).mean()


class Session:
    def __init__(self, adv_weight=0.1, l1_weight=10.0):
        self.g, self.d = Painter(), PatchCritic()
        self.opt_g = torch.optim.Adam(self.g.parameters(), 2e-3, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.d.parameters(), 2e-3, betas=(0.5, 0.99))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
        self.adv_weight, self.l1_weight = adv_weight, l1_weight

    def generate(self, grey):
        with torch.autocast("cpu", dtype=torch.float16):
            return self.g(grey).float()

    def train_critic(self, grey, colour, fake):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = hinge_d(self.d(grey, colour).float(), self.d(grey, fake).float())
        self.opt_d.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt_d)
        return loss.item()

    def train_painter(self, grey, colour, fake):
        with torch.autocast("cpu", dtype=torch.float16):
            adv = -self.d(grey, fake).float().mean()
        l1 = nn.functional.l1_loss(fake, colour)
        loss = self.adv_weight * adv + self.l1_weight * l1
        self.opt_g.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt_g)
        return loss.item(), l1.item()

    def iterate(self, grey, colour):
        fake = self.generate(grey).detach()
        d = self.train_critic(grey, colour, fake)
        g, l1 = self.train_painter(grey, colour, fake)
        self.scaler.update()
        return d, g, l1


def main(iters=100):
    torch.manual_seed(8)
    gen = torch.Generator().manual_seed(8)
    s = Session()
    for it in range(iters):
        grey, colour = batch(12, gen)
        d, g, l1 = s.iterate(grey, colour)
        if it % 20 == 0:
            print(f"iter {it:3d} critic {d:.4f} painter {g:.4f} l1 {l1:.4f} "
                  f"scale {s.scaler.get_scale():g}")
    print("done")


if __name__ == "__main__":
    main()
