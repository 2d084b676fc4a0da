"""Arms of an if that do the same with a scaler and without, and what only one of them does (AMP420)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import callers
from amplint.model.calls.events import events, is_grad
from amplint.model.flow.path_conditions import Conditions, names_read
from amplint.model.names.grad_mode import GradMode, grad_mode
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import region_of
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.control import block_leaves, ends_iteration
from amplint.model.syntax.nesting import following, loops_round, upwards
from amplint.rules.shared.finite_checks import about_finite, ends_program, not_finite

if TYPE_CHECKING:
    from amplint.model import Module

CLEARS, CLIPS, DIVIDES, WAITS, SCHEDULES, AVERAGES, BACKWARDS, STEPS = (
    "clears the gradients",
    "clips the gradients",
    "divides the loss",
    "accumulates gradients over several iterations",
    "steps the scheduler",
    "updates the moving average of the weights",
    "runs backward",
    "steps",
)
# Functions that are called so may do it.
_NAMED = {CLEARS: ("zero",), CLIPS: ("clip", "hook"), BACKWARDS: ("backward",)}
# The events that surely do it.
_EVENTS = {"zero_grad": CLEARS, "clip": CLIPS, "backward": BACKWARDS}
# More differences than these are no oversight.
_MOST = 2
_BOUNDS = ("min", "max", "a_min", "a_max")
_LOGS = ("print", "info", "debug", "warning")
_AVERAGE = re.compile(r"(?i)(^|_)(model|net)?(ema|swa)(model|net)?(_|$)|moving_?av|averaged_?(model|weights)")
_UPDATES = re.compile(r"(?i)^_*(update|step|lerp)|_(update|step)$")
_STEP, _BACKWARD = "step ", "backward "
_VARIANTS = 4


class Arm(NamedTuple):
    """One arm: what is left of it without AMP and without what is compared, and that, with its place.

    `steps`: the optimizers that it steps, by their keys; they are in `rest` too. `region`: it opens one of autocast.
    """

    block: ir.Block
    scaled: bool
    rest: list[str]
    does: dict[str, ir.Node]
    may_do: set[str]  # under conditions
    steps: dict[str, ir.Call]
    region: bool


class Difference(NamedTuple):
    """What one arm does and its twin doesn't.

    `steps`: those of the optimizers that the twin doesn't step; `alike`: all else that the two do is the same.
    """

    statement: ir.If | ir.Conditional
    what: str
    node: ir.Node
    arm: Arm
    other: Arm
    steps: tuple[ir.Call, ...] = ()
    alike: bool = True


class Branches(NamedTuple):
    """An if, and those of its arms that train with a scaler or without; `inside`: the statements of all its arms."""

    statement: ir.If | ir.Conditional
    arms: list[Arm]
    inside: set[int]


def parallel_branches(module: Module) -> list[Branches]:
    """The ifs of which some arms train with a scaler and some without, and those arms, of all elifs too."""
    found = []
    for statement in _candidates(module):
        blocks = list(_arms(module, statement) if isinstance(statement, ir.If) else _chosen(module, statement))
        read = [(outer, arm) for outer, block in blocks if (arm := _read(module, block)) is not None]
        arms = [arm for _, arm in read]
        if _chooses_otherwise(read):
            continue
        if {arm.scaled for arm in arms} == {True, False}:
            suites = [each for pair in blocks for each in pair]
            suites += statement.blocks() if isinstance(statement, ir.If) else ()
            inside = {each.id for suite in suites for each in ir.walk_statements(suite)}
            found.append(Branches(statement, arms, inside | {ir.statement_of(statement).id}))
    return found


def _chooses_otherwise(arms: list[tuple[ir.Block, Arm]]) -> bool:
    """Whether each suite of an if has arms with a scaler: what chooses is an if in one of them, which is compared."""
    kinds: dict[ir.Block, set[bool]] = {}
    for suite, arm in arms:
        kinds.setdefault(suite, set()).add(arm.scaled)
    return all(True in each for each in kinds.values())


def differences(module: Module) -> list[Difference]:
    """What arms of the file do that their twins don't, and nothing round them does: for each thing that is missing in
    an arm one of the arms that have it.
    """
    found, seen = [], set[tuple[int, str]]()
    for branches in module.once(parallel_branches):
        for each in _compare(module, branches):
            places = {(each.node.id, each.what), (each.other.block.statements[0].id, each.what)}
            if not places & seen:
                found.append(each)
            seen |= places
    return found


# --- the arms of an if -----------------------------------------------------------------------------------------------


def _candidates(module: Module) -> list[ir.If | ir.Conditional]:
    """The ifs that may choose between training with a scaler and without: round a step or a backward, or round a call
    of a function that has them.
    """
    near = [each for each in module.whole.near("step", "backward").statements if isinstance(each, ir.If)]
    found: dict[int, ir.If | ir.Conditional] = {each.id: each for each in near}
    functions = {ir.function_of(each): None for each in module.whole.near("backward").calls}
    for call in [call for function in functions for call in callers(module, function)]:
        if isinstance(call.parent, ir.Conditional):
            found.setdefault(call.parent.id, call.parent)
        for each in upwards(ir.statement_of(call)):
            if isinstance(each.parent, ir.If):
                found.setdefault(each.parent.id, each.parent)
    return [each for _, each in sorted(found.items()) if not (isinstance(each, ir.If) and each.elif_)]


def _arms(module: Module, statement: ir.If) -> Iterator[tuple[ir.Block, ir.Block]]:
    """The arms of an if, each as it stands there, and as the suite that it runs."""
    blocks = _blocks(statement)
    tail = _tail(statement, blocks)
    for block in [*blocks, *([tail] if tail is not None else [])]:
        for each in _apart(module, block):
            yield block, _called(module, _without_end(each) if tail is not None else each)


def _chosen(module: Module, choice: ir.Conditional) -> Iterator[tuple[ir.Block, ir.Block]]:
    """The functions that `one(batch) if use_amp else other(batch)` runs."""
    for value in (choice.then, choice.other):
        if isinstance(value, ir.Call) and (body := _body(module, value)) is not None:
            yield body, body


def _blocks(statement: ir.If) -> list[ir.Block]:
    """The suites of an if with its elifs."""
    found = [statement.then]
    orelse = statement.orelse
    while orelse is not None:
        first = orelse.statements[0]
        if not (isinstance(first, ir.If) and first.elif_):
            return [*found, orelse]
        found.append(first.then)
        orelse = first.orelse
    return found


def _tail(statement: ir.If, blocks: list[ir.Block]) -> ir.Block | None:
    """What comes after an `if` without an `else` whose suites leave: an arm as well, up to the end of the function or
    of the loop's round.
    """
    last: ir.If | None = statement
    while last is not None and last.orelse is not None:
        first = last.orelse.statements[0]
        last = first if isinstance(first, ir.If) and first.elif_ else None
    around = statement.block
    if last is None or not all(block_leaves(each) for each in blocks):
        return None
    if not isinstance(around.owner, (ir.Function, ir.For, ir.While)):
        return None
    after = following(statement)
    return ir.Block(around.owner, around.role, after) if after else None


def _without_end(block: ir.Block) -> ir.Block:
    """A suite without the `return` or `continue` that it leaves by, which the arm after it needs not."""
    last = block.statements[-1]
    leaves = isinstance(last, ir.Return) and last.value is None
    if len(block.statements) > 1 and (leaves or (isinstance(last, ir.Jump) and last.kind == "continue")):
        return ir.Block(block.owner, block.role, block.statements[:-1])
    return block


def _apart(module: Module, block: ir.Block, depth: int = 2) -> list[ir.Block]:
    """The arms that an arm consists of: those of an if in it that chooses once more between a scaler and none."""
    kinds = {event.kind for event in events(module).below(block)}
    if not depth or not (kinds & {"scale", "step"} and "optimizer_step" in kinds):
        return [block]
    for at, inner in enumerate(block.statements):
        if isinstance(inner, ir.If) and inner.orelse is not None:
            before, after = block.statements[:at], block.statements[at + 1 :]
            variants = [
                ir.Block(block.owner, block.role, [*before, *each.statements, *after]) for each in _blocks(inner)
            ]
            return [one for each in variants[:_VARIANTS] for one in _apart(module, each, depth - 1)]
    return [block]


def _called(module: Module, block: ir.Block) -> ir.Block:
    """The body of the function that does all of an arm: `return self.step_with_amp(batch)`."""
    only = block.statements[0] if len(block.statements) == 1 else None
    call = only.value if isinstance(only, (ir.Expr, ir.Assign, ir.Return)) else None
    body = _body(module, call) if isinstance(call, ir.Call) else None
    return body or block


def _body(module: Module, call: ir.Call) -> ir.Block | None:
    """What a call runs, if that stands in this file."""
    callee = module.once(CallGraph).find(call)
    if callee is None or not module.is_own(callee.function) or callee.function.is_generator:
        return None
    return _without_end(callee.function.body)


# --- an arm, read ---------------------------------------------------------------------------------------------------


def _read(module: Module, block: ir.Block) -> Arm | None:
    """An arm that holds a step or a backward, all with the scaler or all without; None for another."""
    kinds = {event.kind for event in events(module).below(block)}
    scaled = "optimizer_step" not in kinds and (
        "scale" in kinds if "backward" in kinds else bool(kinds & {"scale", "step"})
    )
    plain = bool(kinds & {"optimizer_step", "backward"}) and not kinds & {"scale", "unscale_", "step", "update"}
    if not scaled and not plain:
        return None
    reader = Reader(module)
    return Arm(block, scaled, reader.read(block), reader.does, reader.may_do, reader.steps, reader.region)


class Reader:
    """Takes an arm apart.

    `does` is what it does of what is compared, with the place; `region`: it opens a region of autocast; `without`: what
    switches gradients off in it.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known = objects(module)
        self._events = events(module)
        self._conditions = Conditions(module)
        self._losses: dict[str, str] = {}  # `scaled = scaler.scale(loss)`
        self.does: dict[str, ir.Node] = {}
        self.may_do: set[str] = set()
        self.steps: dict[str, ir.Call] = {}
        self.region = False
        self.without: ir.Value | None = None

    def read(self, block: ir.Block) -> list[str]:
        """What a suite does, as text, without AMP and without what is compared; that goes to `does`."""
        return [text for statement in block.statements for text in self._statement(statement)]

    def leaves(self, block: ir.Block) -> Iterator[ir.Node]:
        """The simple statements of a suite, with the tests, loops and contexts around them, but for regions and what
        switches gradients off.
        """
        for statement in block.statements:
            if isinstance(statement, ir.With):
                yield from self._contexts(statement)
            elif isinstance(statement, ir.If):
                yield statement.test
            elif isinstance(statement, ir.For):
                yield from (statement.target, statement.iter)
            elif not any(statement.blocks()):
                yield statement
            for each in statement.blocks():
                yield from self.leaves(each)

    def _contexts(self, statement: ir.With) -> Iterator[ir.Value]:
        """The contexts of a `with`, but for regions and for what switches gradients off."""
        for item in statement.items:
            if self._is_region(item.context):
                self.region = True
            elif grad_mode(self._module, item.context) is GradMode.OFF:
                self.without = self.without or item.context
            else:
                yield item.context

    def _statement(self, statement: ir.Statement) -> list[str]:
        if isinstance(statement, ir.With):
            contexts = [item for item in statement.items if not self._is_region(item.context)]
            self.region = self.region or len(contexts) < len(statement.items)
            inner = self.read(statement.body)
            return [*(f"with {self._text(item.context)}" for item in contexts), *inner]
        if isinstance(statement, ir.If) and (stepping := self._steps_if_finite(statement)) is not None:
            return self.read(stepping)  # so does the scaler's step
        if isinstance(statement, ir.If) and statement.orelse is None:
            if self._skips_bad_batch(statement):
                return []  # as the scaler's step does
            before = set(self.does)
            inner = self.read(statement.then)
            self.may_do |= self.does.keys() - before
            if self._conditions.counts(statement.test) and any(each.startswith(_STEP) for each in inner):
                self._note(WAITS, statement.test)
                return inner
            return [f"if {self._text(statement.test)}", *inner, "end"] if inner else []
        if isinstance(statement, ir.For) and statement.orelse is None:
            inner = self.read(statement.body)
            return (
                [f"for {self._text(statement.target)} in {self._text(statement.iter)}", *inner, "end"] if inner else []
            )
        found = list(self._events.in_statement(statement))
        if any(statement.blocks()):
            return [self._text(statement)]
        return self._simple(statement, found)

    def _steps_if_finite(self, statement: ir.If) -> ir.Block | None:
        """The suite of an `if` that steps where a norm or a loss is finite, if otherwise nothing is done but to log,
        to clear the gradients and to skip the rest.
        """
        if not _only_asks_for_finite(self._module, statement.test):
            return None
        good: ir.Block | None = statement.orelse
        bad: ir.Block | None = statement.then
        if not_finite(self._module, statement.test, holds=False):
            good, bad = bad, good
        if good is None or not any(each.kind in ("step", "optimizer_step") for each in self._events.below(good)):
            return None
        left = all(self._is_skipping(each) for each in bad.statements) if bad is not None else True
        return good if left else None

    def _is_skipping(self, statement: ir.Statement) -> bool:
        """Whether a statement logs, clears the gradients or skips the rest."""
        found = {event.kind for event in self._events.in_statement(statement)}
        if found:
            return found == {"zero_grad"}
        if isinstance(statement, ir.Jump):
            return statement.kind in ("continue", "pass")
        call = statement.value if isinstance(statement, ir.Expr) else None
        return isinstance(call, ir.Call) and ir.last_name(call.func) in _LOGS

    def _skips_bad_batch(self, statement: ir.If) -> bool:
        """Whether an `if` does nothing but skip the rest, or end the program, where a loss or a norm is not finite."""
        if not (ends_iteration(statement.then) or ends_program(self._module, statement.then.statements[-1])):
            return False
        if {event.kind for event in self._events.below(statement.then)} - {"zero_grad"}:
            return False
        return bool(not_finite(self._module, statement.test, holds=True))

    def _simple(self, statement: ir.Statement, found: list[Event]) -> list[str]:
        rest: list[str] = []
        if isinstance(statement, ir.Expr) and _updates_average(statement.value):
            self._note(AVERAGES, statement.value)
            return []
        if helped := self._by_helper(statement):
            self._note(helped, statement)
            return []
        for event in found:
            if event.kind in _EVENTS:
                self._note(_EVENTS[event.kind], event.call)
            if event.kind in ("step", "optimizer_step"):
                rest.append(f"{_STEP}{event.optimizer}")
                if event.optimizer is not None and isinstance(event.call, ir.Call):
                    self.steps.setdefault(event.optimizer, event.call)
            elif event.kind == "backward" and event.subject is not None:
                rest.append(f"{_BACKWARD}{self._loss(event.subject)}{self._arguments(event.call)}")
            elif event.kind == "opaque":
                return [self._text(statement)]
        if not found:
            return [] if self._is_left_out(statement) else [self._text(statement)]
        if not rest:
            self._keep_loss(statement, found)
        return rest

    def _by_helper(self, statement: ir.Statement) -> str:
        """What is compared of a function of this file that a statement calls, if it does nothing else; "" otherwise."""
        call = statement.value if isinstance(statement, ir.Expr) else None
        body = _body(self._module, call) if isinstance(call, ir.Call) else None
        if body is None or not all(map(self._is_event_or_text, body.statements)):
            return ""
        kinds = {event.kind for event in self._events.below(body)} - {"unscale_"}
        return _EVENTS.get(min(kinds), "") if len(kinds) == 1 else ""

    def _is_event_or_text(self, statement: ir.Statement) -> bool:
        if isinstance(statement, ir.Expr) and isinstance(statement.value, ir.Constant):
            return True
        return any(self._events.in_statement(statement)) and not any(statement.blocks())

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
        if isinstance(statement, ir.AugAssign) and statement.op == "Divide":
            self._note(DIVIDES, statement)
            return True
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Binary):
            value = statement.value
            if value.op == "Divide" and self._text(value.left) == self._text(statement.targets[0]):
                self._note(DIVIDES, statement)
                return True
        call = statement.value if isinstance(statement, ir.Expr) else None
        if isinstance(call, ir.Constant):
            return True
        if isinstance(call, ir.Call):
            name = ir.last_name(call.func)
            if isinstance(call.func, ir.Attribute) and name == "step" and _is_scheduler(call.func.base):
                self._note(SCHEDULES, call)
                return True
            if name in _LOGS:
                return True
        return any(
            self._known.is_scaler(each) is not None for value in statement.values() for each in ir.walk_values(value)
        )

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


