"""Running statements of the IR: assignments, conditions and loops."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.model.syntax.control import EXITS
from amplint.verify.interpreter.calls import INNER, Caller
from amplint.verify.interpreter.standins import (
    CannotFollow,
    Counted,
    Frame,
    Instance,
    Jumped,
    Raised,
    Returned,
    Unknown,
    key_of,
    value_of,
)
from amplint.verify.program.program import TOOLS, Code

_FEW = 4  # iterations of a loop without events
_CAP = 64


class Statements(Caller):
    """Runs suites. `with` and `try` are the subclass's."""

    def __init__(self) -> None:
        super().__init__()
        self._loops = 0  # counted ones around
        self.decided: dict[int, set[bool | None]] = {}  # how tests of ifs came out, by their ids; None: by a choice
        self._busy = False  # events have run in this iteration
        self._run_by: dict[type[ir.Statement], Callable[[Any, Frame], None]] = {
            ir.Expr: lambda statement, frame: self.evaluate(statement.value, frame),
            ir.Assign: self._assign,
            ir.AugAssign: self._augmented,
            ir.Delete: lambda statement, frame: None,
            ir.Return: self._return,
            ir.Raise: self._raise,
            ir.Assert: self._assert,
            ir.Jump: self._jump,
            ir.Import: lambda statement, frame: None,
            ir.Declare: lambda statement, frame: None,
            ir.If: self._if,
            ir.For: self._for,
            ir.While: self._while,
            ir.With: self.run_with,
            ir.Try: self.run_try,
            ir.Match: self._match,
            ir.Function: self._define,
            ir.Class: self._define,
        }

    def run_with(self, statement: ir.With, frame: Frame) -> None:
        """Run `with`."""
        raise NotImplementedError

    def run_try(self, statement: ir.Try, frame: Frame) -> None:
        """Run `try`."""
        raise NotImplementedError

    def block(self, block: ir.Block, frame: Frame) -> None:
        """Run a suite."""
        for statement in block.statements:
            self._run_by[type(statement)](statement, frame)

    def _assign(self, statement: ir.Assign, frame: Frame) -> None:
        if statement.value is None:
            return
        value = self.evaluate(statement.value, frame)
        for target in statement.targets:
            self.bind(target, value, frame)

    def _augmented(self, statement: ir.AugAssign, frame: Frame) -> None:
        left = self.evaluate(statement.target, frame)
        right = self.evaluate(statement.value, frame)
        if isinstance(left, list) and isinstance(right, (list, tuple)):
            left.extend(right[:_CAP])
            return
        if isinstance(left, torch.Tensor) and isinstance(right, (int, float)) and statement.op == "Divide":
            left /= right
            value: Any = left
        else:
            if statement.op in ("Add", "Subtract"):
                self.adding(left, value_of(right))
            value = self.binary(statement.op, left, right, frame.code.text(statement.target))
        self.bind(statement.target, value, frame)

    def bind(self, target: ir.Value, value: Any, frame: Frame) -> None:
        """Assign a value to a target; what a call out of sight has returned is named after its first variable."""
        if isinstance(value, Unknown) and value.origin is not None and isinstance(target, (ir.Name, ir.Attribute)):
            value.rename(frame.code.text(target))
        if isinstance(target, ir.Name):
            home = target.scope.home(target.name)
            found = frame.find(home) if home is not None else None
            (found or frame).variables[target.name] = value
        elif isinstance(target, ir.Attribute):
            base = self.evaluate(target.base, frame)
            if target.attr == "scaler" and self.as_accelerator(base, target.base, frame) is not None:
                raise CannotFollow(f"{frame.code.where(target)}: the scaler of an Accelerator is set")
            self._store(base, target.attr, value)
        elif isinstance(target, ir.Subscript):
            self._store_item(self.evaluate(target.base, frame), self.evaluate(target.index, frame), value)
        elif isinstance(target, ir.Starred):
            self.bind(target.value, value, frame)
        elif isinstance(target, ir.Sequence):
            self._unpack(target, value, frame)

    @staticmethod
    def _store_item(base: Any, index: Any, value: Any) -> None:
        """Set an item of a container of the program's; what an optimizer keeps of its parameters stays as it is."""
        if isinstance(base, dict):
            key = key_of(index)
            if "params" not in base and key is not None:
                base[key] = value
        elif isinstance(base, list):
            if isinstance(index, int) and -len(base) <= index < len(base):
                base[index] = value
        elif isinstance(base, Unknown) and isinstance(index, (str, int)):
            base.children[f"[{index!r}]"] = value

    @staticmethod
    def _store(base: Any, name: str, value: Any) -> None:
        if isinstance(base, Instance):
            base.attributes[name] = value
        elif isinstance(base, Unknown):
            base.children[f".{name}"] = value
        elif isinstance(base, torch.Tensor) and name in ("grad", "data"):
            if value is None or isinstance(value, torch.Tensor):
                with contextlib.suppress(RuntimeError, TypeError):
                    setattr(base, name, value if value is None or name == "data" else value.detach())

    def _unpack(self, target: ir.Sequence, value: Any, frame: Frame) -> None:
        if isinstance(value, Counted):
            value = value.items
        count = len(target.items)
        starred = next((at for at, each in enumerate(target.items) if isinstance(each, ir.Starred)), None)
        if isinstance(value, (list, tuple)) and starred is not None and len(value) >= count - 1:
            after = count - starred - 1
            middle = value[starred : len(value) - after]
            value = [*value[:starred], [*middle], *value[len(value) - after :]]
        for at, each in enumerate(target.items):
            if isinstance(value, (list, tuple)) and len(value) == count:
                item = value[at]
            elif isinstance(value, Unknown):
                item = value.child(f"[{at}]")
            else:
                item = Unknown(frame.code.text(each))
            self.bind(each, item, frame)

    def _return(self, statement: ir.Return, frame: Frame) -> None:
        raise Returned(self.evaluate(statement.value, frame) if statement.value is not None else None)

    def _raise(self, statement: ir.Raise, frame: Frame) -> None:
        raise Raised(frame.code.text(statement), frame.code.where(statement))

    def _assert(self, statement: ir.Assert, frame: Frame) -> None:
        value = self.evaluate(statement.test, frame)
        if not isinstance(value, Unknown) and not self.truth(value, matters=False):
            raise Raised(f"AssertionError({frame.code.text(statement.test)})", frame.code.where(statement))

    def _jump(self, statement: ir.Jump, frame: Frame) -> None:
        if statement.kind != "pass":
            raise Jumped(statement.kind)

    def _define(self, statement: ir.Function | ir.Class, frame: Frame) -> None:
        frame.variables[statement.name] = self.defined(statement, frame)

    def _if(self, statement: ir.If, frame: Frame) -> None:
        value = self.evaluate(statement.test, frame)
        decided = self.truth(value, matters=False) if not isinstance(value, Unknown) else None
        self.decided.setdefault(statement.id, set()).add(decided)
        arms = list(statement.blocks())
        matters = any(map(frame.code.matters, arms))
        jumps = self._leaves(statement.then, frame)
        if isinstance(value, Unknown) and jumps == "program" and not matters:
            holds = False  # nothing comes behind it, with AMP or without
        elif isinstance(value, Unknown) and self._returns_instead(statement.then, frame):
            holds = self.truth(value, matters=True)
        elif isinstance(value, Unknown) and jumps and not matters:
            # Between events it matters whether the rest of an iteration is left out; how many there are doesn't.
            again = isinstance(last := statement.then.statements[-1], ir.Jump) and last.kind == "continue"
            matters = bool(self._busy and self._loops and (again or value.counts is None))
            holds = matters and self.truth(value, matters=True)
        else:
            holds = self.truth(value, matters=matters)
        if holds:
            self.block(statement.then, frame)
        elif statement.orelse is not None:
            self.block(statement.orelse, frame)

    @staticmethod
    def _returns_instead(block: ir.Block, frame: Frame) -> bool:
        """Whether a suite ends a function that returns a scaler or region elsewhere."""
        function = frame.function
        is_return = isinstance(block.statements[-1], ir.Return)
        return is_return and function is not None and frame.code.known(_returns_tool, function)

    @staticmethod
    def _leaves(block: ir.Block, frame: Frame) -> str:
        """What a suite leaves at its end: a "loop" or function by a jump, the "program"; nothing, the empty string."""
        last = block.statements[-1]
        call = last.value if isinstance(last, ir.Expr) else None
        exits = isinstance(call, ir.Call) and bool(frame.code.module.names.of(call.func) & EXITS)
        if exits or isinstance(last, ir.Raise):
            return "program"
        jumps = isinstance(last, ir.Jump) and last.kind != "pass"
        return "loop" if jumps or isinstance(last, ir.Return) else ""

    def _match(self, statement: ir.Match, frame: Frame) -> None:
        subject = self.evaluate(statement.subject, frame)
        matters = any(frame.code.matters(case.body) for case in statement.cases)
        for case in statement.cases:
            holds = case.irrefutable
            if not holds and case.equals is not None:
                equal = self._compared(
                    subject, "Equal", self.evaluate(case.equals, frame), frame.code.text(case.equals)
                )
                holds = self.truth(equal, matters=matters)
            elif not holds:
                holds = self.truth(
                    Unknown(f"{frame.code.text(statement.subject)} is case {frame.code.row(case.body.statements[0])}"),
                    matters=matters,
                )
            if holds:
                for name in case.binds:
                    frame.variables[name] = subject
                self.block(case.body, frame)
                return

    def items(self, value: Any, frame: Frame, where: ir.Value) -> Counted:
        """What a loop goes through."""
        if isinstance(value, Counted):
            return value
        if isinstance(value, (list, tuple, dict)):
            return Counted([*value][:_CAP], whole=True)
        if not isinstance(value, Unknown):
            return Counted([Unknown(f"{frame.code.text(where)}[...]") for _ in range(self.iterations)])
        if frame.code.known(_reads_gradients, where):
            return Counted([*self.as_parameters(value)], whole=True)
        name = _target_name(where) or f"{value.text}[...]"
        tools = bool(TOOLS.search(value.text))
        owner = ir.statement_of(where)
        if isinstance(owner, ir.For) and not tools and frame.code.trains(owner):
            return Counted([value.item(at, name, batch=True) for at in range(self.iterations)])
        count = INNER if tools else 1 if value.tensor is not None else self.iterations
        return Counted([value.item(at, name) for at in range(count)], whole=tools)

    def _for(self, statement: ir.For, frame: Frame) -> None:
        found = self.items(self.evaluate(statement.iter, frame), frame, statement.iter)
        items = found.items
        count = self._count(statement, frame)
        if count is not None and not (found.whole and len(items) <= 8 and count != 1):
            items = items[:count]
        broken = False
        counted = count is not None and not over_parameters(statement)
        around = counted and count != 1  # a loop over epochs is run once, and around nothing
        self._loops += around
        try:
            for at, item in enumerate(items):
                if counted:
                    self._busy = False
                if around and frame.code.trains(statement):
                    self.tick = at
                    self.stage.iteration += 1
                self.bind(statement.target, item, frame)
                try:
                    self.block(statement.body, frame)
                except Jumped as jumped:
                    if jumped.kind == "break":
                        broken = True
                        break
        finally:
            self._loops -= around
        if not broken and statement.orelse is not None:
            self.block(statement.orelse, frame)

    def _while(self, statement: ir.While, frame: Frame) -> None:
        count = self._count(statement, frame) or 1
        self._loops += count > 1
        try:
            for _ in range(count):
                value = self.evaluate(statement.test, frame)
                if not isinstance(value, Unknown) and not self.truth(value, matters=False):
                    break
                self._busy = False
                self.stage.iteration += count > 1
                try:
                    self.block(statement.body, frame)
                except Jumped as jumped:
                    if jumped.kind == "break":
                        break
        finally:
            self._loops -= count > 1

    def _count(self, statement: ir.For | ir.While, frame: Frame) -> int | None:
        """How often a loop is run at most; None: as often as it has items."""
        code = frame.code
        if not code.matters(statement.body):
            return 1 if isinstance(statement, ir.While) else _FEW
        if over_parameters(statement):
            return None
        if code.only_loops(statement):
            return 1
        return INNER if self._loops else self.iterations


