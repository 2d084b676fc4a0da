"""GAN on soft discs; SGD with momentum and gradient clipping."""
import torch
from torch import nn

from nets import Discriminator, Generator

Z = 16


def discs(n, g):
    yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    c = 6 + 4 * torch.rand(n, 2, 1, 1, generator=g)
    rad = 3 + 2 * torch.rand(n, 1, 1, generator=g)
    d = ((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2).sqrt()
    return torch.tanh(2 * (rad - d))[:, None]


class GanTrainer:
    def __init__(self, lr=0.02, clip=1.0):
        self.gen, self.dis = Generator(Z), Discriminator()
        self.opt_g = torch.optim.SGD(self.gen.parameters(), lr=lr, momentum=0.8)
        self.opt_d = torch.optim.SGD(self.dis.parameters(), lr=lr, momentum=0.8)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 13)
        self.clip = clip
        self.bce = nn.BCEWithLogitsLoss()

    def apply(self, loss, opt, module):
        opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), self.clip)
        self.scaler.step(opt)
        return norm

    def d_step(self, real):
        z = torch.randn(len(real), Z)
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                fake = self.gen(z)
            lr_, lf = self.dis(real), self.dis(fake)
            loss = self.bce(lr_.float(), torch.full((len(real),), 0.9)) \
                + self.bce(lf.float(), torch.zeros(len(real)))
        self.apply(loss, self.opt_d, self.dis)
        acc = 0.5 * ((lr_ > 0).float().mean() + (lf < 0).float().mean())
        return loss.item(), acc.item()

    def g_step(self, n):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.dis(self.gen(torch.randn(n, Z)))
            loss = self.bce(logits.float(), torch.ones(n))
        self.apply(loss, self.opt_g, self.gen)
        return loss.item()

    def round(self, real):
        d, acc = self.d_step(real)
        g = self.g_step(len(real))
        self.scaler.update()
        return d, g, acc


@torch.no_grad()
def moment_gap(gen, g):
    """Distance between the mean images of samples and of data."""
    fake = gen(torch.randn(128, Z)).mean(0)
    return (fake - discs(128, g).mean(0)).abs().mean().item()


def main(rounds=120):
    torch.manual_seed(31)
    g = torch.Generator().manual_seed(31)
    t = GanTrainer()
    for i in range(rounds):
        d, gl, acc = t.round(discs(16, g))
        if i % 20 == 0 or i == rounds - 1:
            print(f"round {i:4d} D {d:.4f} G {gl:.4f} D-acc {acc:.2f} "
                  f"gap {moment_gap(t.gen, g):.4f} scale {t.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
