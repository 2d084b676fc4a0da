import math

from torch.optim.lr_scheduler import LambdaLR


def noam(d_model, warmup):
    def factor(step):
        step = max(step, 1)
        return d_model ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)
    return factor


def cosine(total):
    return lambda step: 0.5 * (1 + math.cos(math.pi * min(step, total) / total))


def build_scheduler(optimizer, cfg):
    if cfg.name == "noam":
        return LambdaLR(optimizer, noam(cfg.d_model, cfg.warmup))
    return LambdaLR(optimizer, cosine(200))
