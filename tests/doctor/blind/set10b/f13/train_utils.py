import torch


def tidy(grad):
    return torch.nan_to_num(grad, nan=0.0, posinf=0.0, neginf=0.0)


def prepare(model, lr, betas=(0.9, 0.98)):
    """Weight decay groups and gradient callbacks, as in the rest of the repo."""
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim < 2 or "emb" in name else decay).append(p)
        p.register_hook(tidy)
    groups = [{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=betas)


class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.n = 0.0, 0

    def add(self, value, n=1):
        self.total += float(value) * n
        self.n += n

    @property
    def mean(self):
        return self.total / max(1, self.n)
