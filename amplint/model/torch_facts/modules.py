"""Modules of torch: the methods that return the module that they are called on, and what wraps one."""

from __future__ import annotations

# Methods that may put a module on another device.
MOVES = ("to", "cuda", "cpu", "xpu", "npu", "ipu", "mtia", "type", "share_memory", "to_empty")
# Those that cast it.
CASTS = ("float", "double", "half", "bfloat16")
RETURNS_ITSELF = (*MOVES, *CASTS, "train", "eval", "requires_grad_", "apply")
DATA_PARALLEL = {
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel",
}
# What is called with a module, and gives one that runs it.
WRAPPERS = DATA_PARALLEL | {
    "torch.compile",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
}
# Modules with a length: an empty one is false.
CONTAINERS = {
    f"torch.nn.{name}" for name in ("Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")
}
