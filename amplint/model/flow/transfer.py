"""What each event does to the state of a path; what is kept for the rules: event states, violations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from amplint.model.flow.event_states import (
    MAX_EVENT_STATES,
    EventStates,
    Followed,
    SeveralOptimizersError,
    TooManyPathsError,
)
from amplint.model.flow.gradients import (
    ENTRY,
    UNSEEN,
    GradientKind,
    Gradients,
    after_clear,
    after_plain,
    after_scaled,
    after_unscale,
)
from amplint.model.flow.parameter_ownership import Ownership
from amplint.model.flow.path_conditions import Conditions
from amplint.model.flow.scaler_enabled import Switches
from amplint.model.flow.state import Clipped, ScalerCall, State
from amplint.model.flow.tensors import Tensors
from amplint.model.flow.violations import Violation, ViolationKind
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import OF_SCALER, Event
from amplint.model.objects.key_parts import is_attribute, owner_of
from amplint.model.objects.terms import Op, path, present
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.torch_facts import grad_scaler
from amplint.model.torch_facts.grad_scaler import TABLE, Call, Error, Machine, Stage
from amplint.model.usage.frozen_models import frozen_at

if TYPE_CHECKING:
    from amplint.model import Module


_USED = (GradientKind.UNSCALED, GradientKind.NONE, GradientKind.ZEROS, GradientKind.MAYBE)
_UPDATED = (
    GradientKind.ENTRY,
    GradientKind.SCALED,
    GradientKind.UNSCALED,
    GradientKind.MIXED,
    GradientKind.UNKNOWN,
)  # where an update may come too early
_OF_AN_OPTIMIZER = ("unscale_", "step", "optimizer_step")
_NO_CHECKS = "No inf checks were recorded"
# What raises where the optimizer is None.
_NEEDS_ONE = {"unscale_", "step", "optimizer_step", "zero_grad"}


class Transfer:
    """Takes states through the events of one function, and of those that it calls."""

    def __init__(self, module: Module, conditions: Conditions, tensors: Tensors, several: bool) -> None:
        self._module = module
        self._objects = objects(module)
        self._asked: dict[int, bool] = {}
        self.ownership = module.once(Ownership, several)
        self._tensors = tensors
        self.switches = Switches(self._objects, conditions)
        self.event_states: dict[int, EventStates] = {}
        self.violations: dict[Violation, list[State]] = {}
        self.site = 0  # the call that is being followed

    def apply(self, event: Event, state: State) -> State | None:
        """The state after an event, which is kept with those before it; None where it raises.

        Raises:
            SeveralOptimizersError: the path has met more optimizers than one, though the file makes no more.
        """
        event = self._resolved(event, state)
        if event.kind in _OF_AN_OPTIMIZER and event.optimizer:
            state = self._met_inside(event.optimizer, state)
        reached = self.event_states.setdefault(event.call.id, EventStates(event))
        if event != reached.event and event not in reached.others:
            reached.others.append(event)
        if state not in reached.seen:
            reached.seen.add(state)
            reached.states.append(state)
            if len(reached.states) > MAX_EVENT_STATES:
                raise TooManyPathsError
        if event.kind in _OF_AN_OPTIMIZER and event.optimizer and self.ownership.is_single:
            if any(key != event.optimizer for key, _ in state.groups):
                raise SeveralOptimizersError
        return self._after(event, state)

    def end(self, state: State) -> None:
        """The function ends in this state."""
        for each in state.pending:
            self.event_states[each.clip].ends.append(state)

    def _met_inside(self, optimizer: str, state: State) -> State:
        """The state in which an optimizer that another one has, `sam.base_optimizer`, has the gradients of that one."""
        whole, met = owner_of(optimizer), dict(state.groups)
        if optimizer in met or whole not in met or not self._objects.is_inside(optimizer, whole):
            return state
        return state.with_gradients(optimizer, met[whole])

    @staticmethod
    def _resolved(event: Event, state: State) -> Event:
        """The event with its objects as the path knows them: `opt = self.optimizer` is that one."""
        return event._replace(
            scaler=state.object_of(event.scaler) if event.scaler else event.scaler,
            optimizer=state.object_of(event.optimizer) if event.optimizer else event.optimizer,
        )

    def _report(self, violation: Violation, state: State) -> None:
        states = self.violations.setdefault(violation, [])
        if state not in states:
            states.append(state)

    def _after(self, event: Event, state: State) -> State | None:
        if event.scaler is not None and event.kind != "opaque":
            state = state.with_fact(present(path(event.scaler)), True)
        if event.optimizer and event.kind in _NEEDS_ONE:
            there = present(path(event.optimizer))
            if state.known(there) is False:
                return None  # None has no such method, and no parameters: it raises
            if self._is_asked_for(event):
                state = state.with_fact(there, True)
        return self._after_scalers_own(event, state) if event.kind in OF_SCALER else self._after_others(event, state)

    def _after_others(self, event: Event, state: State) -> State:
        """The state after an event that is no method of a scaler."""
        if event.kind == "backward":
            return self._after_backward(event, state)
        if event.kind == "opaque":
            return state.havoc()
        if event.kind == "zero_grad":
            return self._after_clear(event, state)
        if event.kind == "read" or event.how == "measure":
            return self._after_read(event, state)
        if event.kind == "clip":
            return self._after_clip(event, state)
        return self._after_direct_step(event, state) if event.kind == "optimizer_step" else state

    def _after_scalers_own(self, event: Event, state: State) -> State | None:
        """The state after a scaler's method; None where it raises."""
        if event.scaler is None:
            return state
        if event.kind in ("unscale_", "step"):
            return self._after_use(event, event.scaler, event.optimizer or "", state)
        if event.kind == "update":
            return self._after_update(event, event.scaler, state)
        machine, _ = state.machine(event.scaler).after(Call("scale"))
        return state.with_machine(event.scaler, machine)

    def _is_asked_for(self, event: Event) -> bool:
        """Whether the code asks somewhere whether there is such an optimizer: else no paths are told apart by it."""
        if event.call.id not in self._asked:
            call = event.call
            value = call.func.base if isinstance(call, ir.Call) and isinstance(call.func, ir.Attribute) else None
            if event.kind in ("unscale_", "step"):
                value = event.subject
            word = ir.last_name(value) if value is not None else ""
            self._asked[event.call.id] = bool(word) and self._module.once(_is_asked_for, word)
        return self._asked[event.call.id]

    # --- backward, clear, clip --------------------------------------------------------------------------------------

    def _after_backward(self, event: Event, state: State) -> State:
        call = event.call.id
        if event.subject is not None and self.ownership.is_of_copies(event.subject):
            return state
        scaler = self._tensors.scaler_of(event.subject, state) if event.subject is not None else None
        if scaler is None and isinstance(event.call, ir.Call) and event.call.args:
            # `loss.backward(scaler.scale(torch.ones_like(loss)))`: the scale may be in what backward starts from.
            scaler = next((key for arg in event.call.args if (key := self._tensors.scaler_of(arg.value, state))), None)
        if scaler == "":
            return state.havoc_gradients()
        reach = self.ownership.reach(event.subject, state) if event.subject is not None else None
        frozen = frozen_at(self._module, event.call)
        if scaler is None or self.switches.disabled(scaler, state):
            if scaler is not None:
                state = state.replace(pending=frozenset())
            origin = call if scaler is None else 0  # what a disabled scaler leaves plain is plain rightly

            def plain(optimizer: str, before: Gradients) -> Gradients:
                hits = self.ownership.hits(reach, optimizer, state, frozen)
                if hits is False:
                    return before
                in_between = bool(before.by) and not before.updated and not self._is_stepped(state, optimizer)
                return after_plain(before, origin, hits is True, self.ownership.is_alone(state), in_between)

            return state.all_gradients(plain)
        for each in state.pending:
            if not each.stepped:  # after its step a backward is the next optimizer's, and no micro step
                self.event_states[each.clip].backward_first = True
        enabled = scaler

        def scaled(optimizer: str, before: Gradients) -> Gradients:
            hits = self.ownership.hits(reach, optimizer, state, frozen)
            if before.updated and self.ownership.takes_turns(optimizer, reach, state):
                before = before._replace(updated=0)  # that update was for the other's step
            return before if hits is False else after_scaled(before, enabled, call, hits is True)

        return state.all_gradients(scaled).replace(pending=frozenset())

    @staticmethod
    def _is_stepped(state: State, optimizer: str) -> bool:
        return any(state.stage(scaler, optimizer) is Stage.STEPPED for scaler, _ in state.scalers)

    def _after_clear(self, event: Event, state: State) -> State:
        call = event.call
        given = None
        if isinstance(call, ir.Call):
            given = argument(call, "torch.optim.Optimizer.zero_grad", "set_to_none")
        to_none = given is None or (isinstance(given, ir.Constant) and given.value is True)
        if event.optimizer is not None and self.ownership.is_optimizer(event.optimizer):
            state = state.met(event.optimizer)

        def cleared(optimizer: str, before: Gradients) -> Gradients:
            clears = self.ownership.clears(event.optimizer, optimizer, state)
            if clears is None and self._clears_the_model(event, before, state):
                clears = True
            if clears is None:
                if before.is_empty() or before.kind is GradientKind.MAYBE:
                    return before
                if before.kind is not GradientKind.ENTRY and not self.ownership.is_alone(state):
                    return Gradients(GradientKind.UNKNOWN, reported=before.reported)
                return Gradients(GradientKind.MAYBE, by=before.by, used=before.used)
            return after_clear(before, call.id, to_none) if clears else before

        return state.all_gradients(cleared)

    def _clears_the_model(self, event: Event, held: Gradients, state: State) -> bool:
        """Whether what is cleared is the only model that the last backward gave gradients, for the one optimizer."""
        backward = (
            self.event_states.get(held.origin)
            if held.kind is GradientKind.SCALED and self.ownership.is_alone(state)
            else None
        )
        if backward is None or backward.event.subject is None or event.optimizer is None:
            return False
        return self.ownership.is_made_by(backward.event.subject, event.optimizer, state)

    def _after_clip(self, event: Event, state: State) -> State:
        call = event.call.id
        clipped, certain = self.ownership.among(event.subject, state)
        self.event_states[call].clipped.update(clipped if certain else ())
        held = {each: state.gradients_of(each) for each in clipped}
        scaled = self._scaled_ones(held, certain, state)
        if scaled and (certain or not state.touched() or self._is_anothers(held[scaled[0]], state)):
            state = self._after_clip_of_scaled(call, scaled, state)
        elif all(its.kind is GradientKind.ENTRY for its in held.values()) and not state.touched():
            self._report(Violation(ViolationKind.CLIP_OF_CALLERS_GRADIENTS, call, 0, call, "", clipped[0]), state)
        elif all(map(self._is_used_up, held.values())) and not self.switches.disabled(held[clipped[0]].scaler, state):
            first = held[clipped[0]]
            self._report(
                Violation(
                    ViolationKind.CLIP_AFTER_STEP, call, first.used, call, first.scaler, clipped[0], site=self.site
                ),
                state,
            )
        alone = certain or len(clipped) == 1
        return (self._over(event, clipped, state) if alone else state).replace(
            pending=state.pending | {Clipped(call, self.site)}
        )

    def _scaled_ones(self, held: dict[str, Gradients], certain: bool, state: State) -> list[str]:
        """The optimizers, of those whose gradients are clipped, whose are scaled, and not reported for something else.

        `certain`: it is known that these are clipped.
        """
        pending = {each.clip for each in state.pending}

        def is_scaled(its: Gradients) -> bool:
            apart = certain or len(state.groups) <= 1
            # Those of two scalers are scaled by one or the other, unless one of them has unscaled its own.
            mixed = its.kind is GradientKind.MIXED and apart and (bool(its.origin) or not state.groups)
            return its.kind is GradientKind.SCALED or mixed

        def is_new(its: Gradients) -> bool:
            if not its.reported or its.reported in pending:
                return True
            return self._is_of_reported_clip(its) and self._is_anothers(its, state)

        scaled = [
            optimizer
            for optimizer, its in held.items()
            if is_scaled(its) and is_new(its) and not self._is_off(its.scaler, state)
        ]
        if not certain and any(condition.op == Op.ENABLED and not on for condition, on in state.facts):
            return [each for each in scaled if held[each].sure]  # by another scaler than the one that is off
        return scaled

    def _after_clip_of_scaled(self, call: int, scaled: list[str], state: State) -> State:
        """A clip of gradients that are scaled, for some optimizers, is reported."""
        its = state.gradients_of(scaled[0])
        # A second clip of the same gradients is reported only if the first turns out to be right.
        if its.reported in {each.clip for each in state.pending} - {call}:
            violation = Violation(ViolationKind.CLIP_OF_SCALED_AGAIN, call, its.reported, call, its.scaler, scaled[0])
        else:
            violation = Violation(
                ViolationKind.CLIP_OF_SCALED, call, its.origin, call, its.scaler, scaled[0], gradients=its.kind
            )
        self._report(violation, state)
        for optimizer in scaled:
            before = state.gradients_of(optimizer)
            reported = before._replace(reported=before.reported or call)
            state = state.with_gradients(optimizer, reported) if optimizer else state.replace(rest=reported)
        return state

    def _is_off(self, scaler: str, state: State) -> bool:
        """Whether a scaler is off on this path, or one is absent that may be the same, as what a helper was given."""
        known = self._objects
        absent = (each.name for each in state.absent if each.is_path)
        return self.switches.disabled(scaler, state) or any(
            known.is_scalers(key) and not known.made_by(key) for key in absent if key != scaler
        )

    @staticmethod
    def _is_anothers(scaled: Gradients, state: State) -> bool:
        """Whether the scaler has stepped all optimizers that it unscaled, and a backward came after that: what is
        clipped then is another optimizer's, or is clipped in vain.
        """
        stages = {its.stage for _, machine in state.scalers for _, its in machine.per_optimizer}
        return stages == {Stage.STEPPED} and all(
            its.origin != scaled.origin for _, its in state.groups if its.kind is GradientKind.UNSCALED
        )

    def _is_of_reported_clip(self, held: Gradients) -> bool:
        found = self.event_states.get(held.reported)
        return held.reported < 0 or (found is not None and found.event.kind == "clip")

    def _is_used_up(self, held: Gradients) -> bool:
        """Whether gradients have had their step, and no clip of them was reported."""
        return held.kind in _USED and self._is_used(held) and not self._is_of_reported_clip(held)

    def _is_used(self, held: Gradients) -> bool:
        """Whether the scaler has stepped with gradients that it unscaled."""
        step = self.event_states.get(held.used)
        return bool(held.by) and step is not None and (held.kind is GradientKind.UNSCALED or step.event.kind == "step")

    def _after_read(self, event: Event, state: State) -> State:
        """Gradients read for their size, or changed by what has no scale."""
        call = event.call.id
        read, certain = self.ownership.among(event.subject, state)
        held = {each: state.gradients_of(each) for each in read}
        scaled = [
            each
            for each, its in held.items()
            if its.kind is GradientKind.SCALED and not its.reported and not self._is_off(its.scaler, state)
        ]
        if scaled and (certain or not state.touched()):
            its = held[scaled[0]]
            self._report(Violation(ViolationKind.READ_OF_SCALED, call, its.origin, call, its.scaler, scaled[0]), state)
        elif all(its.kind is GradientKind.ENTRY for its in held.values()) and not state.touched():
            self._report(Violation(ViolationKind.READ_OF_CALLERS_GRADIENTS, call, 0, call, "", read[0]), state)
        return state.replace(pending=state.pending | {Clipped(call, self.site)})

    def _over(self, event: Event, optimizers: Iterable[str], state: State) -> State:
        """Scaled gradients on top of unscaled ones meet what uses them."""
        for optimizer in optimizers:
            held = state.gradients_of(optimizer)
            if held.kind is GradientKind.OVER and not held.reported and not self.switches.disabled(held.scaler, state):
                self._report(
                    Violation(
                        ViolationKind.BACKWARD_ON_UNSCALED, held.by, held.origin, event.call.id, held.scaler, optimizer
                    ),
                    state,
                )
                state = state.with_gradients(optimizer, held._replace(reported=event.call.id))
        return state

    # --- steps past the scaler --------------------------------------------------------------------------------------

    def _after_direct_step(self, event: Event, state: State) -> State:
        optimizer, call = event.optimizer or "", event.call.id
        if is_attribute(state.gradients_of(optimizer).scaler, optimizer):
            # The project's own class around an optimizer and its scaler: its step may be the scaler's.
            return state.with_gradients(optimizer, _havoc(state.gradients_of(optimizer)))
        self._note_direct_step(event, state.gradients_of(optimizer), state)
        state = self._over(event, [optimizer], state)
        held = state.gradients_of(optimizer)
        kind = _wrong_with_direct_step(held)
        reported = held.reported and not self._is_of_reported_clip(held)
        if kind is None or reported or not held.scaler or self._is_off(held.scaler, state):
            return self._after_other_step(event, optimizer, held, state) if optimizer else state
        gradients = held.kind if kind is ViolationKind.DIRECT_STEP_OF_SCALED else None
        self._report(Violation(kind, call, held.origin, call, held.scaler, optimizer, gradients), state)
        # Of a step without a look for inf only what overflows is wrong.
        known = held.reported if kind is ViolationKind.DIRECT_STEP_UNCHECKED else call
        return state.with_gradients(optimizer, held._replace(reported=known, used=call))

    def _after_other_step(self, event: Event, optimizer: str, held: Gradients, state: State) -> State:
        """The state after an optimizer's own step with gradients of which nothing is known to be wrong."""
        call, before = event.call.id, self._step_before(held, "step")
        if before is not None and before.scaler is not None:
            again = ViolationKind.DIRECT_STEP_AGAIN
            self._report(Violation(again, call, held.stepped, call, before.scaler, optimizer, held.kind), state)
            return state.with_gradients(optimizer, held._replace(reported=call, used=call, stepped=0))
        stepped = 0 if isinstance(event.call, ir.Call) and event.call.args else call  # a closure runs backward
        return state.with_gradients(optimizer, held._replace(used=call, stepped=stepped))

    def _step_before(self, held: Gradients, kind: str) -> Event | None:
        """The step of a kind, by the scaler or past it, that has used the same gradients, of which no more is known."""
        before = self.event_states.get(held.stepped)
        if held.kind not in UNSEEN or held.reported or before is None or before.event.kind != kind:
            return None
        return before.event

    def _note_direct_step(self, event: Event, held: Gradients, state: State) -> None:
        """What a step past the scaler says of the clips before it."""
        for clip, site, _ in () if held.is_empty() else state.pending:
            clipped = self.event_states[clip]
            clipped.followed.add(Followed(event.optimizer or "", state.facts, site))
            harmless = held.kind in (GradientKind.PLAIN, GradientKind.MAYBE)
            if not harmless and event.call not in clipped.bypasses:
                clipped.bypasses.append(event.call)

    # --- the scaler's own methods -----------------------------------------------------------------------------------

    def _after_use(self, event: Event, scaler: str, optimizer: str, state: State) -> State | None:
        """`unscale_` and `step`."""
        call = event.call.id
        if event.kind == "step":
            state = self._note_step(event, optimizer, state)
        if self.switches.disabled(scaler, state):
            return _with_use(event, optimizer, state, stepped=0)
        state = state.met(optimizer) if optimizer else state
        held = state.gradients_of(optimizer)
        machine = _machine_of(scaler, optimizer, state)
        stage = machine.optimizer_state(optimizer).stage
        is_none = held.kind is GradientKind.NONE and bool(optimizer)
        met = grad_scaler.Gradients.NONE if is_none else grad_scaler.Gradients.FLOAT
        after, error = machine.after(Call(event.kind, optimizer, met))
        if error is not None:
            self._raises(event, scaler, optimizer, error, state)
            return self.switches.off(scaler, state)
        state = self._use(event, scaler, optimizer, stage, state)
        state = state.with_machine(scaler, after).with_transition(scaler, optimizer, call)
        if not optimizer:
            return state.all_gradients(lambda _, before: before if before.is_empty() else _havoc(before))
        state = self._after_use_of_shared(event, scaler, optimizer, state)
        if stage is Stage.READY:
            held = after_unscale(state.gradients_of(optimizer), scaler, call)
            state = state.with_gradients(optimizer, held)
        if event.kind == "step":
            state = state.with_transition(scaler, ScalerCall.STEP, call)
            if isinstance(event.call, ir.Call) and len(event.call.args) > 1:
                # What takes arguments of its own may clear the gradients, as SAM's first step does.
                state = state.with_gradients(optimizer, _havoc(state.gradients_of(optimizer)))
        return _with_use(event, optimizer, state, stepped=call)

    def _use(self, event: Event, scaler: str, optimizer: str, stage: Stage, state: State) -> State:
        """What `unscale_` and `step` say of the gradients that they meet."""
        held, call = state.gradients_of(optimizer), event.call.id
        if event.kind == "step" and optimizer and self._step_before(held, "optimizer_step") is not None:
            first = ViolationKind.DIRECT_STEP_FIRST
            self._report(Violation(first, held.stepped, call, call, scaler, optimizer, held.kind), state)
            return state.with_gradients(optimizer, held._replace(reported=held.stepped))
        if stage is Stage.READY and optimizer and (not held.reported or self._is_of_reported_clip(held)):
            return self._look_through(event, scaler, optimizer, held, state)
        if stage is Stage.UNSCALED:
            state = self._over(event, [optimizer], state)
            state = self._use_unscaled(event, scaler, optimizer, held, state)
        return state

    def _use_unscaled(self, event: Event, scaler: str, optimizer: str, held: Gradients, state: State) -> State:
        """`step` with gradients that were unscaled before: what became of them since."""
        call, unscaled = event.call.id, state.last_transition(scaler, optimizer)
        violation: Violation | None = None
        if held.reported:
            return state
        if held.is_empty() and held.origin and event.kind == "step":
            violation = Violation(ViolationKind.STEP_OF_LOST_GRADIENTS, call, held.cleared, call, scaler, optimizer)
        if held.kind in (GradientKind.SCALED, GradientKind.MIXED) and held.sure and unscaled:
            # They came behind the unscale_: nothing divides them any more.
            violation = Violation(ViolationKind.BACKWARD_BEHIND_UNSCALE, unscaled, held.origin, call, scaler, optimizer)
        if violation is None:
            return state
        self._report(violation, state)
        return state.with_gradients(optimizer, held._replace(reported=call))

    def _after_use_of_shared(self, event: Event, scaler: str, optimizer: str, state: State) -> State:
        """The state where a scaler has had an optimizer's gradients, which others may have as well."""
        for other, its in state.groups:
            if other == optimizer:
                continue
            if event.kind == "unscale_" and self._objects.is_inside(other, optimizer):
                if its.kind is GradientKind.SCALED and its.scaler == scaler:
                    state = state.with_gradients(other, after_unscale(its, scaler, event.call.id))
            elif self.ownership.share(optimizer, other, state) or self._objects.may_be_one(optimizer, other):
                state = state.with_gradients(other, _havoc(its))
        return state

    def _raises(self, event: Event, scaler: str, optimizer: str, error: Error, state: State) -> None:
        """The scaler raises: what to say of it."""
        call, last = event.call.id, state.last_transition(scaler, optimizer)
        if error in TABLE.values():
            violations = [self._out_of_order(event, scaler, optimizer, error, state)]
        elif error.message.startswith(_NO_CHECKS):
            held = state.gradients_of(optimizer)
            violation = Violation(ViolationKind.STEP_WITHOUT_CHECK, call, held.cleared, call, scaler, optimizer)
            violations = [] if held.reported else [violation]
        elif "_scale is None" in error.message:
            early = Violation(ViolationKind.CALL_BEFORE_SCALE, call, last, call, scaler, optimizer)
            violations = self._unscaled(state, call, scaler) or [early]
        else:
            violations = []
        for violation in violations:
            self._report(violation, state)

    @staticmethod
    def _out_of_order(event: Event, scaler: str, optimizer: str, error: Error, state: State) -> Violation:
        """What is wrong with a call that the scaler refuses for the stage that the optimizer is in."""
        call, last = event.call.id, state.last_transition(scaler, optimizer)
        carried = state.is_carried(scaler, optimizer)
        if error == TABLE["unscale_", Stage.UNSCALED]:
            return Violation(ViolationKind.UNSCALE_TWICE, call, last, call, scaler, optimizer, carried=carried)
        if not carried:
            return Violation(ViolationKind.CALL_AFTER_STEP, call, last, call, scaler, optimizer)
        step = state.last_transition(scaler, ScalerCall.STEP) or call
        return Violation(ViolationKind.STEP_WITHOUT_UPDATE, step, last, call, scaler, optimizer, carried=True)

    def _look_through(self, event: Event, scaler: str, optimizer: str, held: Gradients, state: State) -> State:
        """The scaler divides gradients, and looks for inf: what is wrong with them."""
        call = event.call.id
        if held.scaler != scaler:
            held = held._replace(updated=0)  # by another scaler, whose scale this one doesn't divide by
        if held.kind is GradientKind.ENTRY and event.kind == "unscale_":
            self._came_scaled(call, scaler, optimizer, state)
        if held.kind is GradientKind.SCALED and held.updated and not held.sure:
            self._report(self._updated_early(held, call, scaler, optimizer), state)
            return state
        violations = self._wrong_with(held, event, scaler, optimizer)
        for violation in violations:
            self._report(violation, state)
        return state.with_gradients(optimizer, held._replace(reported=call)) if violations else state

    def _wrong_with(self, held: Gradients, event: Event, scaler: str, optimizer: str) -> list[Violation]:
        """What is wrong with gradients that the scaler divides."""
        call = event.call.id
        if held.is_empty():
            none = Violation(ViolationKind.USE_OF_NO_GRADIENTS, call, held.cleared, call, scaler, optimizer, held.kind)
            return [none] if held.kind is GradientKind.NONE or held.origin else []
        if held.kind in (GradientKind.PLAIN, GradientKind.MIXED):
            early = held.updated and held.sure
            updated = [self._updated_early(held, call, scaler, optimizer)] if early else []
            return [*self._plain(held, call, scaler, optimizer), *updated]
        over = ViolationKind.BACKWARD_ON_UNSCALED
        if held.kind is GradientKind.OVER:
            return [Violation(over, held.by, held.origin, call, scaler, optimizer)]
        if held.may_be_mixed() and held.used and event.kind == "step":
            # They have had a step, and nothing has cleared them: what comes before the next one adds to them.
            return [Violation(over, held.by, held.origin, call, scaler, optimizer, held.kind)]
        return self._wrong_with_updated(held, event, scaler, optimizer) if held.updated else []

    def _wrong_with_updated(self, held: Gradients, event: Event, scaler: str, optimizer: str) -> list[Violation]:
        """What is wrong with gradients that an update has come behind, before the scaler divides them."""
        call = event.call.id
        if not held.sure:
            # Unscaled, whatever they were before: no backward has come since.
            unscaled = not held.used and event.kind == "step"
            return [self._updated_early(held._replace(sure=True), call, scaler, optimizer)] if unscaled else []
        if held.kind is GradientKind.UNSCALED and event.kind == "unscale_" and held.used:
            kind = ViolationKind.UNSCALE_AFTER_STEP_AND_UPDATE
            return [Violation(kind, call, held.used, call, scaler, optimizer)]
        return [self._updated_early(held, call, scaler, optimizer)]

    def _came_scaled(self, call: int, scaler: str, optimizer: str, state: State) -> None:
        """What `unscale_` says of the clips before it of gradients that the caller left: they were scaled, or it
        raises.
        """
        for each in state.pending:
            reached = self.event_states[each.clip]
            if not each.stepped and (optimizer in reached.clipped or self.ownership.is_alone(state)):
                clips = reached.event.kind == "clip" and reached.event.how != "measure"
                kind = ViolationKind.CLIP_BEFORE_UNSCALE if clips else ViolationKind.READ_BEFORE_UNSCALE
                self._report(Violation(kind, each.clip, 0, call, scaler, optimizer, site=each.site), state)

    @staticmethod
    def _updated_early(held: Gradients, call: int, scaler: str, optimizer: str) -> Violation:
        """The update that came between gradients' backward and what unscales them."""
        gradients = held.kind if held.sure else None
        return Violation(ViolationKind.UPDATE_BEFORE_USE, held.updated, call, call, scaler, optimizer, gradients)

    def _is_used_by_scaler(self, held: Gradients) -> bool:
        """Whether the scaler has had the gradients: then it isn't their misuse that leaves it nothing to check."""
        found = self.event_states.get(held.reported)
        return bool(held.by) or (found is not None and found.event.kind in ("unscale_", "step"))

    def _unscaled(self, state: State, call: int, scaler: str) -> list[Violation]:
        """The backwards of losses that aren't scaled, where a scaler that never scaled is called behind them."""
        held = {
            key: each
            for key, each in (*state.groups, ("", state.rest))
            if each.kind in (GradientKind.PLAIN, GradientKind.MIXED)
        }
        return [one for key, each in held.items() for one in self._plain(each, call, scaler, key)]

    @staticmethod
    def _plain(held: Gradients, call: int, scaler: str, optimizer: str) -> list[Violation]:
        """The backwards of losses that aren't scaled, whose gradients the scaler meets in a call."""
        kind = held.kind if held.sure else None
        backwards = (held.origin, *held.more) if held.origin else ()
        return [
            Violation(ViolationKind.BACKWARD_WITHOUT_SCALE, each, call, call, scaler, optimizer, kind)
            for each in backwards
        ]

    def _after_update(self, event: Event, scaler: str, state: State) -> State | None:
        if self.switches.disabled(scaler, state):
            return state.replace(pending=frozenset())
        assert isinstance(event.call, ir.Call)
        given = "float" if event.call.args else ""
        machine, error = state.machine(scaler).after(Call("update", argument=given))
        if error is not None and (scaler in state.in_sight or not machine.scaled):
            for violation in self._wrong_with_update(event, scaler, state):
                self._report(violation, state)
            return self.switches.off(scaler, state)

        def updated(_: str, before: Gradients) -> Gradients:
            if before.kind is GradientKind.ENTRY and not before.scaler:  # what the caller left, if this one steps it
                before = before._replace(scaler=scaler)
            counts = before.scaler == scaler and before.kind in _UPDATED and not given
            return before._replace(updated=event.call.id) if counts else before

        return (
            state.all_gradients(updated)
            .with_machine(scaler, machine._replace(per_optimizer=frozenset()))
            .replace(in_sight=state.in_sight | {scaler}, pending=frozenset())
            .with_transition(scaler, ScalerCall.UPDATE, event.call.id)
        )

    def _wrong_with_update(self, event: Event, scaler: str, state: State) -> list[Violation]:
        """Why an update raises."""
        call = event.call.id
        if not state.machine(scaler).scaled:
            early = Violation(ViolationKind.CALL_BEFORE_SCALE, call, 0, call, scaler, "")
            return [*self._unscaled(state, call, scaler), early]
        before = state.last_transition(scaler, ScalerCall.UPDATE)
        reported = any(
            held.reported and not self._is_used_by_scaler(held) and not self._is_of_reported_clip(held)
            for held in (state.rest, *(each for _, each in state.groups))
            if held.scaler in (scaler, "")
        )
        unchecked = Violation(ViolationKind.UPDATE_WITHOUT_CHECK, call, before, call, scaler, "")
        return [] if reported else [unchecked]

    def _note_step(self, event: Event, optimizer: str, state: State) -> State:
        """What a step says of the clips before it; the state in which those of its optimizer have had their step."""
        assert event.scaler is not None
        pending = set[Clipped]()
        for each in state.pending:
            reached, stage = self.event_states[each.clip], state.stage(event.scaler, optimizer)
            is_its = not reached.clipped or optimizer in reached.clipped
            if is_its and stage is not Stage.STEPPED:  # else it raises
                reached.followed.add(Followed(optimizer, state.facts, each.site))
            if stage is Stage.READY:
                reached.stepped.add((event.scaler, optimizer))
                if event.call not in reached.steps:
                    reached.steps.append(event.call)
            pending.add(each._replace(stepped=each.stepped or is_its))
        return state.replace(pending=frozenset(pending)) if pending else state

    # --- objects ----------------------------------------------------------------------------------------------------

    def made(self, target: ir.Value, value: ir.Value, state: State) -> State:
        """An assignment: what was made new has nothing done to it yet."""
        if not isinstance(value, ir.Call):
            return state
        if isinstance(target, ir.Sequence):
            for place, item in enumerate(target.items):
                state = self._optimizer_made(self._objects.key(item), value, place, state)
            return state
        key = self._objects.key(target)
        if key is None:
            return state
        for made in self._objects.made_by(key):
            if made.call is value:
                return self.switches.made(key, made, state)
        return self._optimizer_made(key, value, None, state)

    def _optimizer_made(self, key: str | None, call: ir.Call, place: int | None, state: State) -> State:
        """A variable bound to what a call gives, or to one of the items of that."""
        if key is None or not self._objects.is_optimizers(key):
            return state
        if self.ownership.is_construction(call, place):
            return state.with_gradients(key, Gradients(GradientKind.NONE))
        if state.gradients_of(key).updated and all(self._objects.key(each.value) != key for each in call.args):
            # It may be a new one. What an update made of the one before isn't about it.
            return state.with_gradients(key, ENTRY)
        return state


