"""After which statements a local variable is of no more use."""

from __future__ import annotations

import pytest

from amplint.base.target import nothing_declared
from amplint.engine.reading import read
from amplint.model import Module
from amplint.model.flow.last_uses import finished_by
from amplint.model.flow.path_sets import without_finished
from amplint.model.flow.state import AbstractValue, GradientKind, Gradients, State, ValueKind
from amplint.model.objects.terms import Fact, path
from amplint.model.syntax import ir
from amplint.sources.parsing import with_room
from amplint.sources.source import Source

TEXT = """\
def train(loader, first, flag, limit, later, shared):
    if first:
        done = True
    else:
        done = False
    print(done)
    for x in loader:
        if limit:
            print(x)
        print(flag)
    run = lambda: later

    def inner():
        return shared

    return run, inner
"""


def module_of(text: str) -> Module:
    return with_room(lambda: read(Source("file.py", text), nothing_declared()))


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (2, {"first"}),
        (3, set()),
        (6, {"done"}),
        (7, {"loader", "x", "flag", "limit"}),  # another iteration reads what stands in the loop
        (8, set()),
        (10, set()),
        (11, set()),  # the lambda may be run later
        (13, set()),
    ],
)
def test_what_ends_its_use(line: int, names: set[str]) -> None:
    module = module_of(TEXT)
    (function,) = (each for each in module.program.body.statements if isinstance(each, ir.Function))
    statements = [each for each in ir.walk_statements(function.body, into=False) if at(module, each) == line]
    assert {key.partition(":")[2] for key in finished_by(module, statements[0])} == names


def at(module: Module, statement: ir.Statement) -> int:
    return TEXT.count("\n", 0, module.span(statement)[0]) + 1


FLAG, OTHER = "1:flag", "1:other"


def knowing(*facts: Fact, **fields: object) -> State:
    return State(facts=frozenset(facts)).replace(**fields)


def test_states_that_differ_in_what_is_of_no_more_use_are_one() -> None:
    off, on = Fact(path(FLAG), holds=False), Fact(path(FLAG), holds=True)
    other = Fact(path(OTHER), holds=True)
    assert without_finished([knowing(on, other), knowing(off, other)], frozenset({FLAG})) == [knowing(other)]


def test_those_on_which_something_else_happened_are_not() -> None:
    cleared = knowing(Fact(path(FLAG), holds=False), rest=Gradients(GradientKind.NONE))
    states = [knowing(Fact(path(FLAG), holds=True)), cleared]
    assert without_finished(states, frozenset({FLAG})) == states


def test_those_in_which_another_variable_is_made_of_it_are_not() -> None:
    env = frozenset({(OTHER, AbstractValue(ValueKind.TEST, condition=path(FLAG)))})
    states = [knowing(Fact(path(FLAG), holds=holds), env=env) for holds in (True, False)]
    assert without_finished(states, frozenset({FLAG})) == states
