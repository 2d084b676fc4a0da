import contextlib
import warnings

import torch

warnings.filterwarnings("ignore", category=UserWarning)

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


class Precision:
    def __init__(self, name, device_type="cpu", growth_interval=500):
        self.name = name
        self.device_type = device_type
        self.scaler = torch.amp.GradScaler(growth_interval=growth_interval, enabled=name == "fp16")

    def context(self):
        if self.name == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device_type, dtype=DTYPES[self.name])

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self, optimizer):
        self.scaler.step(optimizer)
        self.scaler.update()

    def state_dict(self):
        return {"name": self.name, "scaler": self.scaler.state_dict()}