def _only_asks_for_finite(module: Module, test: ir.Value) -> bool:
    """Whether a test asks for nothing but whether numbers are finite."""
    if isinstance(test, ir.Bool):
        return _only_asks_for_finite(module, test.left) and _only_asks_for_finite(module, test.right)
    if isinstance(test, ir.Unary) and test.op == "Not":
        return _only_asks_for_finite(module, test.operand)
    return bool(about_finite(module, test))


def _is_scheduler(value: ir.Value) -> bool:
    name = ir.last_name(value).lower()
    return "sched" in name or name.startswith("lr_") or name.endswith("_lr")


def _updates_average(value: ir.Value) -> bool:
    """Whether a value is a call that updates a moving average of the weights, going by the names."""
    if not isinstance(value, ir.Call):
        return False
    name = ir.last_name(value.func)
    if _AVERAGE.search(name):
        return isinstance(value.func, ir.Name) or bool(_UPDATES.search(name))
    of_average = isinstance(value.func, ir.Attribute) and _AVERAGE.search(ir.last_name(value.func.base))
    return bool(of_average and _UPDATES.search(name))


# --- two arms, compared ---------------------------------------------------------------------------------------------


def _compare(module: Module, branches: Branches) -> Iterator[Difference]:
    """What one arm with the scaler does alone, or one without it."""
    arms = branches.arms
    for scaled in arms:
        for plain in arms:
            if not scaled.scaled or plain.scaled:
                continue
            more, fewer = (scaled, plain) if len(scaled.steps) > len(plain.steps) else (plain, scaled)
            alone = [key for key in more.steps if key not in fewer.steps] if fewer.steps else []
            left = {f"{_STEP}{key}" for key in alone}
            differing = _differing(scaled, plain, arms)
            if BACKWARDS in differing:
                # What else is done with the gradients follows from it.
                differing = {BACKWARDS} if _steps_alike(scaled, plain) else set()
                if _without_backward(scaled) != _without_backward(plain):
                    continue
            elif [each for each in more.rest if each not in left] != fewer.rest:
                # Whatever else they do: each has a whole step of its own, and only one of them clips.
                whole = all(map(_runs_one_step, (scaled, plain))) and _steps_alike(scaled, plain)
                if not whole or differing != {CLIPS} or not any(map(_clips_by_itself, (scaled, plain))):
                    continue
            if not 0 < len(differing) + bool(alone) <= _MOST:
                continue
            for what in sorted(differing):
                one, other = (scaled, plain) if what in scaled.does else (plain, scaled)
                if what == CLIPS and _may_clip(module, other):
                    continue
                if not _done_elsewhere(module, branches, (one, other), what) and not (
                    what == WAITS and _is_asserted(module, branches.statement, one.does[what])
                ):
                    yield Difference(branches.statement, what, one.does[what], one, other, alike=one.rest == other.rest)
            steps = tuple(more.steps[key] for key in alone if not _stepped_elsewhere(module, branches, key))
            if steps:
                yield Difference(branches.statement, STEPS, steps[0], more, fewer, steps)


