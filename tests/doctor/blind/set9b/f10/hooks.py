import torch


class GradientFilter:
    def __init__(self, limit=None):
        self.limit = limit

    @torch.no_grad()
    def __call__(self, model):
        for p in model.parameters():
            if p.grad is None:
                continue
            torch.nan_to_num(p.grad, nan=0.0, posinf=0.0, neginf=0.0, out=p.grad)
            if self.limit is not None:
                p.grad.clamp_(-self.limit, self.limit)


class ClipGradients:
    def __init__(self, max_norm):
        self.max_norm = max_norm

    def __call__(self, model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), self.max_norm)


class GradientStats:
    def __init__(self):
        self.count = 0

    def __call__(self, model):
        self.count += 1

    def summary(self):
        return f"updates {self.count}"
