"""Making autocast regions."""

from __future__ import annotations

from typing import Any

import torch

from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST
from amplint.verify.interpreter.amp_events import AmpEvents
from amplint.verify.interpreter.run_record import RunRecord
from amplint.verify.interpreter.standins import Closure, Site, Unknown
from amplint.verify.interpreter.truth import Truth
from amplint.verify.interpreter.value_queries import is_simple
from amplint.verify.interpreter.world import Stage

REGIONS = {AUTOCAST, *OLD_AUTOCAST}


class RegionCalls:
    """Makes autocast regions of torch's own."""

    def __init__(self, stage: Stage, record: RunRecord, truth: Truth, events: AmpEvents) -> None:
        self._stage = stage
        self._record = record
        self._truth = truth
        self._events = events

    def made(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """An autocast region, made."""
        order = (
            ("device_type", "dtype", "enabled", "cache_enabled")
            if name == AUTOCAST
            else ("enabled", "dtype", "cache_enabled")
        )
        given = dict(zip(order, args, strict=False)) | kwargs
        if len(args) == 1 and isinstance(args[0], Closure) and name in OLD_AUTOCAST:
            return args[0]
        for key, value in list(given.items()):
            if not is_simple(value):
                self._settle(given, key, site)
        if isinstance(given.get("enabled"), torch.Tensor):
            given["enabled"] = bool(given["enabled"])
        made: Any = {AUTOCAST: torch.amp.autocast, "torch.cuda.amp.autocast": torch.cuda.amp.autocast}.get(
            name, torch.cpu.amp.autocast_mode.autocast
        )
        count = len(args)
        positional = [given.pop(key) for key in order[:count] if key in given]
        return self._events.run(site, lambda: made(*positional, **given), of_amp=True)

    def _settle(self, given: dict[str, Any], key: str, site: Site) -> None:
        """Give an argument out of sight a value, or leave it out."""
        value = given[key]
        if key == "enabled":
            given[key] = self._truth.of(value, matters=True)
        elif key == "device_type":
            role = value.role if isinstance(value, Unknown) else None
            given[key] = role if isinstance(role, torch.device) else self._stage.device
        else:
            del given[key]
        self._record.note(site.code, site.call, f"{key} is {given.get(key, 'left out')}")
