import argparse
import os

import torch
from torch.utils.data import DataLoader

from diffusion import Denoiser, GaussianDiffusion, SpiralPoints

HERE = os.path.dirname(os.path.abspath(__file__))


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {k: v.clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            self.shadow[k].lerp_(v, 1 - self.decay)


class DiffusionTrainer:
    def __init__(self, args):
        self.args = args
        self.model = Denoiser(width=args.width)
        self.process = GaussianDiffusion(args.timesteps)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu")
        self.ema = EMA(self.model, 0.99)
        self.loader = DataLoader(SpiralPoints(2048), args.batch_size, shuffle=True, drop_last=True)
        self.epoch = 0
        if args.resume:
            self.load(os.path.join(HERE, args.resume))

    def save(self, path):
        torch.save({
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "ema": self.ema.shadow,
            "epoch": self.epoch,
        }, path)

    def load(self, path):
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.ema.shadow = state["ema"]
        self.epoch = state["epoch"]
        print(f"resumed from epoch {self.epoch}")

    def loss(self, x0):
        t = torch.randint(0, self.process.steps, (x0.shape[0],))
        noise = torch.randn_like(x0)
        xt = self.process.q_sample(x0, t, noise)
        with torch.autocast("cpu", dtype=torch.float16):
            pred = self.model(xt, t.float() / self.process.steps)
        return (pred.float() - noise).pow(2).mean()

    def run(self):
        last = self.epoch + self.args.epochs
        while self.epoch < last:
            total = 0.0
            for x0 in self.loader:
                self.optimizer.zero_grad(set_to_none=True)
                loss = self.loss(x0)
                self.scaler.scale(loss).backward()
                self.scaler.unscale_(self.optimizer)
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.ema.update(self.model)
                total += loss.item()
            self.epoch += 1
            print(f"epoch {self.epoch} mse {total / len(self.loader):.4f}")
        if self.args.out:
            self.save(self.args.out)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--timesteps", type=int, default=100)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--resume", default="")
    p.add_argument("--out", default="")
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    DiffusionTrainer(args).run()
