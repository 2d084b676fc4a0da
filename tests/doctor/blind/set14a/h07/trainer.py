import math
import os
import tempfile

import torch
import torch.nn.functional as F


class EarlyStopping:
    def __init__(self, patience=3, tol=5e-3):
        self.patience, self.tol, self.best, self.bad = patience, tol, math.inf, 0

    def __call__(self, value):
        if value < self.best - self.tol:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


class Trainer:
    def __init__(self, model, lr=3e-3, accumulate=2, init_scale=2.0 ** 28, folder=None):
        self.model, self.accumulate = model, accumulate
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda s: min(1.0, (s + 1) / 10))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=40)
        self.stopper = EarlyStopping()
        self.epoch, self.updates, self.skips = 0, 0, 0
        self.path = os.path.join(folder or tempfile.mkdtemp(), "last.pt")

    def state(self):
        return {"model": self.model.state_dict(), "opt": self.opt.state_dict(), "sched": self.sched.state_dict(),
                "scaler": self.scaler.state_dict(), "epoch": self.epoch, "best": self.stopper.best}

    def save(self):
        torch.save(self.state(), self.path)

    def resume(self, path):
        s = torch.load(path, weights_only=True)
        self.model.load_state_dict(s["model"])
        self.opt.load_state_dict(s["opt"])
        self.sched.load_state_dict(s["sched"])
        self.scaler.load_state_dict(s["scaler"])
        self.epoch, self.stopper.best = s["epoch"], s["best"]
        print(f"resumed at epoch {self.epoch}, scale {self.scaler.get_scale():.0f}, lr {self.sched.get_last_lr()[0]:.2e}")

    def update(self):
        self.scaler.unscale_(self.opt)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
        old = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad(set_to_none=True)
        if self.scaler.get_scale() >= old:
            self.updates += 1
            self.sched.step()
        else:
            self.skips += 1

    def train_epoch(self, batches):
        self.model.train()
        total = 0.0
        for i, (x, y) in enumerate(batches):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(self.model(x), y)
            self.scaler.scale(loss / self.accumulate).backward()
            if (i + 1) % self.accumulate == 0 or i + 1 == len(batches):
                self.update()
            total += loss.item()
        return total / len(batches)

    @torch.no_grad()
    def validate(self, batches):
        self.model.eval()
        out = [(self.model(x), y) for x, y in batches]
        loss = sum(F.cross_entropy(o, y).item() for o, y in out) / len(out)
        return loss, sum((o.argmax(1) == y).float().mean().item() for o, y in out) / len(out)

    def fit(self, make_batches, val, epochs):
        while self.epoch < epochs:
            train = self.train_epoch(make_batches())
            loss, acc = self.validate(val)
            self.epoch += 1
            print(f"epoch {self.epoch:2d} train {train:.4f} val {loss:.4f} acc {acc:.3f} updates {self.updates} skips {self.skips}")
            stop = self.stopper(loss)
            self.save()
            if stop:
                print(f"early stop, best val {self.stopper.best:.4f}")
                return True
        return False
