"""Running statements of the IR on real tensors: one path, that of what the program does."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.model.syntax.interpreter import Interpreter, Paths, Rounds
from amplint.verify.fixtures.proof import said
from amplint.verify.interpreter.arithmetic import Arithmetic
from amplint.verify.interpreter.assignments import INNER, Assignments, LoopItems
from amplint.verify.interpreter.evaluate import Evaluator, Truth
from amplint.verify.interpreter.failures import no_memory
from amplint.verify.interpreter.functions import Functions, Generators, entered
from amplint.verify.interpreter.handlers import (
    goes_on_where,
    handler_around,
    handles,
    is_of_types,
    kinds_of,
    raised_kinds,
)
from amplint.verify.interpreter.lookup import Instances
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import (
    Closure,
    Count,
    Counted,
    Frame,
    Instance,
    Manager,
    Path,
    Raised,
    Unknown,
    as_setting,
    counting,
    defined,
    is_in_lazy,
    value_of,
)
from amplint.verify.interpreter.tensor_calls import TensorCalls
from amplint.verify.program.leaving import Left, decides_later, goes_on, is_caught, left
from amplint.verify.program.presence import asked_for
from amplint.verify.program.program import STEPS, Code
from amplint.verify.program.scalers_again import makes_in

_OF_AMP = re.compile(r"(?i)auto_?cast")
_FEW = 4  # iterations of a loop without events
_MOST_ADDED = 64  # items of a list


@dataclass(eq=False)
class Statements(Interpreter[Path]):
    """Runs statements."""

    _state: RunState
    _evaluator: Evaluator
    _truth: Truth
    _arithmetic: Arithmetic
    _items: LoopItems
    _assignments: Assignments
    _tensors: TensorCalls
    _instances: Instances
    _functions: Functions
    _generators: Generators

    def __post_init__(self) -> None:
        super().__init__()
        self._loops = 0  # counted ones around
        # The last exception that a handler has caught, by the ids of its frame and of the handler.
        self._handled: dict[tuple[int, int], Raised] = {}
        self._simple: dict[type[ir.Statement], Callable[[Any, Frame], Any]] = {
            ir.Expr: lambda statement, frame: self._evaluator.evaluate(statement.value, frame),
            ir.Assign: self._assign,
            ir.AugAssign: self._augmented,
            ir.Raise: self._raise,
            ir.Assert: self._assert,
            ir.Function: self._define,
            ir.Class: self._define,
            ir.FoldedFunction: self._define,
            ir.FoldedClass: self._define,
        }

    def run(self, block: ir.Block, frame: Frame) -> Any:
        """Run a function's suite, or a module's; the value that it returns.

        Raises:
            Raised: the program raises.
        """
        paths = self.block(block, [Path(frame)])
        for path in paths.raises:
            if path.raised is not None:
                raise path.raised
        return paths.exits[0].value if paths.exits else None

    def statement(self, statement: ir.Statement, states: list[Path]) -> Paths[Path]:
        """How a statement is left: by an exception, too, that comes of its expressions."""
        try:
            return super().statement(statement, states)
        except Raised as raised:
            return Paths(raises=[states[0]._replace(raised=raised)])

    # --- simple statements

    def simple(self, statement: ir.Statement, states: list[Path]) -> list[Path]:
        """The path behind a statement without suites, or a definition."""
        run = self._simple.get(type(statement))
        if run is not None:  # `import`, `global` and `del` do nothing
            run(statement, states[0].frame)
        return states

    def returned(self, statement: ir.Return, states: list[Path]) -> list[Path]:
        """The path that leaves the function, with its value."""
        (path,) = states
        value = self._evaluator.evaluate(statement.value, path.frame) if statement.value is not None else None
        return [path._replace(value=value)]

    def _assign(self, statement: ir.Assign, frame: Frame) -> None:
        if statement.value is None:
            return
        value = self._evaluator.evaluate(statement.value, frame)
        if (added := _added_to(statement, frame)) is not None:
            left, right = (self._evaluator.evaluate(each, frame) for each in (added.left, added.right))
            counted = self._counts_on(added.left, left, added.op, right, frame)
            value = value if counted is None else counted
        for target in statement.targets:
            self._assignments.bind(target, value, frame)

    def _augmented(self, statement: ir.AugAssign, frame: Frame) -> None:
        left = self._evaluator.evaluate(statement.target, frame)
        right = self._evaluator.evaluate(statement.value, frame)
        if isinstance(left, list) and isinstance(right, (list, tuple)):
            left.extend(right[:_MOST_ADDED])
            return
        if (counted := self._counts_on(statement.target, left, statement.op, right, frame)) is not None:
            value: Any = counted
        elif isinstance(left, torch.Tensor) and isinstance(right, (int, float)) and statement.op == "Divide":
            left /= right
            value = left
        else:
            if statement.op in ("Add", "Subtract"):
                self._tensors.adding(left, value_of(right))
            value = self._arithmetic.binary(statement.op, left, right, frame.code.text(statement.target))
        self._assignments.bind(statement.target, value, frame)

    def _counts_on(self, target: ir.Value, left: Any, op: str, right: Any, frame: Frame) -> Count | None:
        """What a variable has that training counts on by a number; None: it is no such variable."""
        numbers = type(left) in (int, Count) and type(right) is int
        if not numbers or not right or op not in ("Add", "Subtract") or not self._iterates() or is_in_lazy(frame):
            return None
        name = frame.code.text(target)
        first = left.first if isinstance(left, Count) and left.of == name else int(left)
        if name not in self._state.begun:
            self._state.begun.add(name)
            start = self._state.facts.starts_at(name)
            left = left if start is None else start
        added = right if op == "Add" else -right
        return counting(left + added, name, first, onward=1 if added > 0 else -1)

    def _iterates(self) -> bool:
        """Whether the run is in an iteration of a loop over batches."""
        return bool(self._loops or self._state.is_called_again)

    def _raise(self, statement: ir.Raise, frame: Frame) -> None:
        raise self._raised(statement, frame)

    def _raised(self, statement: ir.Raise, frame: Frame) -> Raised:
        """What a statement raises: again what its handler has caught, where it says nothing else."""
        text, where = frame.code.text(statement), frame.code.where(statement)
        handler = handler_around(statement)
        handled = self._handled.get((id(frame), id(handler)))
        what = statement.parts[0] if statement.parts else None
        named = handler.name if handler is not None else None
        if handled is not None and (what is None or (isinstance(what, ir.Name) and what.name == named)):
            return Raised(text, where, handled.error, of_amp=handled.of_amp, kinds=handled.kinds)
        return Raised(text, where, kinds=raised_kinds(frame.code, what) if what is not None else frozenset())

    def _assert(self, statement: ir.Assert, frame: Frame) -> None:
        value = self._asked(statement.test, frame)
        where = frame.code.where(statement)
        raised = Raised(f"AssertionError({frame.code.text(statement.test)})", where, kinds=kinds_of(AssertionError))
        if isinstance(value, Unknown) and not (is_caught(statement) or self._is_caught_around(raised)):
            return
        matters = isinstance(value, Unknown) and self._is_between(value)
        if not self._truth.of(value, matters=matters):
            raise raised

    def _is_caught_around(self, raised: Raised) -> bool:
        """Whether a `try` around the call that is run catches what is raised in it, and training goes on."""
        return any(catches(raised) for catches in self._state.tries)

    def _define(self, statement: ir.Function | ir.Class, frame: Frame) -> None:
        frame.variables[statement.name] = defined(statement, frame)

    # --- branches

    def arms(self, statement: ir.If, states: list[Path]) -> tuple[list[Path], list[Path]]:
        """The path, in the arm that it takes."""
        frame = states[0].frame
        value = as_setting(self._asked(statement.test, frame))
        decided = (
            self._is_object(statement.test, frame)
            if isinstance(value, Unknown)
            else self._truth.of(value, matters=False)
        )
        self._state.record.decided.setdefault(statement.id, set()).add(decided)
        matters = any(map(frame.code.matters, [*statement.blocks()]))
        holds = (
            self._chosen(statement, value, frame, matters=matters)
            if isinstance(value, Unknown)
            else self._truth.of(value, matters=matters)
        )
        self._state.record.held.setdefault(statement.id, set()).add(holds)
        return (states, []) if holds else ([], states)

    def _asked(self, test: ir.Value, frame: Frame) -> Any:
        """The value of a test."""
        return self._arithmetic.asked(self._evaluator.evaluate(test, frame), frame.code.text(test))

    def _is_object(self, test: ir.Value, frame: Frame) -> bool | None:
        """How a test comes out that asks whether there is an object, where one is known to be there; else None."""
        asked = asked_for(test)
        if asked is None:
            return None
        found = self._evaluator.evaluate(asked.value, frame)
        return asked.there if isinstance(found, Unknown) and self._state.facts.is_object(found) else None

    def _chosen(self, statement: ir.If, value: Unknown, frame: Frame, *, matters: bool) -> bool:
        """Whether a test out of sight holds; `matters`: there are events in what it decides on."""
        leaves = self._left(statement.then, frame)
        matters = matters or decides_later(frame.code, statement)
        if leaves is Left.PROGRAM and not matters:
            return False  # nothing comes behind it, with AMP or without
        if _returns_instead(statement.then, frame):
            return self._truth.of(value, matters=True)
        if _both_return(statement) or _is_of_returns(statement, frame):
            asked = _returns_truth(statement) and not is_in_lazy(frame)
            matters = matters or (asked and self._is_between(value))
            return self._truth.of(value, matters=matters)
        if leaves is not None and not matters:
            # Between events it matters whether the rest of an iteration is left out; how many there are doesn't.
            again = isinstance(last := statement.then.statements[-1], ir.Jump) and last.kind == "continue"
            if not self._loops and _returns_from_helper(statement, frame):
                if not _returns_truth(statement) or is_in_lazy(frame):
                    return False
            return self._is_between(value, again=again) and self._truth.of(value, matters=True)
        return self._truth.of(value, matters=matters)

    def _left(self, block: ir.Block, frame: Frame) -> Left | None:
        """What a suite leaves at its end: by what is caught around the call that is run, no more than that."""
        leaves, last = left(frame.code, block), block.statements[-1]
        if leaves is Left.PROGRAM and isinstance(last, ir.Raise) and self._is_caught_around(self._raised(last, frame)):
            return Left.LOOP
        return leaves

    def _is_between(self, value: Any, *, again: bool = False) -> bool:
        """Whether a test is asked between the events of an iteration; `again`: it leaves the rest of one."""
        # How many iterations there are doesn't matter, unless the last one leaves a step unfinished.
        counts = isinstance(value, Unknown) and value.counts is not None
        unfinished = any(self._state.record.open_steps.values())
        return self._state.record.busy and self._iterates() and (again or not counts or unfinished)

    def subject(self, statement: ir.Match, states: list[Path]) -> list[Path]:
        """The path, with what a `match` asks about."""
        (path,) = states
        return [path._replace(value=self._evaluator.evaluate(statement.subject, path.frame))]

    def case(self, case: ir.Case, statement: ir.Match, states: list[Path]) -> tuple[list[Path], list[Path]]:
        """The path, in the case or past it."""
        if not states or not self._fits(case, statement, states[0]):
            return [], states
        frame = states[0].frame
        for name in case.binds:
            frame.variables[name] = states[0].value
        if case.guard is not None:
            matters = frame.code.matters(case.body)
            if not self._truth.of(self._evaluator.evaluate(case.guard, frame), matters=matters):
                return [], states
        return states, []

    def _fits(self, case: ir.Case, statement: ir.Match, path: Path) -> bool:
        """Whether the pattern of a case is what is asked about."""
        code = path.frame.code
        if case.irrefutable:
            return True
        matters = any(map(code.matters, statement.blocks())) or (
            self._is_between(path.value) and any(left(code, each) is Left.LOOP for each in statement.blocks())
        )
        if case.equals is None:
            asked = f"{code.text(statement.subject)} is case {code.row(case.body.statements[0])}"
            return self._truth.of(Unknown(asked), matters=matters)
        value = self._evaluator.evaluate(case.equals, path.frame)
        equal = self._arithmetic.compared(path.value, "Equal", value, code.text(case.equals))
        return self._truth.of(equal, matters=matters)

    # --- loops

    def rounds(self, loop: ir.For | ir.While, states: list[Path]) -> list[Rounds[Path]]:
        """The iterations of a loop."""
        (path,) = states
        each = self._each_item(loop, path.frame) if isinstance(loop, ir.For) else self._each_test(loop, path.frame)
        return [_Iterations(path, each)]

    def _each_item(self, loop: ir.For, frame: Frame) -> Iterator[None]:
        """Binds the items of a loop, one after the other."""
        value = self._evaluator.evaluate(loop.iter, frame)
        found = self._items.of(value, frame, loop.iter)
        items = found.items
        count = self._count(loop, frame)
        if count is not None and not (found.whole and len(items) <= 8 and count != 1):
            # The second one is for what the first one leaves unfinished.
            items = items[: max(2, count)]
            if isinstance(value, Counted) and not is_in_lazy(frame):
                most = [*found.items][-1] if found.whole and found.items else None
                items = [self._counting(loop.target, (each, items[0], most), frame, once=count == 1) for each in items]
        counted = count is not None and not _over_parameters(loop)
        around = counted and count != 1  # a loop over epochs is run once, and around nothing
        self._loops += around
        before = self._state.record.scalers.known()
        try:
            for at, item in enumerate(items):
                if at and count == 1 and counted and not self._goes_on(loop, frame, before):
                    break
                if counted:
                    self._state.record.busy = False
                if around and frame.code.trains(loop):
                    self._state.tick = at
                    self._state.stage.iteration += 1
                self._assignments.bind(loop.target, item, frame)
                yield
        finally:
            self._loops -= around

    def _goes_on(self, loop: ir.For, frame: Frame, before: set[int]) -> bool:
        """Whether a loop over epochs has a second one: for what the first one leaves unfinished, or makes again."""
        return self._state.record.leaves_steps(before) or makes_in(frame.code, loop)

    def _counting(self, target: ir.Value, items: tuple[Any, Any, Any], frame: Frame, *, once: bool) -> Any:
        """An item of a loop that goes on beyond the run, where a number in it begins as the run assumes.

        `items` are this one, the first one and the last one, None where that is out of sight.
        """
        item, first, most = items
        if type(item) is int:
            name = frame.code.text(target)
            start = self._state.facts.starts_at(name)
            value = item if start is None else start + item - first
            return counting(value, name, first, most=most, once=once)
        if isinstance(item, tuple) and isinstance(target, ir.Sequence) and len(item) == len(target.items):
            last = most if isinstance(most, tuple) else [None for _ in item]
            parts = zip(item, first, last, strict=True)
            of = zip(target.items, parts, strict=True)
            return tuple(self._counting(each, part, frame, once=once) for each, part in of)
        return item

    def _each_test(self, loop: ir.While, frame: Frame) -> Iterator[None]:
        """Evaluates the test of a loop for as long as it holds."""
        count = self._count(loop, frame) or 1
        self._loops += count > 1
        try:
            for _ in range(count):
                value = self._evaluator.evaluate(loop.test, frame)
                if not isinstance(value, Unknown) and not self._truth.of(value, matters=False):
                    return
                self._state.record.busy = False
                self._state.stage.iteration += count > 1
                yield
        finally:
            self._loops -= count > 1

    def _count(self, statement: ir.For | ir.While, frame: Frame) -> int | None:
        """How often a loop is run at most; None: as often as it has items."""
        code = frame.code
        if _over_parameters(statement):
            return None
        if not code.matters(statement.body):
            return 1 if isinstance(statement, ir.While) else _FEW
        if code.only_loops(statement):
            return 1
        return INNER if self._loops else self._state.iterations

    # --- contexts and exceptions

    def inside(
        self, item: ir.Item, _statement: ir.With, states: list[Path], run: Callable[[list[Path]], Paths[Path]]
    ) -> Paths[Path]:
        """Enter a context, `run` what is in it, and leave it; one that can't be seen does nothing."""
        frame = states[0].frame
        value = self._evaluator.evaluate(item.context, frame)

        def go(target: Any) -> Paths[Path]:
            if item.target is not None:
                self._assignments.bind(item.target, target, frame)
            return run(states)

        if isinstance(value, Manager):
            return self._generators.managed(value, go) or Paths(normal=states)
        if isinstance(value, Instance):
            enter, leave = (self._instances.attribute(value, name) for name in ("__enter__", "__exit__"))
            paths = go(self._functions.apply(enter, [], {}) if isinstance(enter, Closure) else value)
            if isinstance(leave, Closure):
                self._functions.apply(leave, [None, None, None], {})
            return paths
        if _is_context(value):
            with ExitStack() as left:
                return go(entered(left, value, frame.code.where(item.context)))
        if _suppresses(item.context, frame) and self._iterates():
            return self._suppressed(item.context, frame, go, value)
        if isinstance(value, Unknown) and _OF_AMP.search(frame.code.text(item.context)):
            self._state.record.unseen_regions.setdefault(frame.code.where(item.context), frame.code.text(item.context))
        return go(value)

    def _suppressed(self, context: ir.Value, frame: Frame, go: Callable[[Any], Paths[Path]], value: Any) -> Paths[Path]:
        """Run what is in a `with suppress(...)`: it goes on behind that where an exception is suppressed."""
        types = [each.value for each in context.args] if isinstance(context, ir.Call) else []
        caught = is_of_types(types, no_memory(""), frame.code)
        self._state.catching += caught
        self._state.tries.append(lambda raised: is_of_types(types, raised, frame.code))
        try:
            paths = go(value)
        finally:
            self._state.catching -= caught
            self._state.tries.pop()
        ended = [each for each in paths.raises if each.raised and is_of_types(types, each.raised, frame.code)]
        paths.raises = [each for each in paths.raises if each not in ended]
        paths.normal += [each._replace(raised=None) for each in ended]
        for each in ended:
            if each.raised is not None and each.raised.error is not None:
                self._state.record.caught.append(f"{each.raised.where}: {said(each.raised.error)}")
        return paths

    def attempt(self, statement: ir.Try, states: list[Path]) -> Paths[Path]:
        """How the suite of a `try` is left; where a step can be made in its handler alone, that is a choice."""
        (path,) = states
        if _may_fail(statement, path.frame):
            where = path.frame.code.where(statement)
            handled = statement.handlers[0].type
            kind = path.frame.code.text(handled) if handled is not None else "it"
            if self._truth.of(Unknown(f"{where} raises {kind}"), matters=True):
                return Paths(raises=[path._replace(raised=Raised(f"raise {kind}", where))])
        catching = self._goes_on_after(statement, path.frame)
        self._state.catching += catching
        self._state.tries.append(lambda raised: goes_on_where(statement, raised, path.frame.code))
        try:
            return super().attempt(statement, states)
        finally:
            self._state.catching -= catching
            self._state.tries.pop()

    def _goes_on_after(self, statement: ir.Try, frame: Frame) -> bool:
        """Whether training goes on where its calls run out of memory, as a `try` around them catches that."""
        if not self._iterates() or not frame.code.matters(statement.body):
            return False
        raised = no_memory("")
        handler = next((each for each in statement.handlers if handles(each, raised, frame.code)), None)
        if handler is None or not goes_on(frame.code, handler.body):
            return False
        last = handler.body.statements[-1]
        breaks = isinstance(last, ir.Jump) and last.kind == "break"
        returns = isinstance(last, ir.Return) and bool(self._loops)
        return not (breaks or returns) or any(self._state.record.open_steps.values())

    def interrupted(self, _statement: ir.Try, _states: list[Path]) -> list[Path]:
        """No path: only what torch or the program raises is caught, and that has a path of its own."""
        return []

    def caught(
        self, statement: ir.Try, _interrupted: list[Path], raised: list[Path]
    ) -> tuple[list[list[Path]], list[Path]]:
        """The path of an exception, in the first handler that catches it."""
        starting: list[list[Path]] = [[] for _ in statement.handlers]
        for path in raised:
            for handler, its in zip(statement.handlers, starting, strict=True):
                if path.raised is not None and handles(handler, path.raised, path.frame.code):
                    if path.raised.error is not None:
                        self._state.record.caught.append(f"{path.raised.where}: {said(path.raised.error)}")
                    self._handled[id(path.frame), id(handler)] = path.raised
                    if handler.name:
                        path.frame.variables[handler.name] = Unknown(handler.name)
                    its.append(path._replace(raised=None))
                    return starting, []
        return starting, raised


