import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Callback:
    def epoch_begin(self, run):
        pass

    def batch_end(self, run, loss):
        pass

    def epoch_end(self, run):
        pass


class Printer(Callback):
    def epoch_begin(self, run):
        self.values = []

    def batch_end(self, run, loss):
        self.values.append(loss)

    def epoch_end(self, run):
        print(f"epoch {run.epoch:2d} loss {sum(self.values) / len(self.values):.4f} lr {run.opt.param_groups[0]['lr']:.2e}")


class WarmRestart(Callback):
    """Each epoch starts as a fresh run does: momentum forgotten, learning rate and loss scale back at their first values."""

    def __init__(self, loss_scale, every=1, begin=0):
        self.loss_scale, self.every, self.begin = loss_scale, every, begin

    def epoch_begin(self, run):
        if run.epoch < self.begin or run.epoch % self.every:
            return
        run.opt.state.clear()
        for group in run.opt.param_groups:
            group["lr"] = run.args.lr
        run.scaler.update(self.loss_scale)


class Decay(Callback):
    def batch_end(self, run, loss):
        for group in run.opt.param_groups:
            group["lr"] *= 0.97


class Denoise(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.down = nn.Conv2d(1, width, 3, 2, 1)
        self.mid = nn.Conv2d(width, width, 3, 1, 1)
        self.up = nn.ConvTranspose2d(width, 1, 4, 2, 1)

    def forward(self, x):
        h = F.silu(self.down(x))
        return x - self.up(h + F.silu(self.mid(h)))


class Run:
    def __init__(self, args, data, callbacks):
        self.args, self.callbacks = args, callbacks
        self.loader = DataLoader(data, batch_size=16, shuffle=True)
        self.model = Denoise()
        self.opt = torch.optim.NAdam(self.model.parameters(), lr=args.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        self.epoch = -1

    def tell(self, what, *args):
        for c in self.callbacks:
            getattr(c, what)(self, *args)

    def batch(self, noisy, clean):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(self.model(noisy).float(), clean, reduction="none").sum(dim=(1, 2, 3)).mean()
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    def go(self):
        for self.epoch in range(self.args.epochs):
            self.tell("epoch_begin")
            for noisy, clean in self.loader:
                self.tell("batch_end", self.batch(noisy, clean))
            self.tell("epoch_end")


def blobs(n, g):
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    at = torch.rand(n, 2, 1, 1, generator=g) * 1.6 - 0.8
    clean = torch.exp(-((xs - at[:, 0]) ** 2 + (ys - at[:, 1]) ** 2) * 6)[:, None]
    return TensorDataset(clean + 0.3 * torch.randn(n, 1, 16, 16, generator=g), clean)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=9)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--loss-scale", type=float, default=2.0 ** 30)
    ap.add_argument("--restart-from", type=int, default=3)
    opts = ap.parse_args()
    torch.manual_seed(60)
    data = blobs(192, torch.Generator().manual_seed(61))
    Run(opts, data, [WarmRestart(opts.loss_scale, begin=opts.restart_from), Decay(), Printer()]).go()
