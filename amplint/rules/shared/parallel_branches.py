"""Arms of an if that do the same with a scaler and without, and what only one of them does (AMP420)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.events import events, is_grad
from amplint.model.flow.path_conditions import Conditions
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import region_of
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.rules.shared.finite_checks import not_finite

if TYPE_CHECKING:
    from amplint.model import Module

CLEARS, CLIPS, DIVIDES, WAITS, SCHEDULES = (
    "clears the gradients",
    "clips the gradients",
    "divides the loss",
    "waits for some iterations with its step",
    "steps the scheduler",
)
# Functions that are called so may do it.
_NAMED = {CLEARS: ("zero",), CLIPS: ("clip", "hook")}
# The events that surely do it.
_EVENTS = {"zero_grad": CLEARS, "clip": CLIPS}
# More differences than these are no oversight.
_MOST = 2
_LOGS = ("print", "info", "debug", "warning")


class Arm(NamedTuple):
    """One arm: what is left of it without AMP and without what is compared, and that, with its place."""

    block: ir.Block
    scaled: bool
    rest: list[str]
    does: dict[str, ir.Node]
    may_do: set[str]  # under conditions


class Difference(NamedTuple):
    """What one arm does and its twin doesn't."""

    statement: ir.If
    what: str
    arm: Arm
    other: Arm


def parallel_branches(module: Module) -> list[tuple[ir.If, list[Arm]]]:
    """The ifs of which some arms step with a scaler and some without, and those arms, of all elifs too."""
    found = []
    for statement in module.whole.near("step").statements:
        if isinstance(statement, ir.If) and not statement.elif_ and statement.orelse is not None:
            arms = [arm for block in _blocks(statement) if (arm := _read(module, block)) is not None]
            if {arm.scaled for arm in arms} == {True, False}:
                found.append((statement, arms))
    return found


def differences(module: Module) -> list[Difference]:
    """What arms of the file do that their twins don't, and nothing round them does."""
    return [each for statement, arms in module.once(parallel_branches) for each in _compare(module, statement, arms)]


def _blocks(statement: ir.If) -> list[ir.Block]:
    """The arms of an if with its elifs."""
    found = [statement.then]
    orelse = statement.orelse
    while orelse is not None:
        first = orelse.statements[0]
        if not (isinstance(first, ir.If) and first.elif_):
            return [*found, orelse]
        found.append(first.then)
        orelse = first.orelse
    return found


# --- an arm, read ---------------------------------------------------------------------------------------------------


def _read(module: Module, block: ir.Block) -> Arm | None:
    """An arm that holds a step, all with the scaler or all without; None for another."""
    kinds = {event.kind for event in events(module).below(block)}
    scaled = "step" in kinds and "optimizer_step" not in kinds and ("scale" in kinds or "backward" not in kinds)
    plain = "optimizer_step" in kinds and not kinds & {"scale", "unscale_", "step", "update"}
    if not scaled and not plain:
        return None
    reader = _Reader(module)
    return Arm(block, scaled, reader.read(block), reader.does, reader.may_do)


