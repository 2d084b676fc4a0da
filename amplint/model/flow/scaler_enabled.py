"""Whether a scaler is on along a path: by a literal, by a flag that the path knows, or by how it was made."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.model.flow.gradients import GradientKind, Gradients
from amplint.model.flow.path_conditions import Conditions, enabling
from amplint.model.flow.state import State
from amplint.model.objects.amp_objects import Made, Objects
from amplint.model.objects.terms import enabled as is_on
from amplint.model.objects.terms import on_device
from amplint.model.syntax import ir
from amplint.model.torch_facts.grad_scaler import Machine


class Switches:
    """Reads the switches of one module's scalers."""

    def __init__(self, objects: Objects, conditions: Conditions) -> None:
        self._objects = objects
        self._conditions = conditions

    def made(self, key: str, made: Made, state: State) -> State:
        """A new scaler, and what the path knows of its being on: the flag's own name may end with this function."""
        state = state.with_machine(key, Machine()).replace(in_sight=state.in_sight | {key})
        truth = True if made.enabled is None else self._conditions.truth(made.enabled, state)
        if truth is not None:
            return state.with_fact(is_on(key), truth)
        test = self._conditions.as_test(made.enabled, state) if made.enabled is not None else None
        return state.bind(enabling(key), test) if test is not None else state

    def disabled(self, scaler: str, state: State) -> bool:
        """Whether the scaler is switched off on this path, by a literal or by a flag that the path knows."""
        return self._switched(scaler, state) is False

    def _switched(self, scaler: str, state: State) -> bool | None:
        """Whether the scaler is on, as far as the path knows: one for cuda is off where there is no CUDA."""
        if state.known(on_device("cuda")) is False and self._objects.is_for_cuda(scaler):
            return False
        known = state.known(is_on(scaler))
        if known is not None:
            return known
        test = state.look_up(enabling(scaler))
        if test is not None and test.condition is not None and (truth := state.known(test.condition)) is not None:
            return truth is test.flag
        switches = {self._switched_by(each, state) for each in self._objects.made_by(scaler)}
        return switches.pop() if len(switches) == 1 else None

    def _switched_by(self, made: Made, state: State) -> bool | None:
        on = True if made.enabled is None else self._conditions.truth(made.enabled, state)
        return None if on and _is_optional(made.call) else on

    def off(self, scaler: str, state: State) -> State | None:
        """The path on which the scaler is switched off, so that nothing raises; None where it surely is on."""
        if self.surely_enabled(scaler, [state]):
            return None
        # Another scaler may be off with it.
        state = state.all_gradients(lambda _, held: held._replace(reported=held.reported or -1))
        state = state.with_machine(scaler, Machine(scaled=True))
        test = state.look_up(enabling(scaler))
        if test is not None and test.condition is not None:
            return state.with_fact(test.condition, not test.flag)
        return state.with_fact(is_on(scaler), False)

    def uncertain(self, state: State) -> State:
        """The state where scaled gradients may never come: the condition may be AMP's own flag."""

        def hidden(_: str, held: Gradients) -> Gradients:
            on = held.kind is GradientKind.SCALED and self.surely_enabled(held.scaler, [state])
            doubtful = held.kind in (GradientKind.ENTRY, GradientKind.SCALED) and not on
            return Gradients(GradientKind.UNKNOWN, reported=held.reported) if doubtful else held

        return state.all_gradients(hidden)

    def surely_enabled(self, scaler: str, states: Sequence[State] = ()) -> bool:
        """Whether the file makes the scaler, and nothing decides there whether it is made, or on.

        Or whether each of some paths knows that it is.
        """
        return all(self._switched(scaler, state) is True for state in states or [State()])


def _is_optional(call: ir.Node) -> bool:
    """Whether a condition of the same function decides if a call is run."""
    up = call.parent
    while up is not None and not isinstance(up, ir.Function):
        if isinstance(up, (ir.If, ir.Conditional, ir.Bool, ir.Match)):
            return True
        up = up.parent
    return False
