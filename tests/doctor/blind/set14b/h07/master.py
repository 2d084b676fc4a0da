import torch


class MasterOptimizer:
    """float32 copies of a half model's parameters, with a loss scale that follows overflows."""

    def __init__(self, params, make, scale=2.0 ** 18, window=60):
        self.half = [p for p in params if p.requires_grad]
        self.master = [p.detach().float().requires_grad_() for p in self.half]
        self.inner = make(self.master)
        self.scale, self.window, self.good = scale, window, 0
        self.skipped = 0

    def backward(self, loss):
        for p in self.half:
            p.grad = None
        (loss.float() * self.scale).backward()

    def step(self, max_norm):
        for m, p in zip(self.master, self.half):
            m.grad = p.grad.float() / self.scale
        norm = torch.nn.utils.clip_grad_norm_(self.master, max_norm)
        if not torch.isfinite(norm):
            self.scale, self.good = max(self.scale / 2, 1.0), 0
            self.skipped += 1
            return norm
        self.inner.step()
        with torch.no_grad():
            for m, p in zip(self.master, self.half):
                p.copy_(m)
        self.good += 1
        if self.good % self.window == 0:
            self.scale *= 2
        return norm
