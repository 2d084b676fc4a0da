"""What values are for torch: scalers, optimizers, parameters, losses. And calls that can't be seen."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from amplint.model.objects.amp_objects import given, objects
from amplint.model.syntax import ir
from amplint.verify.interpreter.allowed_calls import SAME_METHODS
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.standins import CannotFollow, Dotted, Frame, Instance, Raised, Site, Unknown, value_of
from amplint.verify.program.program import STEPS, Code
from amplint.verify.program.unfollowed import HARMLESS, called, makes

# Methods of an unseen object that say the same in another shape or place.
SHAPES = SAME_METHODS | {
    "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "flatten", "expand", "get", "size", "long",
    "item", "detach", "clone", "values", "items", "keys", "pop", "type", "repeat", "next", "split", "chunk",
}  # fmt: skip
_NUMBERS = ("detach", "item", "tolist", "numpy")  # methods whose results have no gradients
_TRAINS = re.compile(r"^(manual_)?backward|_backward$|unscale")
_HOOK = re.compile(r"(on|before|after|pre|post)_")


class Roles(Evaluator):
    """Gives values out of sight the role that the program uses them in."""

    def __init__(self) -> None:
        super().__init__()
        self.executed: set[ir.Value] = set()  # calls that are events
        self.unseen_effects: dict[str, str] = {}  # lines with calls that can do anything to what is trained
        # Calls of hooks for a backward, with line and text: they make gradients where they say so, or nobody else does.
        self._hooks: dict[ir.Call, tuple[str, str]] = {}
        self._has_gradients = False  # a backward in sight has run
        self.heard: list[warnings.WarningMessage] = []  # what torch warns of, as it is caught
        self.warned: dict[str, set[int]] = {}  # by warnings: the lines that have them
        self._placed = 0  # so many of them have a line

    def note(self, code: Code, node: ir.Node, what: str) -> None:
        """Remember what was run, or put in the place of what, for who asks."""
        raise NotImplementedError

    def event(self, site: Site, run: Callable[[], Any], *, of_amp: bool = False) -> Any:
        """Do what an AMP event does; an exception of torch's is the program's. `of_amp`: makes a region or scaler."""
        self.executed.add(site.call)
        self.note(site.code, site.call, "")
        kind = site.event.kind if site.event is not None else ""
        if kind in ("unscale_", *STEPS) and not self._has_gradients:
            self.unseen_effects |= dict(self._hooks.values())
        if kind in ("backward", "zero_grad"):
            self._has_gradients = kind == "backward"
        try:
            if site.code is not site.code.files.main:  # a warning is about the file that is verified
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return run()
            return self._listening(site, run)
        except (Raised, CannotFollow):
            raise
        except Exception as error:
            raise Raised(str(error), site.where, error, of_amp=of_amp) from None

    def _listening(self, site: Site, run: Callable[[], Any]) -> Any:
        """Do what an event does, and remember its line for what torch warns of; not for what is warned of inside."""
        self._placed = len(self.heard)
        try:
            return run()
        finally:
            for each in self.heard[self._placed :]:
                self.warned.setdefault(in_words(each), set()).add(site.row)
            self._placed = len(self.heard)

    def tool(self, value: ir.Value, found: Any, frame: Frame) -> Any:
        """The scaler or optimizer that a value out of sight is, where the text uses it as one."""
        known = objects(frame.code.module)
        if not isinstance(found, Unknown) or found.role is not None:
            return found.role if isinstance(found, Unknown) else found
        if known.is_scaler(value) is not None:
            found.role = self.stage.scaler()
        elif known.is_optimizer(value) is not None:
            found.role = self._optimizer(found)
        return found if found.role is None else found.role

    def as_scaler(self, value: Unknown, site: Site) -> torch.amp.GradScaler:
        """The scaler that a value out of sight is."""
        if value.role is None:
            value.role = self.stage.scaler()
            self.note(site.code, site.call, f"{value.text} is a GradScaler of the bench")
        found: torch.amp.GradScaler = self._role(value, torch.amp.GradScaler, site)
        return found

    def as_optimizer(self, value: Any, site: Site) -> torch.optim.Optimizer:
        """The optimizer that a value is."""
        if isinstance(value, torch.optim.Optimizer):
            return value
        if not isinstance(value, Unknown):
            raise CannotFollow(f"{site.where}: the optimizer is no object of torch's")
        if value.role is None:
            value.role = self._optimizer(value)
            self.note(site.code, site.call, f"{value.text} is an SGD of the bench")
        found: torch.optim.Optimizer = self._role(value, torch.optim.Optimizer, site)
        return found

    def _optimizer(self, value: Unknown) -> torch.optim.Optimizer:
        """An optimizer of the bench; what a call has returned that was given something is a new one."""
        made = value.origin is not None and bool(value.inputs)
        return self.stage.optimizer(value.identity, _parameters_in(value.inputs), made=made)

    def _role(self, value: Unknown, kind: type, site: Site) -> Any:
        if not isinstance(value.role, kind):
            raise CannotFollow(f"{site.where}: {value.text} is used as two things")
        return value.role

    def as_parameters(self, value: Any) -> list[torch.Tensor]:
        """The parameters that a value is or has."""
        if isinstance(value, torch.Tensor):
            return [value]
        if isinstance(value, Unknown):
            return list(self.stage.parameters(value.identity, lasting(value)))
        if isinstance(value, Instance):
            return list(self.stage.parameters(value.text, lasting(value)))
        if isinstance(value, dict):
            return self.as_parameters(value.get("params"))
        if isinstance(value, (list, tuple)):
            return [
                each
                for item in value
                for each in self.as_parameters(item[-1] if isinstance(item, tuple) and item else item)
            ]
        return []

    def as_loss(self, value: Any, site: Site) -> Any:
        """The tensor that a value is which is scaled, or whose gradients are asked for."""
        if isinstance(value, torch.Tensor):
            return value if value.numel() == 1 else self.stage.loss(None, [value])
        if isinstance(value, Unknown) and value.tensor is not None:
            return value.tensor if value.tensor.numel() == 1 else self.stage.loss(None, [value.tensor])
        if not isinstance(value, Unknown):
            raise CannotFollow(f"{site.where}: the loss is no tensor")
        if not self._demand(value, "loss"):
            self.note(site.code, site.call, f"{value.text} is a loss of the bench")
        return self.stage.loss(None, ())

    def _demand(self, value: Any, what: str) -> bool:
        """Learn which unseen calls a value comes from: the next run gives them tensors."""
        if isinstance(value, (list, tuple, dict)):
            return self._demand_all(value.values() if isinstance(value, dict) else value, what)
        if not isinstance(value, Unknown) or value.fixed:
            return False
        if value.origin is None:
            return self._demand_all(value.inputs, what)
        if value.called or value.role is not None or value.identity in self.stage.knowledge.nets or makes(value.origin):
            return False
        if ir.last_name(value.origin.func) in _NUMBERS:
            return False
        forward = what == "loss" or value.forward
        if forward:
            self.stage.knowledge.learn_birth(value.origin, what)
        return self._demand_all(value.inputs, "output") or forward

    def summand(self, value: Unknown) -> None:
        """Learn that a value out of sight is added to one that has gradients: a model's output, the next run has."""
        if value.origin is not None and ir.last_name(value.origin.func) in _NUMBERS:
            return
        if value.origin is not None and value.net in self.stage.knowledge.nets:
            self.stage.knowledge.learn_birth(value.origin, "output")
        for each in value.inputs:
            if isinstance(each, Unknown):
                self.summand(each)

    def truth(self, value: Any, *, matters: bool) -> bool:
        """Whether a value counts as true; what says that it has run a backward out of sight may have."""
        holds = super().truth(value, matters=matters)
        for call in _origins(value) if holds and matters and self._hooks else ():
            if call in self._hooks:
                where, text = self._hooks[call]
                self.unseen_effects.setdefault(where, text)
        return holds

    def _demand_all(self, values: Iterable[Any], what: str) -> bool:
        found = [self._demand(each, what) for each in values]
        return any(found)

    def _may_train(self, site: Site, inputs: list[Any]) -> bool:
        """Whether an unseen call can clip, step or scale: it says so, or is given a scaler or optimizer."""
        name = ir.last_name(site.call.func)
        if _TRAINS.search(name.removeprefix("on_")):
            if not _HOOK.match(name):
                return True
            self._hooks[site.call] = site.where, site.text
        known = self.library(site.code, site.call.func)
        if isinstance(known, Dotted) and known.name.startswith(("torch.", "builtins.")):
            return False
        if site.code.files.is_plain(site.code, site.call.func):
            return False
        if HARMLESS.search(called(site.code, site.call)):
            return False
        if makes(site.call):  # of an optimizer a scheduler, most often
            return site.code.unfollowed.is_given_scaler(site.code, site.call)
        return self.is_given_tools(site, inputs)

    @staticmethod
    def is_given_tools(site: Site, values: Iterable[Any]) -> bool:
        """Whether an optimizer is among the arguments of a call, or a scaler, by what it is or how it is used."""
        kinds = (torch.amp.GradScaler, torch.optim.Optimizer)
        if any(isinstance(each.role if isinstance(each, Unknown) else each, kinds) for each in values):
            return True
        known = objects(site.code.module)
        return any(known.is_scaler(each) is not None for each in given(site.call))

    def unseen(
        self, site: Site, inputs: list[Any], net: str | None, *, forward: bool = False, trains: bool = True
    ) -> Any:
        """What a call returns that can't be seen; `net` is what it is a method of, `forward`: it can be a model's.

        `trains`: whether it can train at all.
        """
        text = site.text
        if trains and self._may_train(site, inputs):
            self.unseen_effects.setdefault(site.where, text)
        born = self.stage.knowledge.born.get(site.call)
        for each in inputs:
            if isinstance(each, Unknown) and each.tensor is None and each.identity in self.stage.knowledge.leaves:
                each.tensor = self.stage.leaf()
        tensors = [each for each in tensors_in(inputs) if each.requires_grad]
        nets = self.stage.knowledge.nets
        if net is None or net not in nets:
            net = next((each for each in map(text_of, inputs) if each in nets), net)
        made: torch.Tensor | None = None
        if born == "loss":
            made = self.stage.returned(site.call, self.stage.loss(net, tensors))
            self.note(site.code, site.call, "a loss of the bench")
        elif born == "output":
            made = self.stage.output(net, tensors)
            self.note(site.code, site.call, "a model of the bench")
        elif tensors and not forward and self._shapes(site):
            made = self.stage.output(None, tensors)
        if made is not None and born is not None and net not in nets and not tensors:
            self.stage.computed(site.call, made)
        return Unknown(text, origin=site.call, forward=forward, net=net, inputs=tuple(inputs), tensor=made)

    def _shapes(self, site: Site) -> bool:
        """Whether an unseen call makes of tensors something that hangs on them: in another shape, or by an op."""
        return ir.last_name(site.call.func) in SHAPES or self.library(site.code, site.call.func) is not None


