"""What waits for the boundary of an accumulation, `(i + 1) % k == 0`: with a `k` of 1 it waits for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Severity
from amplint.model.flow.analysis import Flow
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import asked, held, parameter_read, values_of
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import loops_round, skipping
from amplint.rules.shared.default_values import number_by_default
from amplint.rules.shared.scaler_order import calls_of, side_by_side

if TYPE_CHECKING:
    from amplint.model import Module


class Several(NamedTuple):
    """The condition, in words, without which some calls are made as often as another one: `k > 1`.

    `is_unusual`: it does not hold by default.
    """

    when: str
    is_unusual: bool


def only_with_several(module: Module, flow: Flow, often: ir.Node, calls: Iterable[ir.Node]) -> Several | None:
    """The condition without which some calls are made as often as another one.

    None where there is none, where something else decides too, or where `k` is a number in the code.
    """
    periods: list[ir.Value | None] = []
    for call in calls:
        periods += [_period(module, *pair) for pair in side_by_side(flow, call, often)] or [None]
    texts = {_open(module, each) for each in periods}
    only = texts.pop() if len(texts) == 1 else None
    return Several(f"`{only} > 1`", number_by_default(module, periods[0]) == 1) if only is not None else None


# Why there is no fix for it.
SECOND_SCALER = "amplint can't tell where to create the second scaler, and where to save its state"


class Apart(NamedTuple):
    """A step that waits for several iterations, where that of another optimizer by the same scaler does not.

    `when`: the condition without which both are made as often, in words: `k > 1`; None where that holds always.
    `is_unusual`: it does not hold by default.
    """

    step: Event
    when: str | None
    is_unusual: bool

    @property
    def begins(self) -> str:
        """The condition as a message begins with it."""
        return f"when {self.when}, " if self.when else ""

    @property
    def severity(self) -> Severity | None:
        """A warning where it doesn't hold by default."""
        return Severity.WARNING if self.is_unusual else None

    def cure(self, module: Module) -> str:
        """What to do about it: no update of one scaler is right for both."""
        return (
            f"give the optimizer `{self.optimizer(module)}` its own scaler, updated after each step of that optimizer"
        )

    def optimizer(self, module: Module) -> str:
        """The optimizer that waits, as the step gets it."""
        assert isinstance(self.step.call, ir.Call)
        return module.on_one_line(self.step.call.positional[0])


def stepped_apart(module: Module, flow: Flow, scaler: str) -> Apart | None:
    """The step of an optimizer that waits for more iterations than that of another one by the same scaler."""
    steps = [each for each in calls_of(flow, scaler, "step") if isinstance(each.call, ir.Call) and each.call.positional]
    for step, other in permutations(steps, 2):
        periods = [_period(module, *pair) for pair in side_by_side(flow, step.call, other.call)]
        period = periods[0] if len(periods) == 1 and step.optimizer != other.optimizer else None
        if period is not None:
            when = _open(module, period)
            return Apart(step, f"`{when} > 1`" if when else None, bool(when) and number_by_default(module, period) == 1)
    return None


def micro_steps(module: Module, call: ir.Node, often: ir.Node) -> ir.Value | None:
    """The `k` of the test that a call waits for, `(i + 1) % k == 0`, where another call of the loop doesn't wait.

    None where both are made as often, or where something else decides as well.
    """
    return _period(module, call, often) if loops_round(call) == loops_round(often) else None


def _open(module: Module, period: ir.Value | None) -> str | None:
    """A period as it is written, where it is no number in the code."""
    if period is None or all(isinstance(each.value, ir.Constant) for each in decided(module).alternatives(period)):
        return None
    return module.on_one_line(period)


def _period(module: Module, call: ir.Node, often: ir.Node) -> ir.Value | None:
    """How many iterations a call waits for that stands in one function with another one, which waits for none."""
    inner = [each for each in loops_round(often) if each not in loops_round(call)]
    tests = [each.test for each in skipping(often, call, "continue")]
    found = [_rounds(module, each) for each in inner] + [_asked(module, each) for each in tests]
    if len(found) != 1 or found[0] is None:
        return None
    return found[0]


def _rounds(module: Module, loop: ir.For | ir.While) -> ir.Value | None:
    """The `k` of `for _ in range(k)`."""
    made = loop.iter if isinstance(loop, ir.For) else None
    if not isinstance(made, ir.Call) or module.names.of(made.func) != {"builtins.range"} or len(made.args) != 1:
        return None
    return made.args[0].value


def _asked(module: Module, test: ir.Value) -> ir.Value | None:
    """The `k` of a test that always comes out in one way where it is 1: `(i + 1) % k == 0`, `... or last`."""
    test = held(module, test)
    if parameter_read(module, test) is not None:  # each caller says it
        found = [_asked(module, each.value) for each in values_of(module, test).leaves if each.value is not test]
        texts = {module.on_one_line(each) for each in found if each is not None}
        return found[0] if len(texts) == 1 and None not in found else None
    return asked(module, _period_asked, test, None)


def _period_asked(module: Module, test: ir.Value) -> ir.Value | None:
    if isinstance(test, ir.Unary) and test.op == "Not":
        return _asked(module, test.operand)
    if isinstance(test, ir.Bool):
        parts = [_asked(module, each) for each in (test.left, test.right)]
        equal = [_is_equal(each) is (test.op == "or") for each in (test.left, test.right)]
        return next((part for part, same in zip(parts, equal, strict=True) if part is not None and same), None)
    value = test
    if isinstance(test, ir.Compare) and test.ops in (("Equal",), ("NotEqual",)):
        right = test.rights[0]
        value = test.left if (isinstance(right, ir.Constant) and right.value == 0) or _is_last(module, test) else test
    return value.right if isinstance(value, ir.Binary) and value.op == "Modulo" else None


def _is_last(module: Module, test: ir.Compare) -> bool:
    """Whether a test asks for the last micro step by its number: `i % k == k - 1`."""
    left, right = test.left, test.rights[0]
    if not isinstance(left, ir.Binary) or not isinstance(right, ir.Binary) or right.op != "Subtract":
        return False
    one = isinstance(right.right, ir.Constant) and right.right.value == 1
    return one and module.on_one_line(left.right) == module.on_one_line(right.left)


def _is_equal(test: ir.Value) -> bool:
    """Whether a test is true at the boundary: `x % k == 0`, `not x % k`."""
    return isinstance(test, ir.Unary) or (isinstance(test, ir.Compare) and test.ops == ("Equal",))