def _clips_by_itself(arm: Arm) -> bool:
    """Whether an arm clips in a statement of its own, and asks for nothing that the clip returns."""
    return CLIPS in arm.does and isinstance(ir.statement_of(arm.does[CLIPS]), ir.Expr)


def _may_clip(module: Module, arm: Arm) -> bool:
    """Whether an arm calls something that clips by its name, whoever's method it is."""
    return any(_does(module, each, CLIPS, is_set_up=False) for each in ir.walk_statements(arm.block))


def _without_backward(arm: Arm) -> list[str]:
    return [each for each in arm.rest if not each.startswith(_BACKWARD)]


def _steps_alike(one: Arm, other: Arm) -> bool:
    """Whether two arms step the same optimizers, and give the step nothing that may run a backward itself."""
    plain = one if other.scaled else other
    return (
        bool(one.steps)
        and one.steps.keys() == other.steps.keys()
        and not any(each.args for each in plain.steps.values())
    )


def _differing(scaled: Arm, plain: Arm, arms: list[Arm]) -> set[str]:
    """What one of two arms does and the other doesn't, but for what other arms show to be meant."""
    differing = scaled.does.keys() ^ plain.does.keys()
    # Arms without the scaler that are alike in all else choose by something other than the precision.
    if CLIPS in scaled.does and any(CLIPS in each.does for each in _like(arms, plain)):
        differing -= {CLIPS}
    # What one arm does for some settings only, as another of the arms without (or with) the scaler does.
    return differing - {
        what
        for one in (scaled, plain)
        for what in one.may_do
        if any(what in each.does for each in arms if each.scaled is not one.scaled)
    }


