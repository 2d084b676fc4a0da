import copy
import os

import torch


class Callback:
    def before_step(self, loop, norm): return True
    def after_step(self, loop): ...
    def after_epoch(self, loop): ...


class Ema(Callback):
    def __init__(self, model, decay):
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay, self.updates = decay, 0

    @torch.no_grad()
    def after_step(self, loop):
        self.updates += 1
        d = min(self.decay, self.updates / (self.updates + 10))
        for s, p in zip(self.shadow.parameters(), loop.model.parameters()):
            s.lerp_(p, 1 - d)


class SkipSpikes(Callback):
    """Does not follow a step whose gradient is far above the usual ones."""

    def __init__(self, factor, warmup=10):
        self.factor, self.warmup, self.usual, self.seen, self.skipped = factor, warmup, None, 0, 0

    def before_step(self, loop, norm):
        self.seen += 1
        if self.usual is not None and self.seen > self.warmup and norm > self.factor * self.usual:
            self.skipped += 1
            return False
        self.usual = norm if self.usual is None else 0.9 * self.usual + 0.1 * norm
        return True


class Checkpoint(Callback):
    def __init__(self, path, ema):
        self.path, self.ema = path, ema

    def after_epoch(self, loop):
        torch.save({"model": loop.model.state_dict(), "opt": loop.opt.state_dict(), "epoch": loop.epoch,
                    "shadow": self.ema.shadow.state_dict(), "updates": self.ema.updates}, self.path)

    def restore(self, loop):
        state = torch.load(self.path)
        loop.model.load_state_dict(state["model"])
        loop.opt.load_state_dict(state["opt"])
        self.ema.shadow.load_state_dict(state["shadow"])
        self.ema.updates, loop.epoch = state["updates"], state["epoch"] + 1
        os.remove(self.path)


class EarlyStop(Callback):
    def __init__(self, score, patience):
        self.score, self.patience, self.best, self.bad = score, patience, float("inf"), 0

    def after_epoch(self, loop):
        value = self.score()
        self.bad = 0 if value < self.best - 1e-3 else self.bad + 1
        self.best = min(self.best, value)
        loop.stop = self.bad >= self.patience
        print(f"epoch {loop.epoch} loss {loop.last:.4f} ema loss {value:.4f} best {self.best:.4f}")


class Loop:
    def __init__(self, model, opt, objective, callbacks):
        self.model, self.opt, self.objective, self.callbacks = model, opt, objective, callbacks
        self.epoch, self.stop, self.last = 0, False, float("nan")

    def fit(self, batches, epochs):
        while self.epoch < epochs and not self.stop:
            losses = []
            for batch in batches():
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = self.objective(self.model, batch)
                self.opt.zero_grad(set_to_none=True)
                loss.backward()
                norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0).item()
                losses.append(loss.item())
                if all(cb.before_step(self, norm) for cb in self.callbacks):
                    self.opt.step()
                    for cb in self.callbacks:
                        cb.after_step(self)
            self.last = sorted(losses)[len(losses) // 2]
            for cb in self.callbacks:
                cb.after_epoch(self)
            self.epoch += 1
