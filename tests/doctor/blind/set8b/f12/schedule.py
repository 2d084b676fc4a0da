import math

from torch.optim.lr_scheduler import LambdaLR


def warm_rate(warmup):
    return lambda step: (step + 1) / warmup


def cosine_rate(warmup, total):
    def rate(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))
    return rate


def make_schedule(kind, optimizer, warmup, total):
    if kind == "cosine":
        return LambdaLR(optimizer, cosine_rate(warmup, total))
    if kind == "warmup":
        return LambdaLR(optimizer, warm_rate(warmup))
    raise ValueError(kind)
