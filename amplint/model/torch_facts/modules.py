"""Methods of `torch.nn.Module` that return the module that they are called on."""

from __future__ import annotations

# Those that may put it on another device.
MOVES = ("to", "cuda", "cpu", "xpu", "npu", "ipu", "mtia", "type", "share_memory", "to_empty")
# Those that cast it.
CASTS = ("float", "double", "half", "bfloat16")
RETURNS_ITSELF = (*MOVES, *CASTS, "train", "eval", "requires_grad_", "apply")
