"""Functions, methods and properties that only decide: `if self.is_boundary(i):` asks what stands in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import events
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.call_context import CallContext, Callee
from amplint.model.objects.terms import Term
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module

_LONG = 8  # statements
_DEEP = 3  # of predicates that ask others


class Predicates:
    """Finds what the tests of one module ask."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._calls = module.once(CallGraph)
        self._objects = objects(module)
        self._decides: dict[int, bool] = {}
        self._asked: dict[int, Counter[Term]] = {}  # function -> how often it asks for what

    def find(self, test: ir.Value) -> Callee | None:
        """The function that a test calls, or the property that it reads, if that does nothing but decide."""
        callee = None
        if isinstance(test, ir.Call):
            callee = self._calls.find(test)
        elif isinstance(test, ir.Attribute):
            callee = self._calls.find_property(test)
        return callee if callee is not None and self._only_decides(callee.function) else None

    def parts(self, test: ir.Value, depth: int = _DEEP) -> Iterator[ir.Value]:
        """The values that a test is made of, with those of what it asks."""
        for value in ir.walk_values(test):
            yield value
            callee = self.find(value) if depth else None
            for statement in ir.walk_statements(callee.function.body) if callee is not None else ():
                for inner in statement.values():
                    yield from self.parts(inner, depth - 1)

    def is_asked_again(self, test: ir.Value) -> bool:
        """Whether a function asks for the same in several of its ifs."""
        function = ir.function_of(test)
        body = function.body if function is not None else self._module.program.body
        number = function.id if function is not None else 0
        if number not in self._asked:
            with self._objects.within(CallContext()):
                tests = (each.test for each in ir.walk_statements(body, into=False) if isinstance(each, ir.If))
                parts = (part for each in tests for part in ir.walk_values(each))
                asked = (each for each in parts if isinstance(each, (ir.Bool, ir.Call, ir.Attribute)))
                self._asked[number] = Counter(filter(None, map(self._objects.term, asked)))
        with self._objects.within(CallContext()):
            term = self._objects.term(test)
        return term is not None and self._asked[number][term] > 1

    def _only_decides(self, function: ir.Function) -> bool:
        if function.id not in self._decides:
            self._decides[function.id] = self._find_only_decides(function)
        return self._decides[function.id]

    def _find_only_decides(self, function: ir.Function) -> bool:
        if function.is_generator or function.is_async or len(function.decorators) > 1:
            return False
        names = (self._module.names.only(each) for each in function.decorators)
        if any(name not in ("builtins.staticmethod", "builtins.property") for name in names):
            return False
        statements = list(ir.walk_statements(function.body))
        return (
            len(statements) <= _LONG
            and any(isinstance(each, ir.Return) and each.value is not None for each in statements)
            and all(map(_may_decide, statements))
            and not any(True for _ in events(self._module).below(function.body))
        )


def _may_decide(statement: ir.Statement) -> bool:
    if isinstance(statement, ir.Assign):
        return all(isinstance(each, ir.Name) for each in statement.targets)
    return isinstance(statement, (ir.If, ir.Return)) or ir.is_docstring(statement)
