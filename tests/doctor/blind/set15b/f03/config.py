import argparse
from dataclasses import dataclass

import torch


@dataclass
class Precision:
    name: str
    dtype: torch.dtype
    use_scaler: bool


def get_args():
    p = argparse.ArgumentParser(description="spectral mask speech denoiser")
    p.add_argument("--precision", default="fp16", help="fp32 | fp16 | bf16")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--accum", type=int, default=4)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--bins", type=int, default=48)
    p.add_argument("--frames", type=int, default=64)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


def get_precision(name):
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[name]
    use_scaler = name in ("float16", "half", "16")
    return Precision(name, dtype, use_scaler)
