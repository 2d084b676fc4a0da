"""Steps whose backward a framework does: what is done to the gradients, in the order of the text, under which tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import callers
from amplint.model.calls.events import BOUNDS, events
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import conditions, exclusive, ifs_round, loops_round, upwards
from amplint.model.torch_facts.signatures import CLIPS
from amplint.model.usage.accelerators import SCALES
from amplint.rules.shared.scale_reports import reads_scale

if TYPE_CHECKING:
    from amplint.model import Module

_DEPTH = 4
# Tests of which scaling, or who clips, may depend.
_DECIDES = re.compile(
    r"(?i)deepspeed|distributed|fsdp|megatron|precision|16|half|mixed|\bamp|_amp|scaler|backend|accelerat"
)
SYNCS = "sync_gradients"
IF_SCALED = f'if accelerate is configured for "{SCALES}", '  # of a finding where the precision is chosen elsewhere
_KINDS = {"optimizer_step": "step", "zero_grad": "clear"}
_CLIPS = ("torch", "clip")
_IDLE = (*_CLIPS, "clear")  # what uses and makes no gradients


class Met(NamedTuple):
    """One event. `kind`: "backward", "clip" and "unscale_" of the framework, "torch" for a clip that isn't, "step" of
    an optimizer, "clear" for a `zero_grad`; "other" for what else makes gradients, uses or changes them, or may.

    `path`: the calls that lead to it from the function that was asked about, itself last.
    """

    kind: str
    call: ir.Call
    path: tuple[ir.Call, ...]


class Step:
    """The events of one function, those of the functions of this file that it calls too.

    `kind` says what a call of the framework's is, if it is one.
    """

    def __init__(
        self, module: Module, container: ir.Function | ir.Program, kind: Callable[[ir.Call], str | None]
    ) -> None:
        self._module = module
        self._kind = kind
        self.met = list(self._below(container.body, (), _DEPTH))

    def _below(
        self, block: ir.Block, path: tuple[ir.Call, ...], depth: int, missing: frozenset[str] = frozenset()
    ) -> Iterator[Met]:
        for statement in ir.walk_statements(block, into=False):
            if not isinstance(statement, (ir.Function, ir.Class)) and not _needs(statement, missing):
                for root in statement.values():
                    for value in ir.walk_values(root):
                        if isinstance(value, ir.Call):
                            yield from self._of(value, path, depth)

    def _of(self, call: ir.Call, path: tuple[ir.Call, ...], depth: int) -> Iterator[Met]:
        path = (*path, call)
        kind = self._kind(call)
        if kind is None and depth:
            callee = self._module.once(CallGraph).callee(call)
            if callee is not None and all(call is not each for each in path[:-1]):
                given = self._module.once(CallGraph).arguments(call, callee) or {}
                missing = frozenset(name for name, value in given.items() if ir.is_none(value))
                yield from self._below(callee.function.body, path, depth - 1, missing)
                return
        event = events(self._module).of(call)
        if kind is not None:
            yield Met(kind, call, path)
        elif event is not None and event.kind == "clip":
            if event.how != "measure":
                yield Met("torch", call, path)
        elif event is not None:
            yield Met(_KINDS.get(event.kind, "other"), call, path)

    def before(self, clip: Met) -> Met | None:
        """The last event before a clip on a path that leads to it."""
        for each in reversed(self.met[: self.met.index(clip)]):
            if not exclusive(*common(each, clip)):
                return each
        return None

    def behind(self, clip: Met) -> Met | None:
        """The first event behind it, clips that will see what it leaves aside."""
        rest = self.met[self.met.index(clip) + 1 :]
        return next((each for each in rest if each.kind != "torch" and not exclusive(*common(clip, each))), None)

    def steps_behind(self, clip: Met) -> int:
        """How many steps of optimizers stand between a clip and the next backward."""
        rest = [each.kind for each in self.met[self.met.index(clip) + 1 :]]
        return (rest[: rest.index("backward")] if "backward" in rest else rest).count("step")

    def too_early(self, clip: Met) -> Met | None:
        """The backward of the framework that makes, behind a clip, all gradients of its turn; None if one may not.

        Going round the loop, the clip stands between the step of the turn before and this backward. Gradients are
        cleared there, so that it meets none, or some that had their step. Not where the scale is read for the clip, or
        where only that is under a test that may ask for the precision.
        """
        if reads_scale(self._module, clip.call):
            return None
        behind = next((each for each in self._behind(clip) if each.kind not in _IDLE), None)
        if behind is None or behind.kind != "backward":
            return None
        if any(may_decide(self._module, test) for test, _ in tests_of(clip, behind)):
            return None
        turn = self._turn(clip, behind)
        place = turn.index(clip)
        turn = [*turn[place + 1 :], *turn[:place]]  # once round, from the clip on
        backwards = [at for at, each in enumerate(turn) if each.kind == "backward"]
        between = [*turn[: backwards[0]], *turn[backwards[-1] + 1 :]]
        clears = [each for each in between if each.kind == "clear" and not tests_of(each, behind)]
        if any(each.kind == "other" and not self._is_harmless(each) for each in turn):
            return None
        if any(each.kind in _CLIPS for each in turn[backwards[0] :]):
            return None  # clips in time, too
        return behind if self._are_its(clears, turn, clip) else None

    def too_late(self, clip: Met) -> Met | None:
        """The step that comes always, and in its turn last, before a clip, where that meets nothing which a step uses.

        The gradients are cleared between that step and the next backward; None where this is not so, or not in sight.
        """
        before = next((each for each in reversed(self._before(clip)) if each.kind not in _IDLE), None)
        if before is None or before.kind != "step" or tests_of(before, clip):
            return None
        turn = self._turn(clip, before)
        if not self._is_last(clip, turn):
            return None
        place = turn.index(before)
        # Once round, from the step on: the clip comes before any backward.
        after = turn[place + 1 :]
        after += turn[:place] if loop_round(clip, before) is not None else []
        backward = [*(each.kind for each in after), "backward"].index("backward")
        if any(each.kind in _CLIPS for each in after[backward:]):
            return None  # clips in time, too
        clears = [each for each in after[:backward] if each.kind == "clear" and not tests_of(each, before)]
        return before if self._are_its(clears, turn, clip) else None

    def _are_its(self, clears: list[Met], turn: list[Met], clip: Met) -> bool:
        """Whether what is cleared is of the one optimizer that a turn steps, or of the model that is clipped."""
        cleared = {self._key(each) for each in clears}
        stepped = {self._key(each) for each in turn if each.kind == "step"}
        return len(stepped) == 1 and None not in stepped and bool(cleared & (stepped | self._roots(clip)))

    def _is_last(self, clip: Met, turn: list[Met]) -> bool:
        """Whether nothing behind a clip uses or makes gradients, in a turn that runs backward and is all in sight,
        and the scale is not read.
        """
        behind = any(each.kind not in _IDLE for each in turn[turn.index(clip) + 1 :])
        unseen = any(each.kind == "other" and not self._is_harmless(each) for each in turn)
        asks = reads_scale(self._module, clip.call)
        return not behind and not unseen and not asks and any(each.kind == "backward" for each in turn)

    def _before(self, clip: Met) -> list[Met]:
        return [each for each in self.met[: self.met.index(clip)] if not exclusive(*common(each, clip))]

    def _behind(self, clip: Met) -> list[Met]:
        return [each for each in self.met[self.met.index(clip) + 1 :] if not exclusive(*common(clip, each))]

    def _turn(self, clip: Met, backward: Met) -> list[Met]:
        """The events of the loop round a clip and a backward; all of the function, without a loop."""
        loop = loop_round(clip, backward)
        return [each for each in self.met if loop is None or any(loop in loops_round(call) for call in each.path)]

    def _key(self, met: Met) -> str | None:
        event = events(self._module).of(met.call)
        return event.optimizer if event is not None else None

    def _roots(self, clip: Met) -> frozenset[str]:
        given = clip.call.positional
        return objects(self._module).parameters_roots(given[0]) if given else frozenset()

    def _is_harmless(self, met: Met) -> bool:
        return events(self._module).external_calls.is_harmless(met.call)

    def in_other_arm(self, clip: Met) -> bool:
        """Whether the framework clips or unscales in another arm of an if that the clip stands in."""
        return any(each.kind in ("clip", "unscale_") and exclusive(*common(each, clip)) for each in self.met)


def containers(module: Module, is_clip: Callable[[ir.Call], bool]) -> list[ir.Function | ir.Program]:
    """The functions of the file, and its own body, in whose events a clip of torch's can be, or one that `is_clip`."""
    words = module.words(*CLIPS)
    clips = {*words, *BOUNDS}
    todo: list[ir.Node] = [
        call
        for call in module.whole.near("clip", "clamp", *words).calls
        if is_clip(call) or (ir.last_name(call.func) in clips and _is_clip(module, call))
    ]
    found: dict[int, ir.Function | ir.Program] = {}
    while todo:
        container = ir.function_of(todo.pop()) or module.program
        if container.id not in found:
            found[container.id] = container
            todo += callers(module, container) if isinstance(container, ir.Function) else ()
    every = [found[each] for each in sorted(found)]
    return [each for each in every if module.is_own(each) and getattr(each, "name", "") != "<lambda>"]


