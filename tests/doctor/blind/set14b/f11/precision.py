import torch


class Precision:
    """Holds everything that depends on the numeric mode: '32', 'bf16-mixed' or '16-mixed'."""

    def __init__(self, mode):
        self.mode = mode
        self.half = mode.startswith("16") or mode.startswith("bf16")
        self.dtype = torch.bfloat16 if mode.startswith("bf16") else torch.float16
        self.scaler = torch.amp.GradScaler("cpu", enabled=mode in ("16", "fp16"))

    def context(self):
        return torch.autocast("cpu", dtype=self.dtype, enabled=self.half)

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self, optimizer):
        self.scaler.step(optimizer)
        self.scaler.update()
