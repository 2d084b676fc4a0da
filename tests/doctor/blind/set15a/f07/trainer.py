import math

import torch
from torch.optim.lr_scheduler import LambdaLR


class Trainer:
    def __init__(self, model, loss_fn, lr=0.2, momentum=0.9, weight_decay=5e-4, warmup=50, total=400,
                 amp_dtype=torch.bfloat16, log_every=2):
        self.model = model
        self.loss_fn = loss_fn
        self.amp_dtype = amp_dtype
        self.log_every = log_every
        decay, no_decay = [], []
        for n, p in model.named_parameters():
            (no_decay if p.ndim == 1 else decay).append(p)
        self.optimizer = torch.optim.SGD(
            [{"params": decay, "weight_decay": weight_decay}, {"params": no_decay, "weight_decay": 0.0}],
            lr=lr, momentum=momentum, nesterov=True)

        def factor(step):
            if step < warmup:
                return float(step + 1)
            return max(0.0, (total - step) / (total - warmup)) * warmup

        self.scheduler = LambdaLR(self.optimizer, factor)
        self.step_no = 0

    def fit(self, loader):
        self.model.train()
        for x, y in loader:
            loss, acc = self.training_step(x, y)
            if self.step_no % self.log_every == 0:
                lr = self.scheduler.get_last_lr()[0]
                print(f"step {self.step_no:4d} | loss {loss:.4f} | acc {acc:.3f} | lr {lr:.3g}")
            if not math.isfinite(loss):
                raise RuntimeError(f"loss is {loss} at step {self.step_no}")
            self.step_no += 1

    def training_step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=self.amp_dtype):
            out = self.model(x)
            loss = self.loss_fn(out, y)
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.item(), (out.argmax(1) == y).float().mean().item()