class _Iterations(Rounds[Path]):
    """The iterations of a loop that are really made; `each` makes the next one ready."""

    def __init__(self, path: Path, each: Iterator[None]) -> None:
        self._path = path
        self._each = each
        self._goes_on = True  # no iteration has left the loop

    def start(self) -> list[Path]:
        """The path, where there is another iteration."""
        return [self._path] if self._goes_on and next(self._each, self) is None else []

    def end(self, states: list[Path]) -> None:
        """Take how an iteration has ended."""
        self._goes_on = bool(states)

    def behind(self) -> list[Path]:
        """The path, where no iteration has left the loop."""
        self._each.close()  # type: ignore[attr-defined]
        return [self._path] if self._goes_on else []


def _returns_instead(block: ir.Block, frame: Frame) -> bool:
    """Whether a suite ends a function that returns a scaler or region elsewhere."""
    function = frame.function
    is_return = isinstance(block.statements[-1], ir.Return)
    return is_return and function is not None and frame.code.known(_returns_tool, function)


def _both_return(statement: ir.If) -> bool:
    """Whether either arm ends with a value of the function: neither of them leaves it earlier than the other."""
    arms = (statement.then.statements[-1], statement.orelse.statements[-1] if statement.orelse is not None else None)
    return all(isinstance(each, ir.Return) and each.value is not None for each in arms)


