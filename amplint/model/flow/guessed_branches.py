"""Arms that a path takes by a guess: what their condition asks for changes as the program trains.

A flush behind a loop (`if seen % n:`) asks how many micro steps are left. A path that doesn't know it takes both arms.
That it has no gradients in one of them is evidence of nothing, if other paths come to that condition with some: it may
well tell these apart. A path remembers such arms as facts, so that arms that do the same are joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.flow.gradients import GradientKind
from amplint.model.flow.path_sets import Outcome
from amplint.model.flow.state import State
from amplint.model.flow.violations import Violation, ViolationKind
from amplint.model.inference.formulas import all_of, contradict, either, negated
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.terms import Op, Term, guessed
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Binding, Other

if TYPE_CHECKING:
    from amplint.model import Module

# The misuse that consists of something not having been done before.
OF_WHAT_IS_MISSING = frozenset(
    (
        ViolationKind.STEP_OF_LOST_GRADIENTS,
        ViolationKind.USE_OF_NO_GRADIENTS,
        ViolationKind.STEP_WITHOUT_CHECK,
        ViolationKind.CALL_BEFORE_SCALE,
    )
)
_EMPTY = (GradientKind.NONE, GradientKind.ZEROS, GradientKind.ENTRY)
# What says the same whenever it is asked, of what is given; and what does where what is given is the same.
_FIXED = ("os.", "platform.", "builtins.isinstance", "builtins.hasattr", "builtins.callable")
_OF_ARGUMENTS = (
    "torch.",
    "builtins.bool",
    "builtins.int",
    "builtins.float",
    "builtins.getattr",
    "builtins.min",
    "builtins.max",
)
_FOLLOW = 5  # variables: each may be bound again, whatever it is bound to


class Changing:
    """Tells which conditions of one module ask for what changes as it trains."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects = objects(module)
        self._changes: dict[ir.Value, bool] = {}

    def changes(self, test: ir.Value) -> bool:
        """Whether a condition asks for a count, for a variable that is bound again, or for what a call may change."""
        if test not in self._changes:
            self._changes[test] = self._may_change(test, _FOLLOW)
        return self._changes[test]

    def is_fixed(self, condition: Term) -> bool:
        """Whether a condition asks for a flag that stays what it is, or whether an optional scaler is there."""
        asked = condition.parts[0] if condition.op == Op.PRESENT else condition
        bindings = self._objects.bindings_of(asked.name) if asked.is_path else ()
        return len(bindings) == 1 and not self._is_changing_binding(bindings[0], _FOLLOW)

    def _may_change(self, value: ir.Value, depth: int) -> bool:
        if isinstance(value, ir.Name):
            return self._is_changing_name(value, depth)
        if isinstance(value, ir.Attribute):
            return self._is_changing_attribute(value)
        if isinstance(value, ir.Call):
            return self._is_changing_call(value, depth)
        counts = isinstance(value, ir.Binary) and value.op == "Modulo"
        return counts or any(self._may_change(each, depth) for each in value.children())

    def _is_changing_name(self, name: ir.Name, depth: int) -> bool:
        bindings = self._objects.bindings(name)
        if len(bindings) != 1 or not depth:
            return bool(bindings)
        return self._is_changing_binding(bindings[0], depth)

    def _is_changing_binding(self, only: Binding, depth: int) -> bool:
        if isinstance(only, Other):
            return only.why != "parameter"
        if not isinstance(only, Assigned):
            return False
        return isinstance(only.value, (ir.Sequence, ir.Mapping)) or self._may_change(only.value, depth - 1)

    def _is_changing_attribute(self, value: ir.Attribute) -> bool:
        if self._module.whole.defines(value.attr):
            return True  # a property
        base = self._objects.raw(value.base)
        called = (each.func for each in self._module.whole.near(ir.last_name(value.base)).calls)
        if any(isinstance(each, ir.Attribute) and self._objects.raw(each.base) == base for each in called):
            return True  # a method may change it
        return any(
            function is None or function.name != "__init__"
            for function in map(ir.function_of, self._module.once(_stored, value.attr))
        )

    def _is_changing_call(self, call: ir.Call, depth: int) -> bool:
        if self._objects.asked_if_enabled(call) is not None:
            return False  # a scaler is made on or off
        names = self._module.names.of(call.func)
        if names and all(name.startswith(_FIXED) for name in names):
            return False
        if names and all(name.startswith(_OF_ARGUMENTS) for name in names):
            return any(self._may_change(each.value, depth) for each in call.args)
        return True


def _stored(module: Module, attr: str) -> list[ir.Attribute]:
    """The places where an attribute of a name is stored."""
    found = []
    for each in module.whole.near(attr).statements:
        targets = each.targets if isinstance(each, ir.Assign) else ()
        targets = (each.target,) if isinstance(each, ir.AugAssign) else targets
        found += [target for target in targets if isinstance(target, ir.Attribute) and target.attr == attr]
    return found


class Guesses:
    """What the paths of one function have guessed, and the states in which they came to that."""

    def __init__(self, module: Module) -> None:
        self._changing = module.once(Changing)
        self._entering: dict[Term, set[State]] = {}

    def may_guess(self, test: ir.Value) -> bool:
        """Whether a path that doesn't know how a condition comes out has to guess."""
        return self._changing.changes(test)

    def entered(self, test: ir.Value, state: State) -> None:
        """A path comes to a condition where this one or another may have to guess."""
        if self.may_guess(test):
            self._entering.setdefault(guessed(test.id), set()).add(state)

    @staticmethod
    def taken(number: int, outcome: Outcome) -> Outcome:
        """An outcome that its path remembers as guessed, if it lacks anything: else nothing depends on it."""
        state = outcome.state
        held = (state.rest, *(each for _, each in state.groups))
        lacks = any(each.is_empty() for each in held) or not all(machine.scaled for _, machine in state.scalers)
        if not outcome.guessed or not lacks:
            return outcome
        return outcome._replace(state=state.with_fact(guessed(number), outcome.holds))

    def proven(self, violation: Violation, states: list[State]) -> list[State]:
        """The paths that show a misuse, without those that do so by guesses that may be wrong."""
        clauses = {state: frozenset(fact for fact in state.facts if fact.condition.is_guess) for state in states}
        if contradict(negated(either(*map(all_of, clauses.values())))):
            return states  # however the conditions come out
        return [
            state
            for state, clause in clauses.items()
            if not any(self._may_be_wrong(guess, violation, state) for guess, _ in clause)
        ]

    def _may_be_wrong(self, guess: Term, violation: Violation, state: State) -> bool:
        """Whether some paths came to a condition with what this one lacked there already.

        Paths on which a setting came out otherwise than on this one are no other outcome of that condition.
        """
        here = {condition: holds for condition, holds in state.facts if self._changing.is_fixed(condition)}
        entering = [
            each
            for each in self._entering.get(guess, ())
            if all(here.get(condition, holds) is holds for condition, holds in each.facts)
        ]
        if violation.kind is ViolationKind.CALL_BEFORE_SCALE:
            return any(each.machine(violation.scaler).scaled for each in entering)
        cleared = state.gradients_of(violation.optimizer).cleared
        held = [each.gradients_of(violation.optimizer) for each in entering]
        return any(each.kind not in _EMPTY for each in held) and any(
            each.is_empty() and each.cleared == cleared for each in held
        )
