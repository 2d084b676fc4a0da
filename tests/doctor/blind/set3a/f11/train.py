import argparse
import copy

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from agc import adaptive_clip_grad
from model import NFNetTiny


def shapes(n, seed, size=16):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 10, (n,), generator=g)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    phase = torch.rand(n, 1, 1, generator=g) * 6.28
    ang = y.float()[:, None, None] * 0.314
    img = torch.sin((xx * ang.cos() + yy * ang.sin()) * 1.1 + phase)
    return img[:, None].repeat(1, 3, 1, 1) + 0.3 * torch.randn(n, 3, size, size, generator=g), y


class Ema:
    def __init__(self, model, decay):
        self.shadow, self.decay = copy.deepcopy(model), decay

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.decay)


class Trainer:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        self.train_loader = DataLoader(TensorDataset(*shapes(480, 1)), batch_size=args.batch, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(TensorDataset(*shapes(100, 2)), batch_size=50)
        self.model = NFNetTiny()
        self.ema = Ema(self.model, 0.9)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=1e-5)
        steps = args.epochs * len(self.train_loader) // args.accum
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, steps)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 13)

    def clip(self):
        body = [p for n, p in self.model.named_parameters() if not n.startswith("fc")]
        return adaptive_clip_grad(body, self.args.clip)

    def optimizer_step(self):
        frac = self.clip()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad(set_to_none=True)
        self.sched.step()
        self.ema.update(self.model)
        return frac

    def train_epoch(self, epoch):
        self.model.train()
        tot = n = 0
        for i, (x, y) in enumerate(self.train_loader):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(self.model(x), y, label_smoothing=0.1)
            self.scaler.scale(loss / self.args.accum).backward()
            tot, n = tot + loss.item() * len(y), n + len(y)
            if (i + 1) % self.args.accum == 0:
                frac = self.optimizer_step()
        print(f"epoch {epoch} loss {tot / n:.4f} clipped {frac:.2f} lr {self.sched.get_last_lr()[0]:.4f}")

    @torch.inference_mode()
    def validate(self):
        net = self.ema.shadow.eval()
        ok = sum((net(x).argmax(1) == y).sum().item() for x, y in self.val_loader)
        print(f"   ema accuracy {ok / 100:.3f}")

    def fit(self):
        for e in range(self.args.epochs):
            self.train_epoch(e)
            self.validate()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch", type=int, default=20)
    ap.add_argument("--accum", type=int, default=2)
    ap.add_argument("--lr", type=float, default=0.1)
    ap.add_argument("--clip", type=float, default=0.02)
    ap.add_argument("--seed", type=int, default=0)
    Trainer(ap.parse_args()).fit()
