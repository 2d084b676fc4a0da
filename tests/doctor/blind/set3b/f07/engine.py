from collections import defaultdict

import torch


class Engine:
    def __init__(self, net, objective, opt, scaler, dtype=torch.float16):
        self.net, self.objective, self.opt, self.scaler = net, objective, opt, scaler
        self.dtype = dtype
        self.hooks = defaultdict(list)

    def on(self, event):
        def register(fn):
            self.hooks[event].append(fn)
            return fn
        return register

    def fire(self, event, **kw):
        for fn in self.hooks[event]:
            fn(self, **kw)

    def train_batch(self, noisy, clean, valid, epoch):
        with torch.autocast("cpu", dtype=self.dtype):
            out = self.net(noisy, valid)
        loss, parts = self.objective(out, clean, epoch)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.detach(), parts

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for noisy, clean, valid in loader:
                loss, parts = self.train_batch(noisy, clean, valid, epoch)
                self.fire("batch", epoch=epoch, loss=loss, parts=parts)
            self.fire("epoch", epoch=epoch)
