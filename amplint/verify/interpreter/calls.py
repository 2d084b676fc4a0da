"""Calling what an interpreted program calls: by what it is."""

from __future__ import annotations

from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.verify.interpreter.accelerate_calls import Accelerators
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.instances import Instances
from amplint.verify.interpreter.libraries import library
from amplint.verify.interpreter.library_calls import LibraryCalls
from amplint.verify.interpreter.method_calls import MethodCalls
from amplint.verify.interpreter.program_calls import ProgramCalls
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import (
    ClassValue,
    Closure,
    Dotted,
    Frame,
    Impossible,
    Instance,
    Method,
    NoneUsedError,
    Partial,
    Raised,
    Site,
    Unknown,
)
from amplint.verify.interpreter.unseen_calls import UnseenCalls
from amplint.verify.interpreter.value_queries import text_of


class Calls:
    """Evaluates calls, each by the part that knows what is called."""

    def __init__(
        self,
        *,
        state: RunState,
        evaluator: Evaluator,
        instances: Instances,
        accelerators: Accelerators,
        programs: ProgramCalls,
        methods: MethodCalls,
        libraries: LibraryCalls,
        unseen: UnseenCalls,
    ) -> None:
        self._state = state
        self._evaluator = evaluator
        self._instances = instances
        self._accelerators = accelerators
        self._programs = programs
        self._methods = methods
        self._libraries = libraries
        self._unseen = unseen

    def call(self, call: ir.Call, frame: Frame) -> Any:
        """The value of a call."""
        site = Site(call, frame)
        func = call.func
        known = library(site.code, func)
        if known is not None:
            args, kwargs = self._evaluator.arguments(site)
            return (
                self._libraries.value(known.name, args, kwargs, site)
                if isinstance(known, Dotted)
                else Unknown(site.text)
            )
        if isinstance(func, ir.Attribute):
            return self._of_attribute(func, site)
        called = self._evaluator.evaluate(func, frame)
        if called is None:
            raise _none_used(site, "is not callable")
        args, kwargs = self._evaluator.arguments(site)
        return self.call_value(called, args, kwargs, site)

    def _of_attribute(self, func: ir.Attribute, site: Site) -> Any:
        """The value of `base.name(...)`."""
        if isinstance(func.base, ir.Call) and site.code.module.names.of(func.base.func) == {"builtins.super"}:
            return self._programs.of_super(func, site)
        base = self._evaluator.evaluate(func.base, site.frame)
        if isinstance(base, Unknown) and (base.fixed or base.origin is None) and self._state.facts.must_be_none(base):
            self._state.stage.knowledge.there.add(base.text)
            raise Impossible(f"{site.where}: {base.text} is None")
        if base is None:
            raise _none_used(site, f"has no attribute '{func.attr}'")
        args, kwargs = self._evaluator.arguments(site)
        accelerator = self._accelerators.as_accelerator(base, func.base, site.frame)
        if accelerator is not None:
            return self._accelerators.method(accelerator, func.attr, args, kwargs, site)
        return self._methods.value(base, func.attr, args, kwargs, site)

    def call_value(self, called: Any, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of a value returns."""
        if isinstance(called, Closure):
            return self._programs.closure(called, args, kwargs, site)
        if isinstance(called, ClassValue):
            return self._programs.construct(called, args, kwargs, site)
        if isinstance(called, Partial):
            return self.call_value(called.func, [*called.args, *args], {**called.kwargs, **kwargs}, site)
        if isinstance(called, Method):
            return self._methods.value(called.owner, called.name, args, kwargs, site)
        if isinstance(called, Dotted):
            return self._libraries.value(called.name, args, kwargs, site)
        if isinstance(called, Instance):
            return self._of_instance(called, args, kwargs, site)
        if isinstance(called, torch.autocast) and len(args) == 1 and isinstance(args[0], Closure):
            return args[0]
        forward = isinstance(called, Unknown)
        if isinstance(called, Unknown):
            called.called = True
        return self._unseen.value(site, [*args, *kwargs.values()], text_of(called), forward=forward)

    def _of_instance(self, called: Instance, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of an instance returns; a model's is out of sight, where it makes no gradients itself."""
        model = self._instances.is_module(called)
        found = self._instances.attribute(called, "forward" if model else "__call__")
        if isinstance(found, Closure) and (not model or _trains(found)):
            return self._programs.closure(found, args, kwargs, site)
        return self._unseen.value(site, [*args, *kwargs.values()], called.text, forward=True)


def _trains(method: Closure) -> bool:
    """Whether a model's `forward` makes gradients itself: then it is no model's."""
    return "backward" in method.frame.code.kinds_in(method.frame.code.reach(method.function))


def _none_used(site: Site, why: str) -> Raised:
    """What the program raises where it uses None as an object."""
    error = NoneUsedError(f"'NoneType' object {why}")
    return Raised(str(error), site.where, error)