def _like(arms: list[Arm], one: Arm) -> list[Arm]:
    """The arms that have a scaler, and a region, as one has."""
    return [each for each in arms if each.scaled is one.scaled and each.region is one.region]


def _outside(module: Module, branches: Branches) -> Iterator[ir.Statement]:
    """The statements of the function round the arms, and of those that call it, but for the arms."""
    function = ir.function_of(branches.statement)
    for container in [function or module.program, *_callers(module, function)]:
        for each in ir.walk_statements(container.body, into=container is function):
            if each.id not in branches.inside:
                yield each


def _is_hidden(module: Module, branches: Branches, outside: list[ir.Statement]) -> bool:
    """Whether a call round the arms, in their function, may do anything."""
    function = ir.function_of(branches.statement)
    return any(
        event.kind == "opaque" and ir.function_of(each) is function
        for each in outside
        for event in events(module).in_statement(each)
    )


def _done_elsewhere(module: Module, branches: Branches, arms: tuple[Arm, Arm], what: str) -> bool:
    """Whether the function around two arms, or one that calls it, does what the first does outside of them, or may.

    What is done before all loops around the arms is done once, before there are gradients, unless it sets up a hook;
    and what is done in an arm of another `if` that is of the first one's kind is not done where the second runs.
    """
    one, _ = arms
    outside = list(_outside(module, branches))
    # Nothing but a hook clips between the backward pass and the step of an arm that has both.
    inside = what == CLIPS and all(_runs_whole_step(arm) for arm in arms)
    if not inside and _is_hidden(module, branches, outside):
        return True
    of_its_kind = {
        each.id
        for others in module.once(parallel_branches)
        for arm in others.arms
        if arm.scaled is one.scaled
        for each in ir.walk_statements(arm.block)
    }
    once = _before_loops(branches.statement)
    return any(_does(module, each, what, is_set_up=each.id in once) for each in outside if each.id not in of_its_kind)


