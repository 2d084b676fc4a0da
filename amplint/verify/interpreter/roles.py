"""What values are for torch: scalers, optimizers, parameters, losses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from amplint.model.inference.values import held
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import OF_SCALER
from amplint.model.syntax import ir
from amplint.model.torch_facts.grad_modes import ENDS_GRADIENTS
from amplint.verify.interpreter.evaluate import Evaluator, Truth
from amplint.verify.interpreter.lazy_frames import LazyFrames
from amplint.verify.interpreter.run_state import RunRecord
from amplint.verify.interpreter.standins import (
    MISSING,
    CannotFollow,
    Frame,
    Instance,
    Site,
    Unknown,
    lasting,
    none_used,
    parameters_in,
)
from amplint.verify.interpreter.world import Birth, Stage
from amplint.verify.program.callers import argument
from amplint.verify.program.unfollowed import makes
from amplint.verify.program.unset_options import is_never_set


@dataclass(eq=False)
class Roles:
    """Gives values out of sight the role that the program uses them in."""

    _stage: Stage
    _record: RunRecord
    _evaluator: Evaluator
    _truth: Truth
    _frames: LazyFrames
    _combined: dict[Instance, torch.optim.Optimizer] = field(default_factory=dict)  # of objects of the program
    _factors: list[Unknown] = field(default_factory=list)  # taken for numbers since the last loss

    def tool(self, value: ir.Value, found: Any, frame: Frame) -> Any:
        """The scaler or optimizer that a value out of sight is, where the text uses it as one."""
        known = objects(frame.code.module)
        if not isinstance(found, Unknown) or found.role is not None:
            return found.role if isinstance(found, Unknown) else found
        if known.is_scaler(value) is not None:
            found.role = self._scaler(value, frame)
        elif known.is_optimizer(value) is not None:
            found.role = self._optimizer(found)
        return found if found.role is None else found.role

    def as_scaler(self, value: Unknown, site: Site) -> torch.amp.GradScaler:
        """The scaler that a value out of sight is."""
        if value.role is None:
            func = site.call.func
            value.role = self._scaler(func.base if isinstance(func, ir.Attribute) else func, site.frame)
            self._record.note(site.code, site.call, f"{value.text} is a stand-in GradScaler")
        found: torch.amp.GradScaler = self._role(value, torch.amp.GradScaler, site)
        return found

    def _scaler(self, written: ir.Value, frame: Frame) -> torch.amp.GradScaler:
        """A scaler of the bench: on where the program's is, by the calls that make it."""
        option = held(frame.code.module, written)
        if isinstance(option, ir.Attribute) and is_never_set(frame.code, option):
            where = frame.code.where(option)
            raise CannotFollow(f"{where}: nothing in the project sets {frame.code.text(option)}: AttributeError")
        made = frame.code.callers.scalers(frame.code, written)
        given = [(of, call, each) for of, call in made if (each := call.keyword("enabled")) is not None]
        enabled = True
        if given and len(given) == len(made):
            of, call, each = given[0]
            value = self._passed_with(call, each, frame)
            if value is MISSING:
                value = self._evaluator.evaluate(each, self._frames.of_call(call, of))
            enabled = self._truth.of(value, matters=True)
        return self._stage.scaler(enabled=enabled)

    def _passed_with(self, made: ir.Call, enabled: ir.Value, frame: Frame) -> Any:
        """The parameter that is given what enables a scaler, where that is made; else `MISSING`."""
        function = frame.function
        if function is None or not isinstance(enabled, ir.Name):
            return MISSING
        for of, call in frame.code.callers.calls(function):
            if ir.function_of(call) is not ir.function_of(made):
                continue
            for param in function.params:
                passed = argument(call, function, param.name)
                if isinstance(passed, ir.Name) and of.module.names.bindings(passed) == of.module.names.bindings(
                    enabled
                ):
                    return (frame.variables | frame.given).get(param.name, MISSING)
        return MISSING

    def as_optimizer(self, value: Any, site: Site) -> torch.optim.Optimizer:
        """The optimizer that a value is."""
        if isinstance(value, torch.optim.Optimizer):
            return value
        if isinstance(value, Instance) and (found := self._of_others(value, site)) is not None:
            return found
        if not isinstance(value, Unknown):
            raise CannotFollow(f"{site.where}: {_not_followed(value, 'optimizer')}")
        if value.role is None:
            value.role = self._optimizer(value)
            self._record.note(site.code, site.call, f"{value.text} is a stand-in SGD")
        role: torch.optim.Optimizer = self._role(value, torch.optim.Optimizer, site)
        return role

    def _of_others(self, value: Instance, site: Site) -> torch.optim.Optimizer | None:
        """One for all the optimizers that an object of the program steps in its own `step`; None where it has none.

        Nor where its step does more with the gradients than that.
        """
        if value not in self._combined:
            parameters = [*dict.fromkeys(each for of in self._stepped_by(value) for each in _parameters_of(of))]
            if not parameters:
                return None
            self._combined[value] = found = self._stage.optimizer(value.identity, parameters, made=True)
            self._stage.trains(found, parameters)
            self._record.note(site.code, site.call, f"{value.text} is a stand-in SGD")
        return self._combined[value]

    def _stepped_by(self, value: Instance) -> Iterator[torch.optim.Optimizer]:
        """The optimizers that an object's own `step` uses."""
        code = value.cls.frame.code
        step = next(code.files.method(code, value.cls.cls, "step"), None)
        if step is None or not step.params:
            return
        code = code.owner(step)
        if code.kinds_in(code.reach(step)) & {*OF_SCALER, "clip", "backward"}:
            return
        frame = self._frames.of_function(step, self._frames.variables_of(code), value)
        for each in ir.values_below(step.body):
            if (
                isinstance(each, ir.Attribute)
                and isinstance(each.base, ir.Name)
                and each.base.name == step.params[0].name
            ):
                yield from self._optimizers_in(self._evaluator.evaluate(each, frame), each, frame)

    def _optimizers_in(self, held: Any, written: ir.Value, frame: Frame) -> Iterator[torch.optim.Optimizer]:
        """The optimizers that a value is, or has as items."""
        if isinstance(held, (list, tuple, dict)):
            for each in held.values() if isinstance(held, dict) else held:
                yield from self._optimizers_in(each, written, frame)
        elif isinstance(held, Instance):
            yield from self._stepped_by(held)
        else:
            found = self.tool(written, held, frame)
            if isinstance(found, torch.optim.Optimizer):
                yield found

    def _optimizer(self, value: Unknown) -> torch.optim.Optimizer:
        """An optimizer of the bench; what a call has returned that was given something is a new one."""
        made = value.origin is not None and bool(value.inputs)
        return self._stage.optimizer(value.identity, parameters_in(value.inputs), made=made)

    def _role(self, value: Unknown, kind: type, site: Site) -> Any:
        if not isinstance(value.role, kind):
            raise CannotFollow(f"{site.where}: {value.text} is used as two different things")
        return value.role

    def as_parameters(self, value: Any) -> list[torch.Tensor]:
        """The parameters that a value is or has."""
        if isinstance(value, torch.Tensor):
            return [value]
        if isinstance(value, Unknown) and value.origin is not None and not value.called:
            return self._of_call(value)
        if isinstance(value, (Unknown, Instance)):
            return list(self._stage.parameters(value.identity, lasting(value)))
        if isinstance(value, dict):
            return self.as_parameters(value.get("params"))
        if isinstance(value, (list, tuple)):
            return [
                each
                for item in value
                for each in self.as_parameters(item[-1] if isinstance(item, tuple) and item else item)
            ]
        return []

    def _of_call(self, value: Unknown) -> list[torch.Tensor]:
        """The parameters that an unseen call returns: those of the models that it is given, where these are known."""
        given = [each for each in value.inputs if isinstance(each, (Unknown, Instance))]
        owners = self._stage.knowledge.owners(value.identity, [each.identity for each in given])
        if owners:
            return self.as_parameters([each for each in given if each.identity in owners])
        return list(self._stage.parameters(value.identity, lasting(value), is_model=False))

    def as_loss(self, value: Any, site: Site) -> Any:
        """The tensor that a value is which is scaled, or whose gradients are asked for."""
        factors, self._factors = self._factors, []
        if isinstance(value, torch.Tensor):
            if not value.requires_grad:
                self._demand_all(factors, Birth.LOSS)
            return value if value.numel() == 1 else self._stage.loss(None, [value])
        if isinstance(value, Unknown) and value.tensor is not None:
            return value.tensor if value.tensor.numel() == 1 else self._stage.loss(None, [value.tensor])
        if value is None:
            raise none_used(site, "is not a tensor")
        if not isinstance(value, Unknown):
            raise CannotFollow(f"{site.where}: {_not_followed(value, 'loss')}")
        if not self._demand(value, Birth.LOSS):
            self._record.note(site.code, site.call, f"{value.text} is a stand-in loss")
        return self._stage.loss(None, ())

    def outputs(self, values: Iterable[Any]) -> None:
        """Learn which unseen calls the values come from that a loss is made of."""
        self._demand_all(values, Birth.OUTPUT)

    def _demand(self, value: Any, what: Birth) -> bool:
        """Learn which unseen calls a value comes from: the next run gives them tensors."""
        if isinstance(value, (list, tuple, dict)):
            return self._demand_all(value.values() if isinstance(value, dict) else value, what)
        if not isinstance(value, Unknown) or value.fixed:
            return False
        if value.origin is None:
            return self._demand_all(value.inputs, what)
        if (
            value.called
            or value.role is not None
            or value.identity in self._stage.knowledge.nets
            or makes(value.origin)
        ):
            return False
        if ir.last_name(value.origin.func) in ENDS_GRADIENTS:
            return False
        forward = what is Birth.LOSS or value.forward
        if forward:
            self._stage.knowledge.learn_birth(value.origin, what)
        return self._demand_all(value.inputs, Birth.OUTPUT) or forward

    def factor(self, value: Unknown) -> None:
        """A value out of sight is taken for a number, next to a tensor without gradients: the next loss may need it."""
        self._factors.append(value)

    def summand(self, value: Unknown) -> None:
        """Learn that a value out of sight is added to one that has gradients: a model's output, the next run has."""
        if value.origin is not None and ir.last_name(value.origin.func) in ENDS_GRADIENTS:
            return
        if value.origin is not None and value.net in self._stage.knowledge.nets:
            self._stage.knowledge.learn_birth(value.origin, Birth.OUTPUT)
        for each in value.inputs:
            if isinstance(each, Unknown):
                self.summand(each)

    def _demand_all(self, values: Iterable[Any], what: Birth) -> bool:
        found = [self._demand(each, what) for each in values]
        return any(found)


def _parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def _not_followed(value: Any, what: str) -> str:
    """That a value which is used as an optimizer or a loss can't be followed, in words."""
    if isinstance(value, Instance):
        return f"amplint doesn't interpret {value.cls.cls.name} as {'an' if what == 'optimizer' else 'a'} {what}"
    return f"amplint can't see what is used as the {what}"
