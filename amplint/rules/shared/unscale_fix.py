"""AMP401's fix: where `unscale_` goes, for which optimizer, under which condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Fix
from amplint.fixes.edits import indentation, insert, line_end, line_start
from amplint.fixes.region_end import last_offset
from amplint.fixes.statements import line_before, own_statement, removed, says_the_same, text_with_comment
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.gradients import GradientKind
from amplint.model.flow.state import State
from amplint.model.flow.violations import OF_CALLERS_GRADIENTS, ViolationKind
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.objects.key_parts import overlap
from amplint.model.objects.terms import Fact, Op, path, present
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.nesting import conditions, exclusive, loop_of, loops_round, upwards
from amplint.model.syntax.scopes import UNKNOWN
from amplint.model.torch_facts.grad_scaler import Stage
from amplint.model.torch_facts.modules import RETURNS_ITSELF, WRAPPERS
from amplint.rules.shared.clips import clips_scaled, unscale_for
from amplint.rules.shared.norm_reads import reads_behind, takes_norm
from amplint.rules.shared.scaler_order import Misuse, backward_between, calls_of, misuses, receiver, stepping
from amplint.rules.shared.unscale_safety import (
    doubt,
    ends,
    half_parameters,
    leaves_without_update,
    rescales_result,
    tuned,
)
from amplint.rules.shared.violation_codes import code_of

if TYPE_CHECKING:
    from amplint.model import Module


_READ_BEFORE = "the norm is computed earlier; add an `unscale_()` before that line by hand"
_SOME_PATHS = "the gradients are scaled on some paths only; add an `unscale_()` on those paths by hand"
_ON_TOP = "unscaled gradients of an earlier iteration may be among these gradients"
_NO_STEP = "no `step()` of the scaler follows in this function, so amplint can't tell which optimizer to unscale"
_HALF = "these parameters are float16, and `unscale_()` raises on float16 parameters"
_NORM_DIVIDED = "the norm is divided by the scale later"
_BY_HAND = "move that call by hand"
_NO_UPDATE = "some path skips `update()`, and `unscale_()` raises in the iteration after that"
# What else has to be done where one of these is why there is no fix: `unscale_` alone would be wrong.
ALSO = {
    _ON_TOP: "call `zero_grad()` after each step",
    _HALF: "keep the parameters in float32",
    _NORM_DIVIDED: "don't divide the norm by the scale",
    _NO_UPDATE: "call `update()` on every path",
}


class ClipFix:
    """Builds the fix of one clip."""

    # What a call may stand in that runs it under a condition, or several times.
    kept_out: tuple[type[ir.Value], ...] = (ir.Conditional, ir.Bool, ir.Comprehension, ir.Lambda)

    def __init__(self, module: Module, clip: Misuse) -> None:
        self._module = module
        self._flow = clip.flow
        self._reached = reached = clip.reached
        self._bad = _bad(module, clip)
        self._violation = clip.violation
        self._statement = ir.statement_of(reached.event.call)

    def build(self) -> tuple[Fix | None, str | None]:
        """The fix, or why there is none."""
        unscale = self._unscale_behind()
        if unscale is not None:
            return self._bring_up(unscale)
        step = self._step()
        return self._before(step) if not isinstance(step, str) else (None, step)

    def _step(self) -> ir.Call | str:
        """The step behind the clip to which the `unscale_` belongs; or why that can't be told."""
        scalers = {scaler for scaler, _ in self._reached.stepped}
        if not self._reached.steps or len(scalers) != 1:
            return self._no_step()
        optimizers = {optimizer for _, optimizer in self._reached.stepped}
        steps = [step for step in self._reached.steps if self._flow.contains(step)]
        if not steps:
            return "the scaler steps in another function; add an `unscale_()` before this line by hand"
        if len(optimizers) > 1:
            owners = self._owners() & optimizers
            steps = [step for step in steps if self._optimizer_key(step) in owners]
            if len(owners) != 1:
                return "amplint can't tell which of several optimizers owns these parameters"
        assert isinstance(steps[0], ir.Call)
        if self._has_none_of_them(steps[0]):
            name = self._module.text(steps[0].args[0].value) if steps[0].args else "the optimizer"
            return f"`{name}` has other parameters than those that are clipped here; clip the parameters of `{name}`"
        return steps[0]

    def _has_none_of_them(self, step: ir.Call) -> bool:
        """Whether a new object's parameters are clipped, and the step's optimizer has those of others."""
        known, optimizer, subject = objects(self._module), self._optimizer_key(step), self._reached.event.subject
        owned = known.owns.get(optimizer, set()) if optimizer is not None else set()
        model = ir.called_on(subject, "parameters")
        if not owned or UNKNOWN in owned or not isinstance(model, ir.Name):
            return False
        made = [ir.before_calls(each, *RETURNS_ITSELF) for each in known.sources(model)]
        is_new = bool(made) and all(
            isinstance(each, ir.Call)
            and not known.names_in(each) & owned
            and not self._module.names.of(each.func) & WRAPPERS
            for each in made
        )
        return is_new and not any(overlap(one, root) for one in owned for root in self._roots())

    def _before(self, step: ir.Call) -> tuple[Fix | None, str | None]:
        """An `unscale_` for a step, where it is right before the clip; or why there is none."""
        assert isinstance(step.func, ir.Attribute)
        call = unscale_for(self._module, step)
        place = self._place(step)
        if isinstance(place, str):
            return None, place
        for name in (step.func.base, step.args[0].value):
            if not says_the_same(self._module, name, place, step):
                return None, f"`{self._module.text(name)}` may be assigned only after this line"
        if rescales_result(self._module, self._reached):
            return None, _NORM_DIVIDED
        if self._on_micro_steps(step):
            if ir.statement_of(step).block is self._statement.block:
                return None, _NO_UPDATE
            return self._move(call, step)
        if half_parameters(self._module, self._roots()):
            return None, _HALF
        guard = self._guard(step, place)
        if guard is None:
            return None, _ON_TOP if self._is_on_top() else _SOME_PATHS
        if self._ends_without_update(step):
            return None, _NO_UPDATE
        served = [self._reached, *self._siblings()]
        doubts = [doubt(self._module, each, self._optimizer_key(step)) for each in served]
        return self._insert(call, place, guard, next(filter(None, doubts), ""))

    def _no_step(self) -> str:
        """Why no step of the scaler comes behind the clip."""
        line, call = self._module.line, self._reached.event.call
        past = [each for each in self._reached.bypasses if self._flow.contains(each)]
        if past:
            return f"the step on {line(past[0])} bypasses the scaler; step through the scaler first"
        steps = [each for each in calls_of(self._flow, self._violation.scaler, "step") if each.call.id > call.id]
        early = [
            each for each in misuses(self._module, "AMP410") if each.flow is self._flow and each.violation.at > call.id
        ]
        if steps and early and early[0].violation.at < steps[0].call.id:
            return f"`update()` on {line(early[0].node)} comes before the step; move `update()` after the step first"
        return _NO_STEP

    # --- an unscale_ that comes too late ----------------------------------------------------------------------------

    def _unscale_behind(self) -> Event | None:
        """The first `unscale_` after it, of the scaler that scaled and the optimizer that owns the gradients."""
        call = self._reached.event.call
        found = [
            each
            for each in calls_of(self._flow, self._violation.scaler, "unscale_")
            if each.call.id > call.id and self._flow.contains(each.call) and not exclusive(each.call, call)
        ]
        if len(stepping(self._flow)) > 1:
            found = [each for each in found if each.optimizer in self._owners()]
        return found[0] if found else None

    def _bring_up(self, unscale: Event) -> tuple[Fix | None, str | None]:
        module, statement = self._module, own_statement(unscale.call)
        assert isinstance(unscale.call, ir.Call)
        text = module.text(unscale.call)
        if statement is None:
            return None, f"`{text}` is part of another statement; {_BY_HAND}"
        place = self._place_above(unscale, statement)
        if backward_between(module, self._flow, self._statement, statement):
            return (
                None,
                f"`{text}` on {module.line(statement)} can't move before this line: a backward pass runs between them",
            )
        if isinstance(place, str):
            return None, f"{place.format(text)}; {_BY_HAND}"
        if self._reached.event.kind == "clip" and rescales_result(module, self._reached):
            return None, _NORM_DIVIDED
        names = receiver(unscale), unscale.call.args[0].value
        gone = removed(module, statement)
        before = line_before(module, place, text_with_comment(module, statement))
        if gone is None or before is None:
            return None, f"`{text}` is on one line with other code; {_BY_HAND}"
        if not all(says_the_same(module, each, place, statement) for each in names):
            return None, f"a name in `{text}` may change between this line and that call; {_BY_HAND}"
        against = self._tuned()
        kind = Applicability.UNSAFE if against else Applicability.SAFE
        title = f"Move `{text}` before the gradients are used" + (f" ({against})" if against else "")
        return Fix(kind, title, (before, gone)), None

    def _place_above(self, unscale: Event, statement: ir.Statement) -> ir.Statement | str:
        """The statement before which an `unscale_` that comes too late can go, in its own suite; or why not."""
        at = self._place(unscale.call)
        above = upwards(at) if not isinstance(at, str) else ()
        place = next((each for each in above if each.block is statement.block), None)
        if place is None or place.id > statement.id:
            return "this line and `{}` are in different blocks"
        if _leaves_between(place, statement):
            return "the code between this line and `{}` may skip that call"
        return (
            "a backward pass runs before `{}`"
            if backward_between(self._module, self._flow, place, statement)
            else place
        )

    def _tuned(self) -> str:
        """Which number may have been tuned to scaled gradients; "" for none."""
        return tuned(self._module, self._reached.event.call)

    # --- what and where ---------------------------------------------------------------------------------------------

    def _owners(self) -> set[str]:
        """The optimizers that own what is clipped; none where it belongs to more than is known."""
        known = objects(self._module)
        found = [known.owned_by(root) for root in self._roots()]
        return set().union(*found) if all(found) else set()

    def _roots(self) -> frozenset[str]:
        subject = self._reached.event.subject
        return objects(self._module).parameters_roots(subject) if subject is not None else frozenset()

    def _optimizer_key(self, step: ir.Value) -> str | None:
        return self._flow.event_states[step.id].event.optimizer

    def _place(self, step: ir.Value) -> ir.Statement | str:
        """The statement before which unscale_ goes: the clip's own, or the loop over parameters that it stands in."""
        if self._is_kept_out():
            return "this call is part of a larger expression"
        place: ir.Statement = self._statement
        for loop in loops_round(self._statement):
            if loop not in upwards(ir.statement_of(step)):
                place = loop
        served = {each.event.call.id: each for each in (self._reached, *self._siblings())}.values()
        for other in served:
            place = self._before_both(place, ir.statement_of(other.event.call))
        above = self._before_reads(place, [each for each in served if self._flow.contains(each.event.call)], step)
        if above is None:
            return _READ_BEFORE
        if indentation(self._module, above) is None or (isinstance(above, ir.If) and above.elif_):
            return "this call is on one line with other code"
        return above

    def _is_kept_out(self) -> bool:
        """Whether the clip is a part of an expression that runs it under a condition, or several times."""
        up = self._reached.event.call.parent
        while isinstance(up, ir.Value):
            if isinstance(up, self.kept_out):
                return True
            up = up.parent
        return False

    def _before_reads(self, place: ir.Statement, clips: list[EventStates], step: ir.Value) -> ir.Statement | None:
        """A place, or one above it before all reads of gradients that some clips depend on; None where it can't go."""
        behind = [self._reads_behind(each) for each in clips]
        if any(not reads and takes_norm(self._module, each) for each, reads in zip(clips, behind, strict=True)):
            return None
        reads, above = {read for each in behind for read in each}, place
        for read in reads:
            above = self._before_both(above, read)
        if any(read.id < above.id for read in reads) or (above is not place and not self._may_go_up(above, step)):
            return None
        return above

    def _reads_behind(self, clip: EventStates) -> list[ir.Statement]:
        """Where, behind the backward, the gradients were read that a clip depends on: unscale_ belongs before that."""
        cause = self._violation.cause if self._violation.kind is not ViolationKind.CLIP_OF_SCALED_AGAIN else 0
        here = bool(cause) and self._flow.contains(self._flow.node(cause))
        return reads_behind(self._module, clip, cause if here else 0)

    def _may_go_up(self, place: ir.Statement, step: ir.Value) -> bool:
        """Whether what runs at a place above the clip surely comes to the step, with no backward in between."""
        return (
            not conditions(step, place)
            and not _leaves_between(place, self._statement)
            and not backward_between(self._module, self._flow, place, self._statement)
        )

    def _siblings(self) -> list[EventStates]:
        """The clips and reads of this function that wait for the same step: one unscale_ has to serve them all.

        Those that wait for another step of the same optimizer, as in another arm, have one of their own.
        """
        steps = {step.id for step in self._reached.steps}
        return [
            reached
            for reached in self._flow.event_states.values()
            if reached.event.kind in ("clip", "read")
            and reached.stepped == self._reached.stepped
            and steps & {step.id for step in reached.steps}
            and (reached is self._reached or reached.event.call.id in self._others())
        ]

    def _others(self) -> set[int]:
        every = (*misuses(self._module, "AMP401"), *misuses(self._module, "AMP409"))
        return {each.violation.at for each in every if each.flow is self._flow and clips_scaled(self._module, each)}

    @staticmethod
    def _before_both(place: ir.Statement, other: ir.Statement) -> ir.Statement:
        """The statement of the innermost suite that holds both, before the earlier one."""
        theirs = {id(each.block): each for each in upwards(other)}
        for mine in upwards(place):
            if id(mine.block) in theirs:
                return min(mine, theirs[id(mine.block)], key=lambda statement: statement.id)
        return place

    # --- under which condition --------------------------------------------------------------------------------------

    def _on_micro_steps(self, step: ir.Call) -> bool:
        """Whether some path leads from the clip to the next scaled backward without an update."""
        if self._reached.backward_first:
            return True
        return any(
            state.gradients.kind is GradientKind.SCALED
            and not self._flow.disabled(state.gradients.scaler, state)
            and not any(state.known(present(path(scaler))) is False for scaler, _ in self._reached.stepped)
            for state in ends(self._reached, self._flow.container, step)
        )

    def _ends_without_update(self, step: ir.Call) -> bool:
        """Whether the function can end before step and update, as where a norm that is not finite is skipped."""
        scaler = step.func.base if isinstance(step.func, ir.Attribute) else None
        if isinstance(scaler, ir.Name) and self._is_made_here(scaler):
            return False
        return leaves_without_update(self._reached, self._bad, self._flow.container, step)

    def _is_made_here(self, scaler: ir.Name) -> bool:
        """Whether a scaler ends with the function, so that there is no next call."""
        bindings = objects(self._module).bindings(scaler)
        return bool(bindings) and all(
            isinstance(each, Assigned) and ir.function_of(each.target) is self._flow.container for each in bindings
        )

    def _guard(self, step: ir.Value, place: ir.Statement) -> str | None:
        """The condition under which the gradients are scaled, as text; "" for always; None if it can't be told."""
        bad = _common(self._bad)
        if self._violation.kind in OF_CALLERS_GRADIENTS:
            needed = self._needed_by(step) - bad
            scaler = next(iter(self._reached.stepped))[0]
            needed = {fact for fact in needed if fact.condition == present(path(scaler))} or needed
        elif good := self._right_states():
            needed = {fact for fact in bad if all(state.known(fact.condition) is (not fact.holds) for state in good)}
            if not needed:
                return None
        else:
            return ""
        if not needed:
            return ""
        in_order = sorted(needed, key=lambda fact: (str(fact.condition), fact.holds))
        texts = [text for fact in in_order if (text := self._as_text(fact, place)) is not None]
        return texts[0] if texts else None

    def _needed_by(self, step: ir.Value) -> set[Fact]:
        """What holds on all paths to a step, as far as it is simple: only the step knows when the scaler is used."""
        common = _common(self._flow.event_states[step.id].states)
        return {fact for fact in common if fact.condition.op == Op.PRESENT or not fact.condition.is_compound}

    def _right_states(self) -> list[State]:
        """The states in which the clip is right."""
        return [each for each in self._reached.states if each not in self._bad and not self._is_scaled(each)]

    def _is_on_top(self) -> bool:
        """Whether on other paths the gradients were added to unscaled ones: what is missing there is a clear."""
        return all(any(held.kind is GradientKind.OVER for _, held in each.groups) for each in self._right_states())

    def _is_scaled(self, state: State) -> bool:
        """Whether a path surely comes from the scaled backward, though it isn't known whose gradients are clipped."""
        held = state.rest
        stages = {its.stage for _, machine in state.scalers for _, its in machine.per_optimizer}
        return (
            held.kind is GradientKind.SCALED
            and (held.origin, held.updated) == (self._violation.cause, 0)
            and Stage.UNSCALED not in stages
            and not self._flow.disabled(held.scaler, state)
        )

    def _as_text(self, fact: Fact, place: ir.Statement) -> str | None:
        """A condition of the function that says the fact, as it is written there, if it can be asked at `place` too."""
        body = self._flow.container.body
        for statement in ir.walk_statements(body, into=False):
            if isinstance(statement, ir.If) and self._can_ask(statement.test, place):
                state = self._flow.conditions.assume(statement.test, True, State())
                if len(state.facts) == 1:
                    if fact in state.facts:
                        return self._module.text(statement.test)
                    if Fact(fact.condition, not fact.holds) in state.facts:
                        return (
                            f"not {self._module.text(statement.test)}"
                            if isinstance(statement.test, (ir.Name, ir.Attribute))
                            else None
                        )
        return None

    def _can_ask(self, test: ir.Value, place: ir.Statement) -> bool:
        if isinstance(test, (ir.Bool, ir.Call, ir.Walrus)):
            return False
        names = [each for each in ir.walk_values(test) if isinstance(each, ir.Name)]
        return all(says_the_same(self._module, each, place, test) for each in names)

    # --- edits ------------------------------------------------------------------------------------------------------

    def _insert(self, call: str, place: ir.Statement, guard: str, against: str) -> tuple[Fix | None, str | None]:
        module = self._module
        indent = indentation(module, place) or ""
        newline = module.source.newline
        start = module.span(place)[0]
        if guard:
            text = f"if {guard}:{newline}{indent}{self._unit()}{call}{newline}{indent}"
        else:
            text = f"{call}{newline}{indent}"
        title = f"Insert `{call}` before the gradients are used" + (f" ({against})" if against else "")
        return Fix(Applicability.UNSAFE if against else Applicability.SAFE, title, (insert(start, text),)), None

    def _move(self, call: str, step: ir.Value) -> tuple[Fix | None, str | None]:
        """Clip and unscale_ go to the boundary, before the step."""
        moved, target = self._moved(), ir.statement_of(step)
        refusal = f"`unscale_()` would raise on micro steps; clip where the optimizer steps, after `{call}`"
        edits = self._moving(moved, target, call) if self._may_wait(moved, target) else None
        if edits is None or not all(says_the_same(self._module, name, moved, step) for name in _names(moved)):
            return None, refusal
        title = f"Move the clip to the optimizer's step, after `{call}` (micro steps are no longer clipped)"
        return Fix(Applicability.UNSAFE, title, edits), None

    def _moved(self) -> ir.Statement:
        """The clip's statement, or the `if` that holds nothing else."""
        up = self._statement.parent
        alone = isinstance(up, ir.If) and up.orelse is None and up.then.statements == [self._statement]
        return up if isinstance(up, ir.If) and alone else self._statement

    def _may_wait(self, moved: ir.Statement, target: ir.Statement) -> bool:
        """Whether the clip alone waits for the step, is a statement of its own, and asks there what it asks here."""
        return (
            len(self._siblings()) <= 1
            and isinstance(self._statement, ir.Expr)
            and self._is_boundary(moved, target)
            and not (isinstance(moved, ir.If) and self._changes_each_time(moved.test))
        )

    def _moving(self, moved: ir.Statement, target: ir.Statement, call: str) -> tuple[Edit, Edit] | None:
        """The edits that move a statement to a deeper one, below a call; None where its lines can't be moved."""
        module = self._module
        outer, inner = indentation(module, moved), indentation(module, target)
        if outer is None or inner is None:
            return None
        last = line_end(module, last_offset(module, moved))
        behind = module.source.text[last_offset(module, moved) : last].strip()
        first = self._comments_above(line_start(module, module.span(moved)[0]), outer)
        text = module.source.text[first:last]
        unit = inner.removeprefix(outer)
        if not inner.startswith(outer) or '"""' in text or "'''" in text or behind[:1] not in ("", "#"):
            return None
        shifted = "".join(unit + line if line.strip() else line for line in text.splitlines(keepends=True))
        at = line_start(module, module.span(target)[0])
        return Edit(first, last, ""), insert(at, f"{inner}{call}{module.source.newline}{shifted}")

    def _comments_above(self, start: int, indent: str) -> int:
        """Where the comments begin that stand right above the line at `start`, in its indentation."""
        source = self._module.source
        row = source.row(start)
        while row > 1 and source.line(row - 1).startswith(indent + "#"):
            row -= 1
        return source.line_starts[row - 1]

    def _changes_each_time(self, test: ir.Value) -> bool:
        """Whether a condition counts the micro steps: at the boundary it would say something else."""
        known = objects(self._module)
        around: list[ir.Node] = [*loops_round(self._statement)] or [self._flow.container]
        changed = {key for each in around if isinstance(each, ir.Statement) for key in known.assigned_in(each)}
        return bool(changed & known.names_in(test))

    def _is_boundary(self, moved: ir.Statement, target: ir.Statement) -> bool:
        """Whether the step stands deeper than the clip, under an if behind it in the same suite."""
        up: ir.Node | None = target
        while isinstance(up, ir.Statement):
            if up.block is moved.block:
                return isinstance(up, ir.If) and up.id > moved.id and target.block is up.then and up.orelse is None
            if isinstance(up, (ir.For, ir.While)):
                return False
            up = up.parent
        return False

    def _unit(self) -> str:
        """One level of the function's own indentation."""
        outer = self._flow.container
        first = outer.body.statements[0]
        if isinstance(outer, ir.Function) and (inner := indentation(self._module, first)) is not None:
            line = self._module.source.line(self._module.row(outer))
            return inner.removeprefix(line[: len(line) - len(line.lstrip())]) or "    "
        return "    "