def _before_loops(statement: ir.If | ir.Conditional) -> set[int]:
    """The statements of a function that are outside of all loops around an `if` of it."""
    loops, function = loops_round(statement), ir.function_of(statement)
    if not loops or function is None:
        return set()
    repeated = {each.id for each in ir.walk_statements(loops[-1].body)}
    return {each.id for each in ir.walk_statements(function.body)} - repeated


def _runs_whole_step(arm: Arm) -> bool:
    return any(each.startswith(_BACKWARD) for each in arm.rest) and bool(arm.steps)


def _runs_one_step(arm: Arm) -> bool:
    """Whether an arm runs backward, and steps each of its optimizers once."""
    return _runs_whole_step(arm) and sum(each.startswith(_STEP) for each in arm.rest) == len(arm.steps)


def _is_asserted(module: Module, statement: ir.If | ir.Conditional, waits: ir.Node) -> bool:
    """Whether an assert speaks of both what chooses an arm and the number of iterations that one of them waits:
    `assert args.amp or args.accumulate == 1`.
    """
    wanted = [set(names_read(each)) for each in (statement.test, waits) if isinstance(each, ir.Value)]
    asserts = (each for each in module.whole.near("assert").statements if isinstance(each, ir.Assert))
    return any(all(names.intersection(names_read(each.test)) for names in wanted) for each in asserts)


