"""The parameters of what programs call of torch, in their order, as far as something asks for them; without `self`.

Source: torch 2.13, Python's os, and timm 1.0, accelerate 1.0. The tests hold torch's against torch.
"""

from __future__ import annotations

_SCALER = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")
# What the old autocast takes.
OLD_ORDER = ("enabled", "dtype", "cache_enabled")

SIGNATURES: dict[str, tuple[str, ...]] = {
    "torch.amp.autocast": ("device_type", "dtype", "enabled", "cache_enabled"),
    "torch.cuda.amp.autocast": OLD_ORDER,
    "torch.cpu.amp.autocast": OLD_ORDER,
    "torch.amp.GradScaler": ("device", *_SCALER),
    "torch.cuda.amp.GradScaler": _SCALER,
    "torch.cpu.amp.GradScaler": _SCALER,
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler": (
        "device", "init_scale", "backoff_factor", "growth_factor", "growth_interval", "enabled",
    ),
    "torch.amp.GradScaler.scale": ("outputs",),
    "torch.amp.GradScaler.unscale_": ("optimizer",),
    "torch.amp.GradScaler.step": ("optimizer",),
    "torch.amp.GradScaler.update": ("new_scale",),
    "torch.nn.utils.clip_grad_norm_": ("parameters", "max_norm", "norm_type", "error_if_nonfinite", "foreach"),
    "torch.nn.utils.clip_grad_norm": ("parameters", "max_norm", "norm_type", "error_if_nonfinite", "foreach"),
    "torch.nn.utils.clip_grad_value_": ("parameters", "clip_value", "foreach"),
    "torch.nn.utils.clip_grads_with_norm_": ("parameters", "max_norm", "total_norm", "foreach"),
    "torch.autograd.backward": ("tensors", "grad_tensors", "retain_graph", "create_graph"),
    "torch.autograd.grad": ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph"),
    "torch.autograd.set_detect_anomaly": ("mode", "check_nan"),
    "torch.autograd.detect_anomaly": ("check_nan",),
    "torch.set_grad_enabled": ("mode",),
    "torch.inference_mode": ("mode",),
    "torch.optim.Optimizer": ("params",),
    "torch.optim.Optimizer.zero_grad": ("set_to_none",),
    "torch.optim.Optimizer.step": ("closure",),
    "torch.optim.lr_scheduler.LRScheduler": ("optimizer",),
    "torch.nn.functional.cross_entropy": ("input", "target"),
    "torch.nn.functional.binary_cross_entropy": ("input", "target"),
    "torch.nn.DataParallel": ("module", "device_ids"),
    "torch.nn.parallel.DistributedDataParallel": ("module", "device_ids"),
    "torch.distributed.fsdp.FullyShardedDataParallel": ("module", "process_group", "sharding_strategy"),
    "torch.distributed.fsdp.FullyShardedDataParallel.optim_state_dict": ("model", "optim"),
    "torch.distributed.fsdp.FullyShardedDataParallel.full_optim_state_dict": ("model", "optim"),
    "torch.distributed.fsdp.FullyShardedDataParallel.sharded_optim_state_dict": ("model", "optim"),
    "torch.distributed.checkpoint.state_dict.get_state_dict": ("model", "optimizers"),
    "torch.distributed.checkpoint.state_dict.get_optimizer_state_dict": ("model", "optimizers"),
    "torch.distributed.checkpoint.state_dict.set_state_dict": ("model", "optimizers"),
    "torch.distributed.checkpoint.state_dict.set_optimizer_state_dict": ("model", "optimizers", "optim_state_dict"),
    "torch.distributed.init_process_group": ("backend",),
    "torch.cuda.graph": ("cuda_graph",),
    "torch.device": ("type", "index"),
    "os.getenv": ("key", "default"),
    "torch.nn.utils.clip_grad_value": ("parameters", "clip_value"),
    "accelerate.Accelerator.clip_grad_norm_": ("parameters", "max_norm", "norm_type"),
    "accelerate.Accelerator.clip_grad_value_": ("parameters", "clip_value"),
    "timm.utils.dispatch_clip_grad": ("parameters", "value", "mode", "norm_type"),
    "timm.utils.adaptive_clip_grad": ("parameters", "clip_factor", "eps", "norm_type"),
}  # fmt: skip

# What gives, and loads, the state of the optimizers that it is given.
GETS_STATES = {
    name for name in SIGNATURES if name.endswith(("optim_state_dict", ".get_state_dict", ".get_optimizer_state_dict"))
}
SETS_STATES = {name for name in SIGNATURES if name.endswith((".set_state_dict", ".set_optimizer_state_dict"))}
# What clips gradients.
CLIPS = {name for name in SIGNATURES if "clip_grad" in name and not name.startswith("accelerate.")}
