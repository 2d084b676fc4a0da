"""What training calls may do that can't be seen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from amplint.model.objects.amp_objects import given, objects
from amplint.model.syntax import ir
from amplint.verify.interpreter.allowed_calls import library
from amplint.verify.interpreter.run_state import RunRecord
from amplint.verify.interpreter.standins import Dotted, Site, Unknown, origins
from amplint.verify.interpreter.world import Stage
from amplint.verify.program.program import STEPS
from amplint.verify.program.unfollowed import HARMLESS, PREPARES, called, makes

_TRAINS = re.compile(r"^(manual_)?backward|_backward$|unscale")
_HOOK = re.compile(r"(on|before|after|pre|post)_")
# What a function is called that changes the gradients of what it is given by more than a constant factor.
_CHANGES = re.compile(
    r"(?i)clip(?!.*(weight|param))|(normali[sz]e|project|mask|centrali[sz]e|perturb|rescale|scale)_?grad"
    r"|grad(ient)?s?_?(normali[sz]|projec|mask|centrali[sz]|perturb|rescal)"
)


@dataclass(eq=False)
class UnseenTraining:
    """Remembers the calls that can do anything to what is trained.

    Those of hooks for a backward are some of them where they say so, or where nobody else makes gradients.
    """

    _record: RunRecord
    _stage: Stage
    _hooks: dict[ir.Call, tuple[str, str]] = field(default_factory=dict)  # with line and text
    _has_gradients: bool = False  # a backward in sight has run
    _awaits_step: bool = False  # and no step since

    def unseen(self, site: Site, inputs: list[Any]) -> None:
        """A call out of sight is run."""
        if self._may_train(site, inputs):
            self.may_do_anything(site)

    def may_do_anything(self, site: Site) -> None:
        """What a call does to what is trained can't be seen."""
        self._record.unseen_effects.setdefault(site.where, site.text)

    def event(self, kind: str) -> None:
        """An event in sight is run."""
        if kind in ("unscale_", *STEPS) and not self._has_gradients:
            self._record.unseen_effects |= dict(self._hooks.values())
        if kind in ("backward", "zero_grad"):
            self._has_gradients = kind == "backward"
        if kind in ("backward", "zero_grad", *STEPS):
            self._awaits_step = kind == "backward"

    def decides(self, value: Any) -> None:
        """Something that matters is done as a value is true: what says that it has run a backward may have."""
        for call in origins(value) if self._hooks else ():
            if call in self._hooks:
                where, text = self._hooks[call]
                self._record.unseen_effects.setdefault(where, text)

    def _may_train(self, site: Site, inputs: list[Any]) -> bool:
        """Whether an unseen call can clip, step or scale: it says so, or is given a scaler or optimizer."""
        name = ir.last_name(site.call.func)
        if _TRAINS.search(name.removeprefix("on_")):
            if not _HOOK.match(name):
                return True
            self._hooks[site.call] = site.where, site.text
        known = library(site.code, site.call.func)
        names = site.code.module.names.of(site.call.func)
        if names and all(each.startswith("builtins.") for each in names):
            return False
        if isinstance(known, Dotted) and known.name.startswith(("torch.", "builtins.")):
            return False
        if site.code.unfollowed.is_plain(site.code, site.call):
            return False
        if self._has_gradients and _CHANGES.search(name):
            if any(map(self._stage.is_weights, inputs)) or is_given_tools(site, inputs):
                return True
        whole = called(site.code, site.call)
        if HARMLESS.search(whole) or (PREPARES.search(whole) and not self._awaits_step):
            return False
        if makes(site.call):  # of an optimizer a scheduler, most often
            return site.code.unfollowed.is_given_scaler(site.code, site.call)
        return is_given_tools(site, inputs)


def is_given_tools(site: Site, values: Iterable[Any]) -> bool:
    """Whether an optimizer is among the arguments of a call, or a scaler, by what it is or how it is used."""
    kinds = (torch.amp.GradScaler, torch.optim.Optimizer)
    if any(isinstance(each.role if isinstance(each, Unknown) else each, kinds) for each in values):
        return True
    known = objects(site.code.module)
    return any(known.is_scaler(each) is not None for each in given(site.call))