def _stepped_elsewhere(module: Module, branches: Branches, optimizer: str) -> bool:
    """Whether an optimizer is stepped outside of the arms, or may be: by its own name or another."""
    outside = list(_outside(module, branches))
    function = ir.function_of(branches.statement)
    return _is_hidden(module, branches, outside) or any(
        event.kind in ("step", "optimizer_step")
        and (event.optimizer == optimizer or ir.function_of(each) is not function)
        for each in outside
        for event in events(module).in_statement(each)
    )


def _callers(module: Module, function: ir.Function | None) -> Iterator[ir.Function | ir.Program]:
    """The functions of the file, or its own body, that mention the one."""
    if function is None:
        return
    for value in module.whole.near(function.name).values:
        if isinstance(value, (ir.Name, ir.Attribute)) and ir.last_name(value) == function.name:
            yield ir.function_of(value) or module.program


def _does(module: Module, statement: ir.Statement, what: str, *, is_set_up: bool) -> bool:
    """Whether a statement does what an arm lacks; `is_set_up`: it runs before the loop, where only a hook would."""
    found = events(module).in_statement(statement)
    if is_set_up and any(_EVENTS.get(each.kind) == what for each in found):
        return False
    if isinstance(statement, ir.Assign) and any(is_grad(target) for target in statement.targets):
        return True
    if what == DIVIDES and isinstance(statement, ir.AugAssign):
        return statement.op == "Divide"
    values = (value for root in statement.values() for value in ir.walk_values(root))
    return any(_divides_loss(each) if what == DIVIDES else _calls(module, each, what) for each in values)


def clips_elements(call: ir.Call) -> bool:
    """Whether a call bounds the elements of a tensor or an array, by its name and its numbers: `image.clip(0, 1)`."""
    if ir.last_name(call.func) not in ("clip", "clip_"):
        return False
    numbers = [each for arg in call.args for each in ir.walk_values(arg.value) if isinstance(each, ir.Constant)]
    bounded = any(arg.keyword in _BOUNDS for arg in call.args) or len(call.args) > 1
    return bounded and any(isinstance(each.value, (int, float)) for each in numbers)


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
    if any(word in name for word in _NAMED.get(what, ())) and not clips_elements(value):
        return True
    if what == AVERAGES:
        is_method = isinstance(value.func, ir.Attribute)
        return bool(_AVERAGE.search(name)) or (is_method and _updates_average(value))
    if what != SCHEDULES or not isinstance(value.func, ir.Attribute):
        return False
    return name in ("step", "step_update") and _is_scheduler(value.func.base)
