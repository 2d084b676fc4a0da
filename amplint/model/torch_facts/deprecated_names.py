"""The old names of AMP: what each is called now, since when, how its arguments move, and what a release of torch has.

Signatures and releases: torch/amp/autocast_mode.py, torch/amp/grad_scaler.py and torch/cuda/amp/ of torch 1.6 to 2.13.
What old and new do differently: docs/amp-facts.md, "From old names to new ones"; docs/amp-facts.md, "Releases".
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.torch_facts.signatures import OLD_ORDER

if TYPE_CHECKING:
    from amplint.base.target import Target


class LegacyKind(Enum):
    """What an old name is one of: autocast, the scaler, custom_fwd and custom_bwd, a function of autocast's state."""

    AUTOCAST = auto()
    GRAD_SCALER = auto()
    CUSTOM_FUNCTION = auto()
    STATE_FUNCTION = auto()


class Legacy(NamedTuple):
    """One old name. `style` says how a call's arguments change:

    - "keywords": the device in front, old positional arguments become the keywords `parameters` (autocast)
    - "front": the device in front, the others stay (the scaler, the state functions)
    - "device_type": the keyword `device_type` is added (custom_fwd, custom_bwd)
    """

    kind: LegacyKind
    old: str
    module: str
    name: str
    device: str
    since: str
    style: str
    parameters: tuple[str, ...] = ()

    @property
    def replaceable_since(self) -> str:
        """The release that first has what replaces it: torch.autocast came before torch.amp.autocast."""
        return _AUTOCAST if self.style == "keywords" else self.since


LEGACY: dict[str, Legacy] = {
    entry.old: entry
    for entry in (
        *(
            Legacy(
                LegacyKind.AUTOCAST,
                f"torch.{d}.amp.autocast",
                "torch.amp",
                "autocast",
                d,
                "1.12",
                "keywords",
                OLD_ORDER,
            )
            for d in ("cuda", "cpu")
        ),
        *(
            Legacy(LegacyKind.GRAD_SCALER, f"torch.{d}.amp.GradScaler", "torch.amp", "GradScaler", d, "2.3", "front")
            for d in ("cuda", "cpu")
        ),
        *(
            Legacy(
                LegacyKind.CUSTOM_FUNCTION, f"torch.cuda.amp.{name}", "torch.amp", name, "cuda", "2.4", "device_type"
            )
            for name in ("custom_fwd", "custom_bwd")
        ),
        Legacy(
            LegacyKind.STATE_FUNCTION,
            "torch.get_autocast_gpu_dtype",
            "torch",
            "get_autocast_dtype",
            "cuda",
            "2.4",
            "front",
        ),
        Legacy(
            LegacyKind.STATE_FUNCTION,
            "torch.set_autocast_gpu_dtype",
            "torch",
            "set_autocast_dtype",
            "cuda",
            "2.4",
            "front",
        ),
        *(
            Legacy(LegacyKind.STATE_FUNCTION, f"torch.{old.format(d)}", "torch", new, d, "2.4", "front")
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

# The first release with an autocast and a GradScaler of its own, and those that first have the names for every device.
FIRST = "1.6"
_AUTOCAST, _SCALER = "1.10", "2.3"
_DEPRECATED = "2.4"  # from which on torch warns of the old names
_SINCE = {"torch.amp": FIRST, "torch.autocast": _AUTOCAST, "torch.amp.autocast": _AUTOCAST}
_SINCE |= {"torch.amp.GradScaler": _SCALER, "torch.cuda.amp": FIRST}


def is_in_all(target: Target, name: str) -> bool:
    """Whether each release that a project admits is known to have a name of torch's."""
    return name in _SINCE and target.guarantees(_SINCE[name])


def unavoidable(target: Target) -> list[str]:
    """The old names that a project can't leave, or that are not deprecated in any release that it admits."""
    deprecates = target.reaches(_DEPRECATED)
    return [old for old, each in LEGACY.items() if not (deprecates and target.guarantees(each.replaceable_since))]


def autocast_for(target: Target, device: str = '"cuda"', *, off: bool = False, torch: str = "torch") -> str | None:
    """How autocast for a device, which is source text, is made in every release that a project admits; None: it isn't.

    `off`: with `enabled=False`. `torch` is what the file calls torch.
    """
    enabled = "enabled=False" if off else ""
    if target.guarantees(_AUTOCAST):
        return f"{torch}.autocast({', '.join(filter(None, (device, enabled)))})"
    return f"{torch}.cuda.amp.autocast({enabled})" if device == '"cuda"' else None


def scaler_for(target: Target, device: str = '"cuda"') -> str | None:
    """How a GradScaler for a device, which is source text, is made in every release that a project admits.

    None: it isn't, which is so for devices other than cuda before torch 2.3.
    """
    if target.guarantees(_SCALER):
        return f"torch.amp.GradScaler({device})"
    return "torch.cuda.amp.GradScaler()" if device == '"cuda"' else None
