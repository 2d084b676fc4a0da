"""The old names of AMP: what each is called now, since when, and how its arguments move.

Signatures and releases: torch/amp/autocast_mode.py, torch/amp/grad_scaler.py and torch/cuda/amp/ of torch 1.6 to 2.13.
"""

from __future__ import annotations

from typing import NamedTuple


class Legacy(NamedTuple):
    """One old name. `style` says how a call's arguments change:

    - "keywords": the device in front, old positional arguments become the keywords `parameters` (autocast)
    - "front": the device in front, the others stay (the scaler, the state functions)
    - "device_type": the keyword `device_type` is added (custom_fwd, custom_bwd)
    """

    code: str
    old: str
    module: str
    name: str
    device: str
    since: str
    style: str
    parameters: tuple[str, ...] = ()


# What the old autocast takes, in its order.
OLD_ORDER = ("enabled", "dtype", "cache_enabled")

LEGACY: dict[str, Legacy] = {
    entry.old: entry
    for entry in (
        *(
            Legacy("AMP101", f"torch.{d}.amp.autocast", "torch.amp", "autocast", d, "1.12", "keywords", OLD_ORDER)
            for d in ("cuda", "cpu")
        ),
        *(
            Legacy("AMP102", f"torch.{d}.amp.GradScaler", "torch.amp", "GradScaler", d, "2.3", "front")
            for d in ("cuda", "cpu")
        ),
        *(
            Legacy("AMP103", f"torch.cuda.amp.{name}", "torch.amp", name, "cuda", "2.4", "device_type")
            for name in ("custom_fwd", "custom_bwd")
        ),
        Legacy("AMP104", "torch.get_autocast_gpu_dtype", "torch", "get_autocast_dtype", "cuda", "2.4", "front"),
        Legacy("AMP104", "torch.set_autocast_gpu_dtype", "torch", "set_autocast_dtype", "cuda", "2.4", "front"),
        *(
            Legacy("AMP104", f"torch.{old.format(d)}", "torch", new, d, "2.4", "front")
            for d in ("cpu", "xla", "ipu")
            for old, new in (
                ("is_autocast_{}_enabled", "is_autocast_enabled"),
                ("set_autocast_{}_enabled", "set_autocast_enabled"),
                ("get_autocast_{}_dtype", "get_autocast_dtype"),
                ("set_autocast_{}_dtype", "set_autocast_dtype"),
            )
        ),
    )
}

# Modules of which nothing but the names above is public: an import of one can be renamed as a whole.
LEGACY_MODULES = {
    "torch.cuda.amp": "torch.amp",
    "torch.cpu.amp": "torch.amp",
}
