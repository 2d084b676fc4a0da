"""Non-saturating GAN on 2-colour stripes: two optimizers, one loss scaler, EMA sampler."""
import copy

import torch
from torch import nn


class Gen(nn.Module):
    def __init__(self, z=12, ch=16):
        super().__init__()
        self.fc = nn.Linear(z, ch * 2 * 16)
        self.net = nn.Sequential(
            nn.BatchNorm2d(ch * 2), nn.ReLU(),
            nn.ConvTranspose2d(ch * 2, ch, 4, 2, 1), nn.BatchNorm2d(ch), nn.ReLU(),
            nn.ConvTranspose2d(ch, 1, 4, 2, 1), nn.Tanh())
        self.z, self.ch = z, ch

    def forward(self, z):
        return self.net(self.fc(z).view(-1, self.ch * 2, 4, 4))


class Dis(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        sn = nn.utils.parametrizations.spectral_norm
        self.net = nn.Sequential(
            sn(nn.Conv2d(1, ch, 4, 2, 1)), nn.LeakyReLU(0.2),
            sn(nn.Conv2d(ch, ch * 2, 4, 2, 1)), nn.LeakyReLU(0.2),
            nn.Flatten(), sn(nn.Linear(ch * 2 * 16, 1)))

    def forward(self, x):
        return self.net(x).squeeze(1)


def stripes(n, g):
    xx = torch.arange(16.0)
    phase = 6.28 * torch.rand(n, 1, 1, 1, generator=g)
    img = torch.tanh(3 * torch.sin(0.8 * xx + phase)).expand(n, 1, 16, 16)
    return (img + 0.05 * torch.randn(n, 1, 16, 16, generator=g)).clamp(-1, 1)


class Game:
    def __init__(self):
        self.gen, self.dis = Gen(), Dis()
        self.ema = copy.deepcopy(self.gen).eval()
        self.og = torch.optim.Adam(self.gen.parameters(), 2e-3, betas=(0.5, 0.99))
        self.od = torch.optim.Adam(self.dis.parameters(), 1e-3, betas=(0.5, 0.99))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 20, growth_interval=400)

    def critic(self, real):
        with torch.autocast("cpu", dtype=torch.float16):
            fake = self.gen(torch.randn(len(real), self.gen.z)).detach()
            r, f = self.dis(real), self.dis(fake)
        loss = nn.functional.softplus(-r.float()).mean() + nn.functional.softplus(f.float()).mean()
        self.od.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.od)
        return loss.item()

    def generator(self, n):
        self.dis.requires_grad_(False)
        with torch.autocast("cpu", dtype=torch.float16):
            score = self.dis(self.gen(torch.randn(n, self.gen.z)))
        loss = nn.functional.softplus(-score.float()).mean()
        self.og.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.og)
        self.dis.requires_grad_(True)
        return loss.item()

    @torch.no_grad()
    def track(self, decay=0.95):
        for e, p in zip(self.ema.parameters(), self.gen.parameters()):
            e.lerp_(p, 1 - decay)
        for e, b in zip(self.ema.buffers(), self.gen.buffers()):
            e.copy_(b)

    @torch.no_grad()
    def row_spread(self):
        """Real stripes are constant along a column: small spread is good."""
        img = self.ema(torch.randn(64, self.gen.z))
        return img.std(dim=2).mean().item(), img.abs().mean().item()


def main(rounds=360):
    torch.manual_seed(101)
    g = torch.Generator().manual_seed(101)
    game = Game()
    for i in range(rounds):
        d = game.critic(stripes(16, g))
        gl = game.generator(16)
        game.scaler.update()
        game.track()
        if i % 30 == 0 or i == rounds - 1:
            spread, level = game.row_spread()
            print(f"round {i:3d} D {d:.3f} G {gl:.3f} spread {spread:.3f} level {level:.3f} "
                  f"scale {game.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
