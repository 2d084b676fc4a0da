import argparse
import copy

import torch

from gan import Discriminator, Generator, d_loss, g_loss


class GANTrainer:
    def __init__(self, args):
        self.args = args
        self.gen, self.dis = Generator(args.z), Discriminator()
        self.ema = copy.deepcopy(self.gen).requires_grad_(False)
        self.g_opt = torch.optim.Adam(self.gen.parameters(), lr=1e-3, betas=(0.5, 0.99))
        self.d_opt = torch.optim.Adam(self.dis.parameters(), lr=1e-3, betas=(0.5, 0.99))
        self.g_scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 20)
        self.d_scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 22)
        self.rng = torch.Generator().manual_seed(args.seed)

    def autocast(self):
        return torch.autocast("cpu", dtype=torch.float16)

    def reals(self):
        yy, xx = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
        c = torch.rand(self.args.batch, 2, 1, 1, generator=self.rng) - 0.5
        return (2 * torch.exp(-8 * ((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2)) - 1).unsqueeze(1)

    def noise(self):
        return torch.randn(self.args.batch, self.args.z, generator=self.rng)

    def step_d(self, real):
        with torch.no_grad(), self.autocast():
            fake = self.gen(self.noise())
        with self.autocast():
            loss = d_loss(self.dis(real), self.dis(fake))
        self.d_opt.zero_grad(set_to_none=True)
        self.d_scaler.scale(loss).backward()
        self.d_scaler.unscale_(self.d_opt)
        torch.nn.utils.clip_grad_norm_(self.dis.parameters(), 5.0)
        self.d_scaler.step(self.d_opt)
        self.d_scaler.update()
        return loss.item()

    def step_g(self):
        with self.autocast():
            loss = g_loss(self.dis(self.gen(self.noise())))
        self.g_opt.zero_grad(set_to_none=True)
        self.g_scaler.scale(loss).backward()
        self.dis.zero_grad(set_to_none=True)
        self.g_scaler.unscale_(self.g_opt)
        torch.nn.utils.clip_grad_norm_(self.gen.parameters(), 5.0)
        self.g_scaler.step(self.g_opt)
        self.g_scaler.update()
        return loss.item()

    @torch.no_grad()
    def update_ema(self, decay=0.95):
        for e, p in zip(self.ema.parameters(), self.gen.parameters()):
            e.lerp_(p, 1 - decay)
        for e, b in zip(self.ema.buffers(), self.gen.buffers()):
            e.copy_(b)

    def run(self):
        for it in range(self.args.iters):
            d = self.step_d(self.reals())
            g = self.step_g()
            self.update_ema()
            if it % 10 == 0:
                print(f"{it:4d} d {d:.3f} g {g:.3f} scales {self.d_scaler.get_scale():g} {self.g_scaler.get_scale():g}")
        with torch.no_grad():
            pics = self.ema.eval()(self.noise())
        print(f"mean of samples {pics.mean():.3f}, of reals {self.reals().mean():.3f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=80)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--z", type=int, default=16)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    GANTrainer(a).run()