def _is_asked_for(module: Module, word: str) -> bool:
    """Whether a test asks for something of a name."""
    return any(ir.last_name(each) == word and _is_tested(each) for each in module.whole.near(word).values)


def _is_tested(value: ir.Value) -> bool:
    """Whether a value is compared with None, or is a test by itself."""
    up = value.parent
    if isinstance(up, ir.Compare):
        return up.ops in (("Is",), ("IsNot",))
    return isinstance(up, (ir.If, ir.Bool, ir.Unary)) or (isinstance(up, ir.Conditional) and up.test is value)


def _wrong_with_direct_step(held: Gradients) -> ViolationKind | None:
    """What is wrong with an optimizer's own step with some gradients, if the scaler may be on."""
    if held.kind in (GradientKind.SCALED, GradientKind.MIXED):
        return ViolationKind.DIRECT_STEP_OF_SCALED
    if held.kind is not GradientKind.UNSCALED or not held.by:
        return None
    return ViolationKind.DIRECT_STEP_AGAIN if held.used else ViolationKind.DIRECT_STEP_UNCHECKED


def _havoc(held: Gradients) -> Gradients:
    """Gradients of which nothing is known any more but that something was reported of them."""
    return Gradients(GradientKind.UNKNOWN, reported=held.reported)


def _with_use(event: Event, optimizer: str, state: State, stepped: int) -> State:
    """The state where a step has used an optimizer's gradients; after anything else the same."""
    if event.kind != "step":
        return state
    held = state.gradients_of(optimizer)._replace(used=event.call.id, stepped=stepped)
    return state.with_gradients(optimizer, held)


def _machine_of(scaler: str, optimizer: str, state: State) -> Machine:
    """The scaler as it meets an optimizer; of one that is not known each may be another: none is there yet."""
    machine = state.machine(scaler)
    if optimizer:
        return machine
    return machine._replace(per_optimizer=frozenset(each for each in machine.per_optimizer if each[0]))
