"""DCGAN on synthetic glyphs; SGD for D and Adam for G."""
import argparse

import torch
import torch.nn.functional as F

from models import Discriminator, Generator


def glyphs(n, g):
    """Random crosses on a 16x16 canvas in [-1, 1]."""
    img = -torch.ones(n, 1, 16, 16)
    pos = torch.randint(4, 12, (n, 2), generator=g)
    for k, (y, x) in enumerate(pos.tolist()):
        img[k, 0, y - 3:y + 4, x] = 1.0
        img[k, 0, y, x - 3:x + 4] = 1.0
    return img


class GanTrainer:
    def __init__(self, opt):
        self.opt = opt
        self.rng = torch.Generator().manual_seed(opt.seed)
        self.G, self.D = Generator(opt.nz), Discriminator()
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=opt.lr_g, betas=(0.5, 0.999))
        self.opt_d = torch.optim.SGD(self.D.parameters(), lr=opt.lr_d, momentum=0.5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 13)

    def amp(self):
        return torch.autocast("cpu", dtype=torch.float16)

    def noise(self):
        return torch.randn(self.opt.batch, self.opt.nz, generator=self.rng)

    def step_d(self, real):
        self.opt_d.zero_grad(set_to_none=True)
        with self.amp():
            with torch.no_grad():
                fake = self.G(self.noise())
            out_r, out_f = self.D(real), self.D(fake)
            loss = F.binary_cross_entropy_with_logits(out_r, torch.ones_like(out_r)) + F.binary_cross_entropy_with_logits(out_f, torch.zeros_like(out_f))
        loss.backward()
        self.scaler.step(self.opt_d)
        acc = 0.5 * ((out_r > 0).float().mean() + (out_f < 0).float().mean())
        return loss.item(), acc.item()

    def step_g(self):
        self.opt_g.zero_grad(set_to_none=True)
        with self.amp():
            out = self.D(self.G(self.noise()))
            loss = F.binary_cross_entropy_with_logits(out, torch.ones_like(out))
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt_g)
        return loss.item()

    def fit(self):
        init = [p.detach().clone() for p in self.D.parameters()]
        for it in range(self.opt.iters):
            g_loss = self.step_g()
            d_loss, d_acc = self.step_d(glyphs(self.opt.batch, self.rng))
            self.scaler.update()
            if it % 10 == 0 or it == self.opt.iters - 1:
                moved = sum((p - q).norm() ** 2 for p, q in zip(self.D.parameters(), init)).sqrt()
                print(f"{it:4d} D {d_loss:.4f} (acc {d_acc:.2f}) G {g_loss:.4f} |dD| {moved:.2e} scale {self.scaler.get_scale():g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--iters", type=int, default=80)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--nz", type=int, default=16)
    parser.add_argument("--lr-g", type=float, default=5e-4)
    parser.add_argument("--lr-d", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    GanTrainer(args).fit()