def _target_name(where: ir.Value) -> str | None:
    """The variable of the loop that goes through a value."""
    parent = where.parent
    owner = ir.statement_of(where)
    if parent is None and isinstance(owner, ir.For) and isinstance(owner.target, ir.Name):
        return owner.target.name
    return None


def _returns_tool(code: Code, function: ir.Function) -> bool:
    return code.returns_tool(function)


def over_parameters(statement: ir.Statement) -> bool:
    """Whether a loop goes through parameters."""
    return isinstance(statement, ir.For) and any(
        isinstance(each, ir.Attribute) and each.attr in ("parameters", "named_parameters", "param_groups")
        for each in ir.walk_values(statement.iter)
    )


def _reads_gradients(_: Code, where: ir.Value) -> bool:
    """Whether the items of a loop or comprehension are used as parameters are."""
    owner: ir.Node | None = where
    names: set[str] = set()
    while isinstance(owner, ir.Value) and not isinstance(owner, ir.Comprehension):
        owner = owner.parent
    if isinstance(owner, ir.Comprehension):
        targets = [each for clause in owner.clauses for each in ir.walk_values(clause.target)]
        names = {each.name for each in targets if isinstance(each, ir.Name)}
        values = [each for root in owner.elements for each in ir.walk_values(root)]
        values += [each for clause in owner.clauses for test in clause.conditions for each in ir.walk_values(test)]
    else:
        statement = ir.statement_of(where)
        if not isinstance(statement, ir.For):
            return False
        values = [*ir.values_below(statement.body)]
        names = {each.name for each in ir.walk_values(statement.target) if isinstance(each, ir.Name)}
    return any(
        isinstance(each, ir.Attribute)
        and each.attr == "grad"
        and isinstance(each.base, ir.Name)
        and each.base.name in names
        for each in values
    )
