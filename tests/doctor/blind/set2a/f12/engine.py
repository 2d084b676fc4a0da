import time
from functools import wraps

import torch


def timed(fn):
    @wraps(fn)
    def inner(*args, **kwargs):
        start = time.perf_counter()
        result = fn(*args, **kwargs)
        inner.seconds += time.perf_counter() - start
        return result

    inner.seconds = 0.0
    return inner


class Meter:
    def __init__(self):
        self.sum = self.n = 0

    def add(self, value, n):
        self.sum, self.n = self.sum + value * n, self.n + n

    @property
    def mean(self):
        return self.sum / max(self.n, 1)


@timed
@torch.autocast("cpu", dtype=torch.float16)
def train_epoch(model, loader, loss_fn, opt, scaler, sched=None):
    model.train()
    meter = Meter()
    for x, y in loader:
        opt.zero_grad(set_to_none=True)
        loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if sched is not None:
            sched.step()
        meter.add(loss.item(), len(y))
    return meter.mean


@timed
@torch.no_grad()
@torch.autocast("cpu", dtype=torch.float16)
def evaluate(model, loader, score_fn):
    model.eval()
    meter = Meter()
    for x, y in loader:
        meter.add(score_fn(model(x), y), len(y))
    return meter.mean
