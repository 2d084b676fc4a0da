"""What each event does to the state of a path, and what is kept of it for the rules: the visits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.conditions import Conditions
from amplint.model.dtypes import is_false
from amplint.model.events import Event
from amplint.model.objects import objects
from amplint.model.protocol import Call, Error, Machine, Stage
from amplint.model.state import Gradients, State
from amplint.model.tensors import Tensors

if TYPE_CHECKING:
    from amplint.model import Module

MAX_STATES = 64


class TooManyPathsError(Exception):
    """More states than are worth keeping apart."""


@dataclass(slots=True)
class Visit:
    """An event, the states before it, and for a clip what comes behind it."""

    event: Event
    states: list[State] = field(default_factory=list)
    errors: list[tuple[State, Error]] = field(default_factory=list)  # what the call raises, in which of the states
    stepped: set[tuple[str, str]] = field(default_factory=set)  # (scaler, optimizer) stepped before the next update
    steps: list[ir.Value] = field(default_factory=list)
    followed: bool = False  # any step comes before the next backward
    bypassed: bool = False  # an optimizer steps directly before the next update
    backward_first: bool = False  # a scaled backward comes before the next update on some path
    ends: list[State] = field(default_factory=list)  # the function ends in these before an update


class Transfer:
    """Takes states through the events of one function."""

    def __init__(self, module: Module, conditions: Conditions, tensors: Tensors) -> None:
        self._objects = objects(module)
        self._conditions = conditions
        self._tensors = tensors
        self.visits: dict[int, Visit] = {}

    def visit(self, event: Event, state: State) -> State:
        """The state after an event, whose visit is recorded."""
        visit = self.visits.setdefault(event.call.id, Visit(event))
        if state not in visit.states:
            visit.states.append(state)
            if len(visit.states) > MAX_STATES:
                raise TooManyPathsError
        return self._after(event, state)

    def end(self, state: State) -> None:
        """The function ends in this state."""
        for clip in state.pending:
            self.visits[clip].ends.append(state)

    def _after(self, event: Event, state: State) -> State:
        if event.scaler is not None and event.kind != "opaque":
            state = state.with_fact(f"present({event.scaler})", True)
        if event.kind == "backward":
            return self._after_backward(event, state)
        if event.kind == "opaque":
            return state.unknown()
        if event.kind == "zero_grad":
            # With several optimizers it can't be told whose gradients are gone.
            kept = state.gradients.kind in ("plain", "mixed") and len(self._objects.optimizers) > 1
            return state if kept else state.but(gradients=Gradients("none"))
        if event.kind == "clip":
            return state.but(pending=state.pending | {event.call.id})
        if event.kind == "optimizer_step":
            for clip in state.pending:
                self.visits[clip].bypassed = self.visits[clip].followed = True
            return state
        if event.kind in ("scale", "unscale_", "step", "update") and event.scaler is not None:
            return self._after_protocol(event, event.scaler, state)
        return state

    def _after_protocol(self, event: Event, scaler: str, state: State) -> State:
        """A call of one of the scaler's own methods."""
        optimizer = event.optimizer or ""
        if event.kind == "step":
            self._note_step(event, optimizer, state)
        assert isinstance(event.call, ir.Call)
        given = "float" if event.kind == "update" and event.call.args else ""
        call = Call(event.kind, optimizer, argument=given)
        machine = state.machine(scaler)
        if not optimizer and event.kind in ("unscale_", "step"):  # each may be another one: none is there yet
            machine = replace(machine, books=frozenset(each for each in machine.books if each[0]))
        machine, error = machine.after(call)
        # Without what the caller did, that nothing was checked can't be told.
        certain = event.kind != "update" or scaler in state.in_sight
        if error is not None and certain and not self.disabled(scaler, state):
            visit = self.visits[event.call.id]
            if (state, error) not in visit.errors:
                visit.errors.append((state, error))
        if event.kind == "unscale_" and not machine.scaled:  # it raises; go on as if it had done its work
            machine = replace(replace(machine, scaled=True).after(call)[0], scaled=False)
        if event.kind != "update":
            return state.with_machine(scaler, machine)
        gradients = state.gradients
        if gradients.kind not in ("none", "unknown"):
            kind = "unscaled" if state.touched(scaler) else gradients.kind
            gradients = gradients._replace(kind=kind, updated=0 if given else event.call.id)
        return state.with_machine(scaler, replace(machine, books=frozenset())).but(
            gradients=gradients, in_sight=state.in_sight | {scaler}, pending=frozenset()
        )

    def made(self, target: ir.Value, value: ir.Value, state: State) -> State:
        """An assignment: if it makes a scaler, nothing was done with that yet."""
        if isinstance(value, ir.Call):
            key = self._objects.key(target)
            if key is not None and any(each.call is value for each in self._objects.made.get(key, ())):
                return state.with_machine(key, Machine()).but(in_sight=state.in_sight | {key})
        return state

    def _note_step(self, event: Event, optimizer: str, state: State) -> None:
        assert event.scaler is not None
        for clip in state.pending:
            self.visits[clip].followed = True
            if state.stage(event.scaler, optimizer) is Stage.READY:
                self.visits[clip].stepped.add((event.scaler, optimizer))
                if event.call not in self.visits[clip].steps:
                    self.visits[clip].steps.append(event.call)

    def _after_backward(self, event: Event, state: State) -> State:
        scaler = self._tensors.scaler_of(event.subject, state) if event.subject is not None else None
        if scaler is None and isinstance(event.call, ir.Call) and event.call.args:
            # `loss.backward(scaler.scale(torch.ones_like(loss)))`: the scale may be in what backward starts from.
            scaler = next((key for arg in event.call.args if (key := self._tensors.scaler_of(arg.value, state))), None)
        before = state.gradients
        if scaler == "" or (scaler is None and before.kind == "unknown"):
            return state.but(gradients=Gradients("unknown"))
        if scaler is None:
            if Stage.UNSCALED in state.stages():
                return state  # what comes on top of unscaled gradients has no scale, rightly
            kind = "plain" if before.kind in ("none", "plain", "entry", "unscaled") else "mixed"
            return state.but(gradients=Gradients(kind, origin=event.call.id))
        for clip in state.pending:
            self.visits[clip].backward_first = True
        if self.disabled(scaler, state):
            return state.but(gradients=Gradients("plain"), pending=frozenset())
        # Gradients of several kinds at once: which of them a clip meets can't be told.
        other = before.kind == "scaled" and before.scaler != scaler
        kind = "mixed" if other or before.kind in ("plain", "mixed") or state.touched() else "scaled"
        origin = event.call.id if kind == "scaled" else before.origin if before.kind in ("plain", "mixed") else 0
        return state.but(gradients=Gradients(kind, scaler, origin), pending=frozenset())

    def disabled(self, scaler: str, state: State) -> bool:
        """Whether the scaler is switched off on this path, by a literal or by a flag that the path knows."""
        if state.known(f"enabled({scaler})") is False:
            return True
        made = self._objects.made.get(scaler, [])
        return bool(made) and all(
            each.enabled is not None
            and (is_false(each.enabled) or self._conditions.truth(each.enabled, state) is False)
            for each in made
        )

    def surely_enabled(self, scaler: str) -> bool:
        """Whether the file makes the scaler, and nothing decides there whether it is made, or on."""
        made = self._objects.made.get(scaler, [])
        return bool(made) and all(
            not _is_optional(each.call)
            and (each.enabled is None or (isinstance(each.enabled, ir.Constant) and each.enabled.value is True))
            for each in made
        )


def _is_optional(call: ir.Node) -> bool:
    """Whether a condition of the same function decides if a call is run."""
    up = call.parent
    while up is not None and not isinstance(up, ir.Function):
        if isinstance(up, (ir.If, ir.Conditional, ir.Bool, ir.Match)):
            return True
        up = up.parent
    return False
