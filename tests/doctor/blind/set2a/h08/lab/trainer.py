import os

import torch
from torch import nn

from .losses import REGISTRY
from .precision import half


class Trainer:
    def __init__(self, net, classes, dim, lr, weights):
        self.net, self.centres = net, nn.Parameter(torch.randn(classes, dim))
        self.opts = {"net": torch.optim.AdamW(net.parameters(), lr=lr), "centres": torch.optim.SGD([self.centres], lr=10 * lr)}
        self.scaler = torch.amp.GradScaler("cpu")
        self.ema = {k: torch.empty_like(v) for k, v in net.state_dict().items()}
        self.weights, self.step_no, self.lowest = weights, 0, float("inf")

    @half
    def losses(self, x, label):
        emb = self.net(x)
        return {n: REGISTRY[n](emb, label, self.centres) for n in self.weights}

    def step(self, x, label):
        parts = self.losses(x, label)
        total = sum(self.weights[n] * v for n, v in parts.items())
        for opt in self.opts.values():
            opt.zero_grad()
        self.scaler.scale(total).backward()
        self.scaler.unscale_(self.opts["net"])
        nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        for opt in self.opts.values():
            self.scaler.step(opt)
        self.scaler.update()
        self.average()
        self.step_no += 1
        self.lowest = min(self.lowest, total.item())
        return {n: v.item() for n, v in parts.items()}

    @torch.no_grad()
    def average(self, decay=0.9):
        for k, v in self.net.state_dict().items():
            if self.step_no == 0:
                self.ema[k].copy_(v)
            else:
                self.ema[k].lerp_(v, 1 - decay)

    def save(self, path):
        torch.save({"net": self.net.state_dict(), "centres": self.centres.data, "ema": self.ema, "scaler": self.scaler.state_dict(),
                    "opts": {k: o.state_dict() for k, o in self.opts.items()}, "step": self.step_no}, path + ".tmp")
        os.replace(path + ".tmp", path)

    def load(self, path):
        state = torch.load(path)
        self.net.load_state_dict(state["net"])
        self.centres.data.copy_(state["centres"])
        self.ema, self.step_no = state["ema"], state["step"]
        self.scaler.load_state_dict(state["scaler"])
        for k, o in self.opts.items():
            o.load_state_dict(state["opts"][k])
