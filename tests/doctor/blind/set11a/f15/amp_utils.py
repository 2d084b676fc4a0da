"""Thin wrapper that keeps the options of our old training code."""
import contextlib

import torch


class MixedPrecision:
    def __init__(self, opt_level="O1", loss_scale=1.0, device="cpu"):
        self.active = opt_level != "O0"
        self.device = device
        self.loss_scale = float(loss_scale)
        self.scaler = torch.amp.GradScaler(device, init_scale=self.loss_scale, enabled=self.active)

    def context(self):
        if not self.active:
            return contextlib.nullcontext()
        return torch.autocast(self.device, dtype=torch.float16)

    def optimize(self, loss, optimizer, parameters=None, max_norm=None):
        optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        norm = None
        if max_norm is not None:
            self.scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        self.scaler.step(optimizer)
        self.scaler.update(self.loss_scale)
        return norm
