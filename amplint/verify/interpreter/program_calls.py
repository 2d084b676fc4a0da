"""Calling functions, classes and inherited methods of the program."""

from __future__ import annotations

from typing import Any

from amplint.model.syntax import ir
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.functions import Functions
from amplint.verify.interpreter.generators import Generators
from amplint.verify.interpreter.instances import Instances
from amplint.verify.interpreter.standins import ClassValue, Closure, Instance, Manager, Raised, Site
from amplint.verify.interpreter.unseen_calls import UnseenCalls
from amplint.verify.interpreter.value_queries import text_of

_SHORT = 15  # statements of a function that is run though nothing in it matters to AMP


class ProgramCalls:
    """Calls what the program defines: runs it, where that matters to AMP or is short."""

    def __init__(
        self,
        evaluator: Evaluator,
        functions: Functions,
        generators: Generators,
        instances: Instances,
        unseen: UnseenCalls,
    ) -> None:
        self._evaluator = evaluator
        self._functions = functions
        self._generators = generators
        self._instances = instances
        self._unseen = unseen

    def closure(self, called: Closure, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of a function of the program returns."""
        function, code = called.function, called.frame.code
        short = sum(1 for _ in ir.walk_statements(function.body)) <= _SHORT
        names = {name for each in function.decorators for name in code.module.names.of(each)}
        if "contextlib.contextmanager" in names:
            return Manager(called, args, kwargs)
        matters = code.function_matters(function)
        if function.is_generator and short and not matters:
            return self._generators.collect(called, args, kwargs)
        if matters and not function.is_generator:
            return self._functions.apply(called, args, kwargs)
        if short and not function.is_generator:
            try:
                return self._functions.apply(called, args, kwargs)
            except Raised as raised:  # as it hangs on what is out of sight, or is for subclasses to define
                if raised.error is not None:
                    raise
        return self._unseen.value(site, [called.own, *args, *kwargs.values()], text_of(called.own), trains=matters)

    def construct(self, cls: ClassValue, args: list[Any], kwargs: dict[str, Any], site: Site) -> Instance:
        """The instance that a call of a class of the program makes."""
        parent = site.call.parent
        target = parent.targets[0] if isinstance(parent, ir.Assign) and parent.targets else None
        instance = Instance(cls, site.code.text(target if target is not None else site.call))
        found = self._instances.attribute(instance, "__init__")
        instance.given = (
            self._functions.parameters(found.function, [instance, *args], kwargs, found.frame)
            if isinstance(found, Closure)
            else {}
        )
        instance.attributes.pop("__init__", None)
        return instance

    def of_super(self, func: ir.Attribute, site: Site) -> Any:
        """What a call of a method of `super()` returns."""
        around = ir.function_of(func)
        while around is not None and around.cls is None:
            around = around.outer
        args, kwargs = self._evaluator.arguments(site)
        own_frame = site.frame.find(around.scope) if around is not None else None
        own = own_frame.variables.get(around.params[0].name) if own_frame and around and around.params else None
        if isinstance(own, Instance) and around is not None and around.cls is not None:
            for base in [*self._instances.bases(ClassValue(around.cls, own.cls.frame))][1:]:
                found = self._instances.of_class(base, func.attr, own)
                if isinstance(found, Closure):
                    return self.closure(found, args, kwargs, site)
        return self._unseen.value(site, [own, *args, *kwargs.values()], None)