def _returns_from_helper(statement: ir.If, frame: Frame) -> bool:
    """Whether an arm ends with the return of a function that has no events: the iteration goes on."""
    is_return = isinstance(statement.then.statements[-1], ir.Return)
    return is_return and frame.function is not None and not frame.code.function_matters(frame.function)


def _returns_truth(statement: ir.If) -> bool:
    """Whether an arm ends with True, False or an integer: what has called the function asks for it."""
    returns = (block.statements[-1] for block in statement.blocks())
    values = (each.value for each in returns if isinstance(each, ir.Return))
    return any(isinstance(each, ir.Constant) and isinstance(each.value, int) for each in values)


def _is_of_returns(statement: ir.If, frame: Frame) -> bool:
    """Whether an arm is one of `if a: return x` and `elif b: return y`, which end a suite that has no events."""
    first = statement
    while isinstance(around := first.block.owner, ir.If) and around.orelse is first.block:
        first = around
    arms = [first]
    while (other := arms[-1].orelse) is not None and isinstance(each := other.statements[-1], ir.If):
        arms.append(each)
    returns = (each.then.statements[-1] for each in arms)
    return (
        len(arms) > 1
        and first is first.block.statements[-1]
        and all(isinstance(each, ir.Return) and each.value is not None for each in returns)
        and not frame.code.matters(first.block)
    )


