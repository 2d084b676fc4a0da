"""The qualified names of autocast and GradScaler, and what autocast does where nothing is given.

See docs/amp-facts.md, "Arguments (AMP201 to AMP215)".
"""

from __future__ import annotations

AUTOCAST = "torch.amp.autocast"
OLD_AUTOCAST = {"torch.cuda.amp.autocast": "cuda", "torch.cpu.amp.autocast": "cpu"}
SCALER = "torch.amp.GradScaler"
OLD_SCALER = {"torch.cuda.amp.GradScaler": "cuda", "torch.cpu.amp.GradScaler": "cpu"}
# autocast's dtype where none is given (torch/amp/autocast_mode.py of torch 2.13).
DEFAULT_DTYPE = {
    "cuda": "float16",
    "xpu": "float16",
    "mps": "float16",
    "cpu": "bfloat16",
    "hpu": "bfloat16",
    "xla": "bfloat16",
}
SHARDED_SCALER = "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"
SCALERS = {SCALER, *OLD_SCALER, SHARDED_SCALER}
# Classes of libraries whose objects keep a scaler of torch's kind, and give and load its state (timm 1.0).
KEEPS_SCALER = {f"timm.utils.{place}{name}" for place in ("", "cuda.") for name in ("NativeScaler", "ApexScaler")}
# Classes whose objects save and load the states of a model and of all else that they are given (fvcore 0.1.5).
CHECKPOINTERS = {
    "fvcore.common.checkpoint.Checkpointer",
    "detectron2.checkpoint.Checkpointer",
    *(f"detectron2.checkpoint.{place}DetectionCheckpointer" for place in ("", "detection_checkpoint.")),
}
ACCELERATE = {"accelerate.Accelerator", "accelerate.accelerator.Accelerator"}
# What every scaler has, for `hasattr(scaler, "unscale_")`.
SCALER_METHODS = (
    "scale", "unscale_", "step", "update", "get_scale", "is_enabled", "state_dict", "load_state_dict",
    "get_growth_factor", "set_growth_factor", "get_backoff_factor", "set_backoff_factor", "get_growth_interval",
    "set_growth_interval",
)  # fmt: skip
