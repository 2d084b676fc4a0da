import torch


def tidy(grad):
    return torch.nan_to_num(grad, nan=0.0, posinf=0.0, neginf=0.0)


def prepare(module):
    """Initialises the weights and installs the usual hooks."""
    for m in module.modules():
        if isinstance(m, (torch.nn.Conv2d, torch.nn.ConvTranspose2d)):
            torch.nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
            torch.nn.init.zeros_(m.bias)
    for p in module.parameters():
        if p.requires_grad:
            p.register_hook(tidy)
    return module


class Throughput:
    def __init__(self):
        self.images = 0
        self.loss = 0.0

    def update(self, loss, n):
        self.loss += loss
        self.images += n

    def mean(self):
        return self.loss / max(self.images, 1)
