"""Interpreting a training step of the IR on the bench. Nothing of the program's executes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.verify.fixtures.proof import said
from amplint.verify.interpreter.assumptions import Facts
from amplint.verify.interpreter.condition_values import Choices
from amplint.verify.interpreter.standins import (
    ClassValue,
    Closure,
    Dotted,
    Frame,
    Instance,
    Jumped,
    Manager,
    Raised,
    Returned,
    Site,
    Unknown,
)
from amplint.verify.interpreter.statements import Statements
from amplint.verify.interpreter.torch_calls import REGIONS
from amplint.verify.interpreter.world import Stage
from amplint.verify.program.callers import argument
from amplint.verify.program.program import STEPS, Code, Step
from amplint.verify.program.unfollowed import makes

ITERATIONS = 4  # of a loop over batches, and calls of a step that has no loop
_CAP = 64
_MOST_YIELDED = 1000


class Interpreter(Statements):
    """One run of a step. What it says of the run is in its attributes when the run is over."""

    def __init__(self, step: Step, code: Code, stage: Stage, choices: Choices, cls: ir.Class | None = None) -> None:
        super().__init__()
        self._class = cls  # whose method the step is run as
        self._entry = step
        self._code = code
        stage.clears_itself = not step.clears or stage.knowledge.cleared
        self.stage = stage
        self.facts = Facts(choices, code.periods, stage.knowledge.there)
        self.iterations = min(_CAP, max(ITERATIONS, stage.knowledge.period * 2))
        self.ended: Raised | None = None  # by an exception
        self.caught: list[str] = []  # exceptions of torch's that the program has caught, with their lines
        self.notes: dict[tuple[int, str], str] = {}  # what was run, by its line and text, and what it was replaced by
        self.touched: set[tuple[str, int]] = set()  # functions with such lines, run or only read, and the lines
        self._constructed: dict[int, dict[str, Any]] = {}  # what constructors are given, by their ids
        self._noted: set[tuple[ir.Node, str]] = set()
        self._managers: list[tuple[ir.Function, Callable[[Any], None]]] = []

    def run(self) -> None:
        """Run the step, several times where it has no loop of its own.

        Raises:
            CannotFollow: it can't be interpreted.
        """
        function = self._entry.function
        try:
            if function is None:
                frame = Frame(self._code, self._code.module.program.scope, None)
                self.block(self._code.module.program.body, frame)
                return
            outer, own = self._around(function)
            closure = Closure(function, outer, own, bound=own is not None)
            known = self._callers_arguments(function, bound=own is not None)
            for at in range(1 if self._entry.has_loop else self.iterations):
                self._busy, self.tick, self.scalers.call = False, at, at
                self.stage.iteration += 1
                given = self._unknown_arguments(function, bound=own is not None)
                self.apply(closure, [], given | {name: known[name] for name in given if name in known})
        except Raised as raised:
            self.ended = raised
        except (Jumped, Returned):  # at module level, which ast refuses
            pass

    def _unknown_arguments(self, function: ir.Function, *, bound: bool) -> dict[str, Any]:
        """Values for a function's parameters, but for those whose default is a scaler or a region."""
        return {
            each.name: Unknown(each.name)
            for each in function.params[bound:]
            if each.kind != "*" and not (each.default is not None and self._code.naming(each.default))
        }

    def _callers_arguments(self, function: ir.Function, *, bound: bool, depth: int = 3) -> dict[str, Any]:
        """The models and optimizers that the one call of a function in its file gives it.

        Of several calls, and of those in other files, what wraps a scaler: the first that gives it; None where under
        these conditions all of them give None instead.
        """
        code = self._code.owner(function)
        own = code.calls_of(function)
        if depth and len(own) == 1:
            given = self._given_by(own[0], code, function, bound=bound, depth=depth)
            optional = {each.name for each in function.params if each.default is not None}
            return {
                name: value
                for name, value in given.items()
                if (self._is_tool(value) and name not in optional) or self._wraps(value)
            }
        found: dict[str, Any] = {}
        callers = code.callers
        for name in sorted(callers.followed.get(function.id, ()) if depth else ()):
            values = []
            for of, call in callers.calls(function):
                passed = argument(call, function, name)
                if passed is not None:
                    values.append(self.evaluate(passed, self._frame_of(call, of, depth)))
                    if self._wraps(values[-1]):
                        found[name] = values[-1]
                        break
            if values and all(value is None for value in values):
                found[name] = None
        return found

    def _given_by(self, call: ir.Call, code: Code, function: ir.Function, *, bound: bool, depth: int) -> dict[str, Any]:
        """The arguments of a call, by the parameters of the function that it calls."""
        frame = self._frame_of(call, code, depth)
        args, kwargs = self.arguments(Site(call, frame))
        names = [each.name for each in function.params[bound:] if each.kind == "positional"]
        params = {each.name for each in function.params[bound:]}
        return dict(zip(names, args, strict=False)) | {key: kwargs[key] for key in kwargs if key in params}

    @staticmethod
    def _wraps(value: Any) -> bool:
        """Whether a function or an instance's methods do something to scaler or gradients, or a name makes a region."""
        if isinstance(value, Instance):
            return value.cls.frame.code.class_matters(value.cls.cls)
        if isinstance(value, Closure):
            return value.frame.code.function_matters(value.function)
        return isinstance(value, Dotted) and value.name in REGIONS

    def _is_tool(self, value: Any) -> bool:
        """Whether an argument is worth more than its name: no flag, no number, and nothing that is new in each call."""
        if isinstance(value, Unknown):
            return value.identity in self.stage.knowledge.nets or (value.origin is not None and makes(value.origin))
        if isinstance(value, (list, tuple)):
            return bool(value) and all(map(self._is_tool, value))
        return isinstance(value, (torch.optim.Optimizer, torch.nn.Parameter, Instance, Closure))

    def _frame_of(self, call: ir.Call, code: Code, depth: int) -> Frame:
        """The frame in which a call stands, whose code isn't run; its own parameters are its caller's."""
        caller = ir.function_of(call)
        if caller is None:
            return self.variables_of(code)
        outer, own = self._around(caller, depth - 1)
        frame = self.lazy_frame(caller, outer, own)
        frame.given |= self._callers_arguments(caller, bound=own is not None, depth=depth - 1)
        return frame

    def _around(self, function: ir.Function, depth: int = 3) -> tuple[Frame, Instance | None]:
        """The frame that a function was defined in, whose code isn't run, and its `self`.

        The function around it, which makes it, has been given what its callers give.
        """
        code = self._code.owner(function)
        outer = self.variables_of(code)
        if function.outer is not None:
            around, instance = self._around(function.outer, depth)
            outer = self.lazy_frame(function.outer, around, instance)
            outer.given |= self._callers_arguments(function.outer, bound=instance is not None, depth=depth)
        if function.cls is None or not function.params:
            return outer, None
        static = {name for each in function.decorators for name in code.module.names.of(each)}
        if "builtins.staticmethod" in static:
            return outer, None
        cls = self._class if function is self._entry.function and self._class is not None else function.cls
        return outer, Instance(ClassValue(cls, outer), function.params[0].name)

    def note(self, code: Code, node: ir.Node, what: str) -> None:
        """Remember what was run, or what it was replaced by."""
        self._busy = True
        if (node, what) in self._noted:
            return
        self._noted.add((node, what))
        if code is not self._code:
            key = 0, f"{code.where(node)}: {code.text(node)}"
        else:
            self.touched.add((code.known(_home, node), code.row(node)))
            if isinstance(node, ir.Value):
                self.read(code, node)
            key = code.row(node), code.text(node)
        if what or key not in self.notes:
            self.notes[key] = what

    def read(self, code: Code, value: ir.Value) -> None:
        """Remember that a run has taken something from code that isn't run, where that names a region or scaler."""
        for each in code.naming(value) if code is self._code else ():
            self.touched.add((code.known(_home, each), code.row(each)))

    def constructed(self, function: ir.Function) -> dict[str, Any]:
        """What a constructor is given where its instance comes from out of sight, as far as its class's calls say."""
        if function.id not in self._constructed:
            self._constructed[function.id] = {}  # what is made of the instance itself comes from elsewhere
            if function.id in self._code.callers.followed:
                self._constructed[function.id] = self._callers_arguments(function, bound=True)
        return self._constructed[function.id]

    def run_body(self, function: ir.Function, frame: Frame) -> Any:
        """Run a function's suite; its value."""
        try:
            self.block(function.body, frame)
        except Returned as returned:
            return returned.value
        return None

    def suspend(self, value: ir.Suspend, frame: Frame) -> Any:
        """The value of `yield` and `await`; a manager's `yield` runs the suite of its `with`."""
        found = self.evaluate(value.value, frame) if value.value is not None else None
        if value.kind == "await":
            return found
        if self._managers and self._managers[-1][0] is frame.function:
            self._managers[-1][1](found)
            return None
        return Unknown(frame.code.text(value))

    def run_with(self, statement: ir.With, frame: Frame) -> None:
        """Run `with`; a context that can't be seen does nothing."""
        self._items_of_with(statement, 0, frame)

    def _items_of_with(self, statement: ir.With, at: int, frame: Frame) -> None:
        if at == len(statement.items):
            self.block(statement.body, frame)
            return
        item = statement.items[at]
        value = self.evaluate(item.context, frame)

        def go(entered: Any) -> None:
            if item.target is not None:
                self.bind(item.target, entered, frame)
            self._items_of_with(statement, at + 1, frame)

        if isinstance(value, Manager):
            self._managed(value, go)
        elif isinstance(value, Instance):
            enter, leave = (self.of_instance(value, name) for name in ("__enter__", "__exit__"))
            entered = self.apply(enter, [], {}) if isinstance(enter, Closure) else value
            go(entered)
            if isinstance(leave, Closure):
                self.apply(leave, [None, None, None], {})
        elif _is_context(value):
            with ExitStack() as left:
                go(self.entered(left, value, frame.code.where(item.context)))
        else:
            go(value)

    def _managed(self, manager: Manager, go: Callable[[Any], None]) -> None:
        """Run a `with` whose context is a generator of the program's: its suite is run at the `yield`."""
        outcome: list[BaseException] = []

        def run(entered: Any) -> None:
            self._managers.pop()
            try:
                go(entered)
            except (Jumped, Returned) as left:  # of the suite's function, not of the generator's
                outcome.append(left)
            finally:
                self._managers.append((manager.closure.function, run))

        self._managers.append((manager.closure.function, run))
        try:
            self.apply(manager.closure, manager.args, manager.kwargs)
        finally:
            self._managers.pop()
        if outcome:
            raise outcome[0]

    def collect(self, closure: Closure, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a generator yields, all at once."""
        found: list[Any] = []

        def take(value: Any) -> None:
            if len(found) < _MOST_YIELDED:
                found.append(value)

        self._managers.append((closure.function, take))
        try:
            self.apply(closure, args, kwargs)
        finally:
            self._managers.pop()
        return found

    def run_try(self, statement: ir.Try, frame: Frame) -> None:
        """Run `try`; only what torch or the program raises is caught."""
        try:
            try:
                if self._may_fail(statement, frame):
                    where = frame.code.where(statement)
                    kind = frame.code.text(statement.handlers[0].type) if statement.handlers[0].type else "it"
                    if self.truth(Unknown(f"{where} raises {kind}"), matters=True):
                        raise Raised(f"raise {kind}", where)
                self.block(statement.body, frame)
            except Raised as raised:
                handler = next((each for each in statement.handlers if self._handles(each, raised, frame)), None)
                if handler is None:
                    raise
                if raised.error is not None:
                    self.caught.append(f"{raised.where}: {said(raised.error)}")
                if handler.name:
                    frame.variables[handler.name] = Unknown(handler.name)
                self.block(handler.body, frame)
            else:
                if statement.orelse is not None:
                    self.block(statement.orelse, frame)
        finally:
            if statement.final is not None:
                self.block(statement.final, frame)

    @staticmethod
    def _may_fail(statement: ir.Try, frame: Frame) -> bool:
        """Whether it is left to what can't be seen if a step is made in the suite or in its one handler."""
        if len(statement.handlers) != 1:
            return False
        below = frame.code.kinds_below(statement.handlers[0].body)
        return bool(below & STEPS) and not frame.code.kinds_below(statement.body) & {*STEPS, "backward"}

    @staticmethod
    def _handles(handler: ir.Handler, raised: Raised, frame: Frame) -> bool:
        if handler.type is None:
            return True
        types = handler.type.items if isinstance(handler.type, ir.Sequence) else (handler.type,)
        names = {name for each in types for name in frame.code.module.names.of(each)}
        if raised.error is None:
            own = raised.args[0].partition("(")[0].rpartition(" ")[2]
            return ("builtins.Exception" in names and own != "SystemExit") or any(
                ir.last_name(each) == own for each in types
            )
        kinds = {f"builtins.{each.__name__}" for each in inspect.getmro(type(raised.error))}
        return bool(kinds & names)


def _home(code: Code, node: ir.Node) -> str:
    """The function that a node stands in."""
    return code.name(ir.function_of(node))


def _is_context(value: Any) -> bool:
    kinds = (torch.autocast, torch.no_grad, torch.enable_grad, torch.inference_mode, torch.set_grad_enabled)
    return isinstance(value, (*kinds, contextlib.nullcontext, contextlib.ExitStack))