def _origins(value: Any, depth: int = 5) -> Iterator[ir.Call]:
    """The unseen calls that a value comes from."""
    if isinstance(value, Unknown) and depth:
        if value.origin is not None:
            yield value.origin
        for each in value.inputs:
            yield from _origins(each, depth - 1)


def lasting(value: Unknown | Instance) -> Any:
    """What is the same for as long as an object lives: itself where the run has made it, else how it is written."""
    root: Any = value
    while isinstance(root, Unknown) and root.origin is None and root.inputs:
        root = root.inputs[0]
    by_call = isinstance(root, Unknown) and root.origin is not None and not root.fixed
    is_made = by_call or (isinstance(root, Instance) and root.given is not None)
    return root if is_made else text_of(value)


def text_of(value: Any) -> str | None:
    """How the program writes a value that is out of sight, so that it is told from others."""
    if isinstance(value, Unknown):
        return value.identity
    return value.text if isinstance(value, Instance) else None


def tensors_in(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    """The tensors among values, in containers too."""
    for each in values:
        found = value_of(each)
        if isinstance(found, torch.Tensor) and not isinstance(found, torch.nn.Parameter):
            yield found
        elif isinstance(found, (list, tuple)):
            yield from tensors_in(found)
        elif isinstance(found, dict):
            yield from tensors_in(found.values())


def _parameters_in(values: Iterable[Any]) -> list[torch.nn.Parameter]:
    """The parameters that an unseen call was given, on their own or in containers."""
    found: list[torch.nn.Parameter] = []
    for each in values:
        if isinstance(each, torch.nn.Parameter):
            found.append(each)
        elif isinstance(each, (list, tuple, dict)):
            found += _parameters_in(each.values() if isinstance(each, dict) else each)
    return found


def is_simple(value: Any) -> bool:
    """Whether torch can be given a value as it is."""
    return value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.Tensor, torch.device))


def in_words(warning: warnings.WarningMessage) -> str:
    """A warning of torch's, with its category."""
    return f"{warning.category.__name__}: {warning.message}"