def _is_clip(module: Module, call: ir.Call) -> bool:
    event = events(module).of(call)
    return event is not None and event.kind == "clip"


def _needs(statement: ir.Statement, missing: frozenset[str]) -> bool:
    """Whether a statement runs only where one of the parameters is given that are None here."""
    for each in upwards(statement) if missing else ():
        test = each.parent.test if isinstance(each.parent, ir.If) and each.block is each.parent.then else None
        if isinstance(test, ir.Compare) and test.ops == ("IsNot",) and ir.is_none(test.rights[0]):
            test = test.left
        if isinstance(test, ir.Name) and test.name in missing:
            return True
    return False


def common(one: Met, other: Met) -> tuple[ir.Call, ir.Call]:
    """Two events as they stand in the innermost function that leads to both."""
    pairs = zip(one.path, other.path, strict=False)
    return next(((a, b) for a, b in pairs if a is not b), (one.path[-1], other.path[-1]))


def loop_round(one: Met, other: Met) -> ir.For | ir.While | None:
    """The innermost loop round two events, in the function that leads to both."""
    here, there = common(one, other)
    return next((each for each in loops_round(here) if each in loops_round(there)), None)


def tests_of(met: Met, without: Met) -> list[tuple[ir.Value, bool]]:
    """The tests under which an event comes and another one need not, and how they come out."""
    here, there = common(met, without)
    ifs = conditions(here, there)
    for each in met.path[met.path.index(here) + 1 :]:
        ifs += ifs_round(each)
    blocks = {id(each.block) for call in met.path for each in upwards(ir.statement_of(call))}
    return [(each.test, id(each.then) in blocks) for each in ifs]


def is_always_behind(module: Module, clip: Met, backward: Met) -> bool:
    """Whether a clip only sees what that backward made, as the framework always makes it, and nobody asks the scale."""
    if reads_scale(module, clip.call):
        return False
    tests, made = tests_of(clip, backward), tests_of(backward, clip)
    asked = {(module.text(test), truth) for test, truth in tests}
    return not any(may_decide(module, test) for test, _ in tests) and all(
        (module.text(test), truth) in asked for test, truth in made
    )


def may_decide(module: Module, test: ir.Value) -> bool:
    """Whether a test may ask how the framework works, and not just whether to clip."""
    return bool(_DECIDES.search(re.sub(rf"[\w.]+\.{SYNCS}\b", "", module.text(test))))


def asks_for_sync(met: Met) -> bool:
    """Whether a call is made on the last micro step only: `if accelerator.sync_gradients` is round it."""
    return any(
        isinstance(value, ir.Attribute) and value.attr == SYNCS
        for call in met.path
        for each in ifs_round(call)
        for value in ir.walk_values(each.test)
    )