class _Reader:
    """Takes an arm apart."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known = objects(module)
        self._events = events(module)
        self._conditions = Conditions(module)
        self._losses: dict[str, str] = {}  # `scaled = scaler.scale(loss)`
        self.does: dict[str, ir.Node] = {}
        self.may_do: set[str] = set()

    def read(self, block: ir.Block) -> list[str]:
        """What a suite does, as text, without AMP and without what is compared; that goes to `does`."""
        return [text for statement in block.statements for text in self._statement(statement)]

    def _statement(self, statement: ir.Statement) -> list[str]:
        if isinstance(statement, ir.With):
            contexts = [item for item in statement.items if not self._is_region(item.context)]
            inner = self.read(statement.body)
            return [*(f"with {self._text(item.context)}" for item in contexts), *inner]
        if isinstance(statement, ir.If) and statement.orelse is None:
            if self._skips_bad_batch(statement):
                return []  # as the scaler's step does
            before = set(self.does)
            inner = self.read(statement.then)
            self.may_do |= self.does.keys() - before
            if self._conditions.counts(statement.test) and any(each.startswith("step ") for each in inner):
                self._note(WAITS, statement.test)
                return inner
            return [f"if {self._text(statement.test)}", *inner] if inner else []
        found = list(self._events.in_statement(statement))
        if any(statement.blocks()):
            return [self._text(statement)]
        return self._simple(statement, found)

    def _skips_bad_batch(self, statement: ir.If) -> bool:
        """Whether an `if` does nothing but skip the rest where a loss is not finite."""
        *_, last = statement.then.statements
        leaves = isinstance(last, ir.Return) or (isinstance(last, ir.Jump) and last.kind == "continue")
        if not leaves or any(self._events.below(statement.then)):
            return False
        return bool(not_finite(self._module, statement.test, holds=True))

    def _simple(self, statement: ir.Statement, found: list[Event]) -> list[str]:
        rest: list[str] = []
        for event in found:
            if event.kind in _EVENTS:
                self._note(_EVENTS[event.kind], event.call)
            elif event.kind in ("step", "optimizer_step"):
                rest.append(f"step {event.optimizer}")
            elif event.kind == "backward" and event.subject is not None:
                rest.append(f"backward {self._loss(event.subject)}{self._arguments(event.call)}")
            elif event.kind == "opaque":
                return [self._text(statement)]
        if not found:
            return [] if self._is_left_out(statement) else [self._text(statement)]
        if not rest:
            self._keep_loss(statement, found)
        return rest

    def _keep_loss(self, statement: ir.Statement, found: list[Event]) -> None:
        """Remember of which loss a variable is the scaled one."""
        if isinstance(statement, ir.Assign) and isinstance(statement.targets[0], ir.Name):
            scaled = next((each.subject for each in found if each.kind == "scale"), None)
            if scaled is not None:
                self._losses[statement.targets[0].name] = self._loss(scaled)

    def _is_left_out(self, statement: ir.Statement) -> bool:
        """Whether a statement without events says nothing that an arm without AMP would have to say too."""
        if isinstance(statement, ir.Jump):
            return statement.kind == "pass"
        if self._divides(statement):
            self._note(DIVIDES, statement)
            return True
        call = statement.value if isinstance(statement, ir.Expr) else None
        if isinstance(call, ir.Constant):
            return True
        if isinstance(call, ir.Call):
            if _steps_scheduler(call, "step"):
                self._note(SCHEDULES, call)
                return True
            if ir.last_name(call.func) in _LOGS:
                return True
        return any(
            self._known.is_scaler(each) is not None for value in statement.values() for each in ir.walk_values(value)
        )

    def _divides(self, statement: ir.Statement) -> bool:
        """`loss /= n`, `loss = loss / n`."""
        if isinstance(statement, ir.AugAssign):
            return statement.op == "Divide"
        value = statement.value if isinstance(statement, ir.Assign) else None
        if not isinstance(value, ir.Binary) or value.op != "Divide" or not isinstance(statement, ir.Assign):
            return False
        return self._text(value.left) == self._text(statement.targets[0])

    def _loss(self, value: ir.Value) -> str:
        """The loss that a backward starts from, without its scale and without a division."""
        if isinstance(value, ir.Call):
            event = self._events.of(value)
            if event is not None and event.kind == "scale" and event.subject is not None:
                return self._loss(event.subject)
        if isinstance(value, ir.Binary) and value.op == "Divide":
            self._note(DIVIDES, value)
            return self._loss(value.left)
        text = self._text(value)
        return self._losses.get(text, text)

    def _arguments(self, call: ir.Value) -> str:
        return "".join(f" {self._text(arg.value)}" for arg in call.args) if isinstance(call, ir.Call) else ""

    def _is_region(self, context: ir.Value) -> bool:
        if isinstance(context, ir.Call) and region_of(self._module, context) is not None:
            return True
        return any("autocast" in ir.last_name(each) for each in ir.walk_values(context))

    def _note(self, what: str, node: ir.Node) -> None:
        self.does.setdefault(what, node)

    def _text(self, node: ir.Node) -> str:
        return "".join(self._module.text(node).split())


def _steps_scheduler(call: ir.Call, *methods: str) -> bool:
    """Whether a call of one of some methods is one of a scheduler, by its name."""
    if not isinstance(call.func, ir.Attribute) or call.func.attr not in methods:
        return False
    name = ir.last_name(call.func.base).lower()
    return "sched" in name or name.startswith("lr_") or name.endswith("_lr")


# --- two arms, compared ---------------------------------------------------------------------------------------------


def _compare(module: Module, statement: ir.If, arms: list[Arm]) -> Iterator[Difference]:
    reported: set[str] = set()
    for scaled in arms:
        for plain in arms:
            if not scaled.scaled or plain.scaled or scaled.rest != plain.rest:
                continue
            differing = _differing(scaled, plain, arms)
            if len(differing) > _MOST:
                continue
            for what in differing - reported:
                if not _done_elsewhere(module, statement, what):
                    reported.add(what)
                    yield Difference(statement, what, *((scaled, plain) if what in scaled.does else (plain, scaled)))


def _differing(scaled: Arm, plain: Arm, arms: list[Arm]) -> set[str]:
    """What one of two arms does and the other doesn't, but for a clip that only the one with the scaler does."""
    differing = scaled.does.keys() ^ plain.does.keys()
    differing -= {CLIPS} if CLIPS in scaled.does else set()
    # What one arm does for some settings only, as another of the arms without (or with) the scaler does.
    return differing - {
        what
        for one in (scaled, plain)
        for what in one.may_do
        if any(what in each.does for each in arms if each.scaled is not one.scaled)
    }


