import contextlib
from dataclasses import dataclass
from typing import Any

import torch

_DTYPES = {"16": torch.float16, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass
class Precision:
    name: str
    device_type: str
    scaler: Any

    def forward_context(self):
        if self.name == "32":
            return contextlib.nullcontext()
        return torch.autocast(self.device_type, dtype=_DTYPES[self.name])


def setup_precision(name, device):
    name = str(name).replace("-mixed", "")
    scaler = None
    if name in ("16", "fp16"):
        scaler = torch.amp.GradScaler(init_scale=2.0 ** 14)
    return Precision(name, device.type, scaler)
