"""pix2pix-like translation with least-squares adversarial loss."""
import argparse
import itertools

import torch
import torch.nn.functional as F

from nets import PatchD, TranslateG, set_requires_grad


class PairStream:
    def __init__(self, batch, size, seed):
        self.batch, self.size = batch, size
        self.g = torch.Generator().manual_seed(seed)

    def __iter__(self):
        return self

    def __next__(self):
        colour = torch.rand(self.batch, 3, 1, 1, generator=self.g) * 2 - 1
        box = torch.zeros(self.batch, 1, self.size, self.size)
        for i in range(self.batch):
            y, x = torch.randint(0, self.size // 2, (2,), generator=self.g).tolist()
            box[i, :, y:y + self.size // 2, x:x + self.size // 2] = 1.0
        photo = box * colour + (1 - box) * 0.1
        edges = (box - F.avg_pool2d(box, 3, 1, 1)).abs()
        return edges, photo


class Pix2Pix:
    def __init__(self, opt):
        self.opt = opt
        self.netG, self.netD = TranslateG(), PatchD()
        self.optG = torch.optim.Adam(self.netG.parameters(), lr=opt.lr, betas=(0.5, 0.999))
        self.optD = torch.optim.Adam(self.netD.parameters(), lr=opt.lr, betas=(0.5, 0.999))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
        self.losses = {}

    def forward(self, edges, photo):
        self.edges, self.photo = edges, photo
        with torch.autocast("cpu", dtype=torch.float16):
            self.fake = self.netG(edges)

    def _score(self, img, label):
        out = self.netD(self.edges, img.detach())
        return F.mse_loss(out, torch.full_like(out, label))

    def update_d(self):
        set_requires_grad(self.netD, True)
        self.optD.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = 0.5 * (self._score(self.photo, 1.0) + self._score(self.fake, 0.0))
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optD)
        self.losses["D"] = loss.item()

    def update_g(self):
        self.optG.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            adv = self._score(self.fake, 1.0)
            colour = (self.fake.float().mean() - self.photo.mean()).abs().item()
            loss = adv + self.opt.lambda_mean * colour
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optG)
        self.losses["G"] = loss.item()

    def optimize(self, edges, photo):
        self.forward(edges, photo)
        self.update_d()
        self.update_g()
        self.scaler.update()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=40)
    p.add_argument("--batch", type=int, default=6)
    p.add_argument("--size", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--lambda-mean", type=float, default=0.1)
    opt = p.parse_args()
    torch.manual_seed(42)
    model = Pix2Pix(opt)
    for i, (edges, photo) in enumerate(itertools.islice(PairStream(opt.batch, opt.size, 1), opt.iters)):
        model.optimize(edges, photo)
        if i % 5 == 0:
            text = " ".join(f"{k} {v:.4f}" for k, v in model.losses.items())
            print(f"iter {i} {text} scale {model.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
