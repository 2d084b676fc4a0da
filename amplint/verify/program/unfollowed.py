"""Calls that verify can't follow, and which of them may train with what they are given. No torch here."""

from __future__ import annotations

import re
import sys
from typing import Generic

from amplint.model.objects.amp_objects import given, objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.scopes import owner_class
from amplint.verify.program.callers import Callers
from amplint.verify.program.code_file import AnyFile, CodeFile
from amplint.verify.program.files import Files

_TRAINS = re.compile(r"(?i)backward|unscale|scaler\b")
# What a function is called that is given an optimizer or scaler and doesn't train with it.
HARMLESS = re.compile(
    r"(?i)save|load|checkpoint|log|print|sched|lr|write|state|summary|info|^get|learning_rate|register|^add|^wait|synchroni"
    r"|hook|restore|resume|len|warm|broadcast|append|track|report|^to$|isinstance"
)
# And one that gets ready what it is given: it may unscale where a backward has left gradients.
PREPARES = re.compile(r"(?i)build|create|make|prepare|setup|init")
# What a function is called that trains, wherever it comes from.
_BY_NAME = re.compile(r"(?i)train|(^|_)(fit|step|run|loop|epochs?|optimi[sz]e)(_|$)")
_STEPS = re.compile(r"(?i)step|optimi|backward|train_")  # the same of a method that a class inherits
KNOWN = {*sys.stdlib_module_names, "builtins", "torch"}  # whose functions don't train with what they are given


class Unfollowed(Generic[AnyFile]):
    """Says which calls can't be followed, and what they may do."""

    def __init__(self, files: Files[AnyFile], callers: Callers[AnyFile]) -> None:
        self._files = files
        self._callers = callers

    def may_train(self, code: AnyFile, call: ir.Call) -> bool:
        """Whether a call that can't be seen is given what trains, or says that it trains."""
        names = (
            f"{ir.last_name(call.func)} {ir.last_name(call.func.base) if isinstance(call.func, ir.Attribute) else ''}"
        )
        if _TRAINS.search(names):
            return True
        if self.is_harmless(code, call):
            return False
        known = objects(code.module)
        return self.is_given_scaler(code, call) or any(known.is_optimizer(each) is not None for each in given(call))

    @staticmethod
    def steps_by_itself(code: AnyFile, call: ir.Call) -> bool:
        """Whether a call that can't be seen is an optimizer's own way to step: `optimizer.step(bs=size)`."""
        func = call.func
        if not isinstance(func, ir.Attribute) or "step" not in func.attr:
            return False
        return objects(code.module).is_optimizer(func.base) is not None

    def hides_training(self, code: AnyFile, call: ir.Call) -> bool:
        """Whether a call is of a function that is kept or handed around out of sight, by a name of training.

        It is kept in an attribute of `self` or in a variable, or is a parameter.
        """
        func = call.func
        if not _BY_NAME.search(ir.last_name(func)) or self.is_harmless(code, call):
            return False
        if isinstance(func, ir.Attribute):
            return any(
                not any(True for _ in self._callers.function_in(*each)) for each in self._callers.stored(code, func)
            )
        if not isinstance(func, ir.Name) or code.leads_on(call):
            return False
        function = ir.function_of(func)
        is_given = function is not None and function.param(func.name) is not None
        return is_given or any(isinstance(each, Assigned) for each in code.module.names.bindings(func))

    def inherits_training(self, code: AnyFile, call: ir.Call) -> str:
        """The class out of sight, as it is written, that has the method which a call of `self` runs.

        Empty where the method is in sight, or is not called like what trains.
        """
        func = call.func
        cls = owner_class(func) if isinstance(func, ir.Attribute) else None
        if cls is None or not isinstance(func, ir.Attribute) or not _STEPS.search(func.attr):
            return ""
        bases = [*self._files.bases(code, cls)]
        if any(each.stored(func.attr) for _, each in bases) or any(
            True for _ in self._files.method(code, cls, func.attr)
        ):
            return ""
        return next(
            (
                of.text(base.value)
                for of, each in bases
                for base in each.bases
                if not isinstance(self._files.what(of, base.value), ir.Class)
                and not any(name.partition(".")[0] in KNOWN for name in of.module.names.of(base.value))
            ),
            "",
        )

    def is_followed(self, code: AnyFile, call: ir.Call) -> bool:
        """Whether all that a call can run is a function of the program, or makes an instance of a class of it."""
        if isinstance(call.func, (ir.Name, ir.Attribute)) and isinstance(self._files.what(code, call.func), ir.Class):
            return True
        return code.leads_on(call) and self._callers.is_whole(code, call.func)

    def is_harmless(self, code: AnyFile, call: ir.Call) -> bool:
        """Whether a call that can't be followed trains nothing, by what it is called, or where that comes from."""
        names = code.module.names.of(call.func)
        if names and all(each.partition(".")[0] in KNOWN for each in names):
            return True
        name = called(code, call)
        return bool(HARMLESS.search(name) or PREPARES.search(name)) or self.is_plain(code, call)

    def is_plain(self, code: AnyFile, call: ir.Call) -> bool:
        """Whether a call runs what a file of the project without AMP has: a function, or a method of such an object."""
        if self._files.is_plain(code, call.func):
            return True
        made = self._callers.looked_at(code, call.func.base) if isinstance(call.func, ir.Attribute) else []
        return bool(made) and all(
            isinstance(source, ir.Call) and self._files.is_plain(of, source.func) for of, source in made
        )

    def is_given_scaler(self, code: AnyFile, call: ir.Call) -> bool:
        """Whether a scaler is among the arguments of a call."""
        return any(self._callers.is_scaler(code, each) for each in given(call))


def called(code: CodeFile, call: ir.Call) -> str:
    """What a call is of: the last word, or the text of what has none, as `STEPS[name]`; "" where that is a call."""
    return ir.last_name(call.func) or ("" if isinstance(call.func, ir.Call) else code.text(call.func))


def makes(call: ir.Call) -> bool:
    """Whether a call constructs something, going by the spelling of what is called; `D(x)` and `G(z)` run models."""
    name = ir.last_name(call.func).lstrip("_")
    return name[:1].isupper() and len(name) > 1