def _leaves_between(first: ir.Statement, last: ir.Statement) -> bool:
    """Whether a path leaves a suite, or the iteration, between two of its statements."""
    for each in ir.walk_statements(first.block, into=False):
        if first.id < each.id < last.id:
            loop = loop_of(each)
            inside = loop is not None and loop.id >= first.id
            if isinstance(each, ir.Return) or (isinstance(each, ir.Jump) and each.kind != "pass" and not inside):
                return True
    return False


def _bad(module: Module, clip: Misuse) -> list[State]:
    """The states in which a clip is wrong: paths on which its parameters are another's have violations apart."""
    others = [other for other in misuses(module, code_of(clip.violation.kind)) if other.flow is clip.flow]
    return [
        state
        for state in clip.reached.states
        if any(each.violation.at == clip.violation.at and state in each.states for each in others)
    ]


def _common(states: list[State]) -> set[Fact]:
    """The facts that hold in every one of some states."""
    facts = [set(state.facts) for state in states]
    return set.intersection(*facts) if facts else set()


def _names(statement: ir.Statement) -> list[ir.Name]:
    """The names that a statement reads, its suites' too."""
    statements = [statement, *(each for block in statement.blocks() for each in ir.walk_statements(block))]
    values = (value for each in statements for root in each.values() for value in ir.walk_values(root))
    return [value for value in values if isinstance(value, ir.Name)]