def _returns_tool(code: Code, function: ir.Function) -> bool:
    return code.returns_tool(function)


def _over_parameters(statement: ir.Statement) -> bool:
    """Whether a loop goes through parameters."""
    return isinstance(statement, ir.For) and any(
        isinstance(each, ir.Attribute) and each.attr in ("parameters", "named_parameters", "param_groups")
        for each in ir.walk_values(statement.iter)
    )


def _added_to(statement: ir.Assign, frame: Frame) -> ir.Binary | None:
    """What counts in `count = count + 1`."""
    value = statement.value
    if not isinstance(value, ir.Binary) or len(statement.targets) != 1 or value.op not in ("Add", "Subtract"):
        return None
    same = frame.code.text(statement.targets[0]) == frame.code.text(value.left)
    return value if same and isinstance(value.right, ir.Constant) else None


def _suppresses(context: ir.Value, frame: Frame) -> bool:
    names = frame.code.module.names.of(context.func) if isinstance(context, ir.Call) else set()
    return "contextlib.suppress" in names


def _may_fail(statement: ir.Try, frame: Frame) -> bool:
    """Whether it is left to what can't be seen if a step is made in the suite or in its one handler."""
    if len(statement.handlers) != 1:
        return False
    below = frame.code.kinds_below(statement.handlers[0].body)
    return bool(below & STEPS) and not frame.code.kinds_below(statement.body) & {*STEPS, "backward"}


def _is_context(value: Any) -> bool:
    kinds = (torch.autocast, torch.no_grad, torch.enable_grad, torch.inference_mode, torch.set_grad_enabled)
    return isinstance(value, (*kinds, contextlib.nullcontext, contextlib.ExitStack))