def _done_elsewhere(module: Module, statement: ir.If, what: str) -> bool:
    """Whether the function round the arms, or one that calls it, does the same outside of them, or may do it."""
    function = ir.function_of(statement)
    around = [function or module.program, *_callers(module, function)]
    inside = {each.id for block in statement.blocks() for each in ir.walk_statements(block)}
    outside = [
        each
        for container in around
        for each in ir.walk_statements(container.body, into=container is function)
        if each.id not in inside and each is not statement
    ]
    hidden = any(
        event.kind == "opaque" and ir.function_of(each) is function
        for each in outside
        for event in events(module).in_statement(each)
    )
    return hidden or any(_does(module, each, what) for each in outside)


def _callers(module: Module, function: ir.Function | None) -> Iterator[ir.Function | ir.Program]:
    """The functions of the file, or its own body, that mention the one."""
    if function is None:
        return
    for value in module.whole.near(function.name).values:
        if isinstance(value, (ir.Name, ir.Attribute)) and ir.last_name(value) == function.name:
            yield ir.function_of(value) or module.program


def _does(module: Module, statement: ir.Statement, what: str) -> bool:
    """Whether a statement does what an arm lacks."""
    if isinstance(statement, ir.Assign) and any(is_grad(target) for target in statement.targets):
        return True
    if what == DIVIDES and isinstance(statement, ir.AugAssign):
        return statement.op == "Divide"
    values = (value for root in statement.values() for value in ir.walk_values(root))
    return any(_divides_loss(each) if what == DIVIDES else _calls(module, each, what) for each in values)


def _divides_loss(value: ir.Value) -> bool:
    if not isinstance(value, ir.Binary) or value.op != "Divide":
        return False
    return any("loss" in ir.last_name(each).lower() for each in ir.walk_values(value.left))


def _calls(module: Module, value: ir.Value, what: str) -> bool:
    """Whether a call does what an arm lacks, or may do it by its name."""
    if not isinstance(value, ir.Call):
        return False
    event, name = events(module).of(value), ir.last_name(value.func)
    if event is not None and _EVENTS.get(event.kind) == what:
        return True
    if any(word in name for word in _NAMED.get(what, ())):
        return True
    return what == SCHEDULES and _steps_scheduler(value, "step", "step_update")
