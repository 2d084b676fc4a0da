"""Running a step of a program over the values of its conditions, and saying what each run showed."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.nesting import upwards
from amplint.verify.bench.bench import on_device, regions_with, reset, switched_off, without_accelerators
from amplint.verify.bench.instrument import watched
from amplint.verify.bench.recorder import Recorder, Spot
from amplint.verify.bench.simulated_devices import simulated
from amplint.verify.fixtures.proof import Observed, said, show
from amplint.verify.interpreter import lookup
from amplint.verify.interpreter.amp_calls import in_words
from amplint.verify.interpreter.assumptions import CUDA, Choices, Untried, explore
from amplint.verify.interpreter.interpreter import Interpreter
from amplint.verify.interpreter.standins import CannotFollow, Impossible, NoneUsedError
from amplint.verify.interpreter.world import INIT_SCALE, Knowledge, Stage
from amplint.verify.program.presence import asked_for
from amplint.verify.program.program import Code, Step
from amplint.verify.steps.judge import Judged, Path, judge
from amplint.verify.steps.output import counted

_STALE = "modified by an inplace operation"
_NOTHING_UNSCALED = "No inf checks were recorded"  # what a handler may catch of its own update
_FROZEN = "does not require grad"
_PARTS = (ir.Attribute, ir.Subscript)
_SAME = {"Is", "IsNot", "Equal", "NotEqual"}
_MOST_VALUES = 20  # of variables that a condition hangs on
_MOST_OVERFLOWS = 3  # optimizers of which each has a run
_TRIES = 9  # until a run shows nothing new of what values are used as


@dataclass
class StepRuns:
    """All runs of a step."""

    paths: list[Path] = field(default_factory=list)
    executed: set[int] = field(default_factory=set)  # events, by the ids of their calls
    applied: set[int] = field(default_factory=set)  # functions that were run, by their ids
    guessed: set[str] = field(default_factory=set)  # models that may be any optimizer's
    touched: set[tuple[str, int]] = field(default_factory=set)  # functions whose text was run or read, and lines
    notes: dict[tuple[int, str], str] = field(default_factory=dict)
    decided: dict[int, set[bool | None]] = field(default_factory=dict)  # how tests of ifs came out, by their ids
    held: dict[int, set[bool]] = field(default_factory=dict)  # the same, by choices and counters too
    always: set[str] = field(default_factory=set)  # scalers and optimizers that are never None
    failed: str = ""  # why a path can't be followed
    ended: str = ""  # by what the program raises a run has ended, and where
    untried: Untried = field(default_factory=Untried)
    runs: int = 0
    seconds: float = 0.0

    def take_in(self, run: Interpreter) -> None:
        """Add what a run has come to."""
        self.executed |= {each.id for each in run.record.executed}
        for test, outcomes in run.record.decided.items():
            self.decided.setdefault(test, set()).update(outcomes)
        for test, held in run.record.held.items():
            self.held.setdefault(test, set()).update(held)
        self.applied |= run.record.applied
        self.guessed |= run.stage.guessed
        self.always |= run.stage.knowledge.always | run.stage.knowledge.there
        if run.record.ended is not None and run.record.ended.error is None and not self.ended:
            self.ended = f"{run.record.ended.where} ({run.record.ended})"
        self.touched |= run.record.touched
        for key, what in run.record.notes.items():
            self.notes[key] = self.notes.get(key) or what


def run_step(
    code: Code, step: Step, device: str, *, real: bool = False, asked_for: Sequence[dict[str, Any]] = ()
) -> StepRuns:
    """Run a step with all combinations of its conditions. `device` is simulated where it isn't `real` or the CPU.

    Of more conditions than can all be combined, the combinations `asked_for` are run too.
    """
    started = time.perf_counter()
    found = StepRuns()
    machine = _Machine(device, real=real)
    try:
        machine.enter()
        for cls in code.classes(step):
            trial = _Trial(code, step, cls, machine, found)
            for _ in explore(
                trial.path,
                lambda: [_hangs_on(code, each) for each in _unreached(code, step, found)],
                asked_for,
                found.untried,
            ):
                pass
    finally:
        machine.leave()
        reset()
    found.seconds = time.perf_counter() - started
    return found


class _Machine:
    """What a step is run on: a `device`, simulated where it isn't `real` or the CPU."""

    def __init__(self, device: str, *, real: bool) -> None:
        self.device = device
        self._real = real
        self._conditions = ExitStack()

    def enter(self) -> None:
        """Run what follows on the device."""
        if self.device != "cpu":
            self._conditions.enter_context(
                on_device(self.device) if self._real else simulated(self.device, moves=False)
            )

    def leave(self) -> None:
        """Be without it again."""
        self._conditions.close()

    @contextmanager
    def for_run(self, choices: Choices) -> Iterator[str]:
        """The device of a run: another one, where it assumes that this one is not there."""
        if choices.wanted.get(CUDA) is not False:
            yield self.device
            return
        self.leave()
        try:
            with without_accelerators():
                yield "cpu"
        finally:
            self.enter()


class _Pair(NamedTuple):
    """A run of the reference and one of the program, with what each has shown, and the answers that both had."""

    right: Interpreter
    reference: Recorder
    run: Interpreter
    observed: Observed
    given: dict[str, Any]

    def ends_with(self, said: str) -> bool:
        """Whether one of the runs ended by an exception that says so."""
        ends = (each.record.ended for each in (self.right, self.run))
        return any(end is not None and said in str(end.error) for end in ends)


class _Trial:
    def __init__(self, code: Code, step: Step, cls: ir.Class | None, machine: _Machine, found: StepRuns) -> None:
        self._code = code
        self._step = step
        self._class = cls
        self._machine = machine
        self._found = found
        self._knowledge = Knowledge()
        self._switched: list[Any] = []  # what the last reference's regions and scalers would have been
        self._protects = False  # a scaler steps or unscales an optimizer: an overflow is one of those
        self._events = {each.call.id for each in code.covered(step)}
        self._again = step.function is not None and code.callers.may_repeat(step.function)

    def path(self, choices: Choices) -> None:
        """All runs with one set of answers; the answers that were asked for are in `choices` then."""
        try:
            self._path(choices)
        except CannotFollow as error:
            self._found.failed = str(error)
        except RecursionError:
            self._found.failed = "amplint can't follow values that are computed from each other"

    def _settled(self, choices: Choices) -> _Pair:
        """The reference's run and the program's, repeated until they show nothing new of what values are used as."""
        if self._knowledge.stale:
            self._knowledge.forget_objects()
        other = False
        for tried in range(1, _TRIES + 1):
            self._knowledge.begin()
            reference, beside = Recorder(leave_out=True), choices.again()
            try:
                right, observed = self._observe(beside, reference, off=True)
                given = {**choices.wanted, **beside.answers}
                if self._is_bare(right, observed):
                    own, run, observed = beside, right, reference.beside_itself()
                else:
                    own = Choices(given, choices.varied)
                    run, observed = self._observe(own, Recorder(reference, leaves_out=False))
            except Impossible:
                if tried == _TRIES:
                    raise
                continue
            except CannotFollow:
                choices.add(beside)
                raise
            pair = _Pair(right, reference, run, observed, given)
            self._learn(pair)
            if not self._knowledge.changed:
                if other or self._knowledge.is_exact():
                    break
                self._knowledge.forget_objects()  # it is of another path, that has other models or optimizers
                other = True
        choices.add(beside)
        choices.add(own)
        return pair

    def _learn(self, pair: _Pair) -> None:
        """Learn from two runs what values are used as, where the runs themselves have learnt nothing."""
        knowledge, right, reference = self._knowledge, pair.right, pair.reference
        if not knowledge.changed and pair.ends_with(_STALE):
            if not knowledge.learn_constants(right.stage.outliving - knowledge.constants):
                knowledge.changed = not knowledge.stale
                knowledge.stale = True
        trains_nothing = bool(reference.observed.idle) or pair.ends_with(_FROZEN)
        if not knowledge.changed and right.stage.has_frozen and trains_nothing:
            knowledge.learn_unfrozen()
        if not knowledge.changed and self._leaves_clearing(right, reference):
            knowledge.learn_cleared()
        if not knowledge.changed and _skips_all(pair):
            knowledge.learn_overflow()

    def _path(self, choices: Choices) -> None:
        self._knowledge.init_scale, self._knowledge.cleared = INIT_SCALE, False
        pair = self._settled(choices)
        path = self._compared(choices, pair)
        self._compare_in_float32(path, pair)
        run, observed, given = pair.run, pair.observed, pair.given
        self._protects = bool(run.stage.protected)
        protected = self._protects and any(observed.enabled)
        if observed.end == "finished" and (protected or not self._events <= {each.id for each in run.record.executed}):
            overflows, caught = self._with_overflows(choices, given)
            path.overflows = overflows if protected else []
            known = {*run.record.caught, *pair.right.record.caught}
            path.beyond_caught = [each for each in caught if protected and each not in known]
        if observed.steps_inside and observed.end == "finished":
            _, path.free = self._observe(Choices(given), Recorder())
            path.free.reference_losses = self._free_losses(given)
        self._found.paths.append(path)
        self._found.take_in(run)

    def _compared(self, choices: Choices, pair: _Pair) -> Path:
        """What the program's run shows beside that of the reference."""
        right, reference, run, observed, _ = pair
        path = Path(choices.path(), observed, choices.sayings, assuming=frozenset(choices.assumed))
        if right.record.ended is not None and (error := right.record.ended.error) is not None:
            path.reference_end = said(error)
            if isinstance(error, NoneUsedError):
                path.none_used = f"{right.record.ended.where}: {error.kind}: {error}"
        path.reference_backwards = reference.observed.backwards
        path.idle = bool(reference.observed.idle)
        path.not_finite = bool(reference.observed.skipped) and not observed.gradient.count
        if _skips_all(pair) and all(map(math.isfinite, reference.observed.losses)):
            path.never = not any(map(math.isfinite, observed.losses))
        path.caught = [each for each in dict.fromkeys(run.record.caught) if each not in right.record.caught]
        path.fails = run.record.fails
        path.reference_steps = reference.observed.steps
        path.stale = self._knowledge.stale
        path.of_amp = run.record.ended is not None and run.record.ended.of_amp
        path.effects = run.record.unseen_effects
        path.warned = run.record.warned
        path.half_losses = run.record.half_losses
        path.unsure_losses = run.record.unsure_losses
        path.not_run = run.record.not_run
        path.unseen_regions = run.record.unseen_regions
        path.unseen_model = run.record.unseen_model
        path.by_accelerate = run.record.by_accelerate
        path.assumed = run.record.assumed
        if reference.observed.steps:
            _take_unscaled(path, run)
        path.remade = run.record.scalers.most(again=self._again)
        # What a program does itself behind a reuse of gradients, it does without AMP as well.
        observed.reused = max(0, observed.reused - reference.observed.reused)
        return path

    def _compare_in_float32(self, path: Path, pair: _Pair) -> None:
        """Where numbers differ by what half precision makes of those of the bench, take those of a run in float32.

        That they do, two runs say: with the regions off, nothing differs, and without their cache it still does.
        """
        observed = path.observed
        if observed.end != "finished" or not _differs(observed) or path.stale:
            return
        plain = self._again_with(pair, enabled=False)
        if plain.end != "finished" or plain.steps != observed.steps or not plain.gradient.count or _differs(plain):
            return
        if _differs(self._again_with(pair, cache_enabled=False)):
            observed.take_comparisons(plain)
            observed.parts, observed.places = plain.parts, plain.places

    def _again_with(self, pair: _Pair, **regions: bool) -> Observed:
        """What the program's run shows with some arguments of its regions changed."""
        with regions_with(**regions):
            return self._observe(Choices(pair.given), Recorder(pair.reference, leaves_out=False))[1]

    def _with_overflows(self, choices: Choices, given: dict[str, Any]) -> tuple[list[Observed], list[str]]:
        """What runs show in which the gradients of one optimizer overflow, of each in turn, and what they catch.

        And those that a step without the scaler uses: it is the scaler that would leave it out.
        """
        found: list[Observed] = []
        caught: list[str] = []
        spots: dict[Spot, None] = {}
        for nth in range(_MOST_OVERFLOWS):
            then, recorder = Choices(given), Recorder(overflow=True, nth=nth)
            run, observed = self._observe(then, recorder)
            choices.add(then)
            self._found.executed |= {each.id for each in run.record.executed}
            found.append(observed)
            caught += [each for each in run.record.caught if _NOTHING_UNSCALED not in each]
            spots |= dict.fromkeys(recorder.bypassing())
            if len(recorder.overflowing) <= nth + 1:
                break
        found += [self._observe(Choices(given), Recorder(spot=each))[1] for each in spots]
        return found, caught

    def _free_losses(self, given: dict[str, Any]) -> list[float]:
        reference = Recorder(leave_out=True)
        return self._observe(Choices(given), reference, off=True)[1].losses

    def _leaves_clearing(self, right: Interpreter, reference: Recorder) -> bool:
        """Whether a function that makes one step has left its gradients to its caller, by what it was given."""
        is_called = self._step.function is not None and not self._step.has_loop
        took = reference.observed.steps > 1 and right.record.ended is None
        return is_called and took and not (reference.has_cleared or right.stage.clears_itself)

    def _is_bare(self, right: Interpreter, observed: Observed) -> bool:
        """Whether the reference's run is the program's as well: with these answers it has no AMP to switch off."""
        unlike = right.record.ended is not None or observed.skipped  # left out, as the program would not have done
        return not (self._switched or right.stage.left_out or unlike or self._knowledge.changed)

    def _observe(self, choices: Choices, recorder: Recorder, *, off: bool = False) -> tuple[Interpreter, Observed]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = self._once(choices, recorder, caught, off=off)
        observed = recorder.close()
        if run.record.ended is not None and run.record.ended.error is not None:
            observed.end, observed.detail = "exception", f"{run.record.ended.where}: {said(run.record.ended.error)}"
        observed.warnings = list(dict.fromkeys(map(in_words, caught)))
        if choices.wanted.get(CUDA) is False:  # a step that is made for it may say so
            observed.warnings = [each for each in observed.warnings if "CUDA is not available" not in each]
        return run, observed

    def _once(
        self, choices: Choices, recorder: Recorder, caught: list[warnings.WarningMessage], *, off: bool
    ) -> Interpreter:
        reset()
        self._found.runs += 1
        with ExitStack() as conditions:
            device = conditions.enter_context(self._machine.for_run(choices))
            if off:
                self._switched = conditions.enter_context(switched_off())
            conditions.enter_context(watched(recorder, _is_programs))
            stage = Stage(self._knowledge, device, off=off)
            recorder.may_overflow = lambda optimizer: id(optimizer) in stage.protected or not self._protects
            stage.adding = recorder.gradient_added
            run = Interpreter(self._step, self._code, stage, choices, self._class)
            recorder.clears_in_sight = not stage.clears_itself
            run.record.heard = caught
            recorder.where = lambda: run.record.event
            run.run()
        return run


def _take_unscaled(path: Path, run: Interpreter) -> None:
    """Put into a path what its run shows of losses in float16 that no scaler scales."""
    if any(path.observed.enabled):
        path.unscaled = run.record.unscaled and (
            f"{run.record.unscaled}: gradients of a float16 loss that nothing scales may become 0"
        )
        without = "and one of the losses is not scaled"
    else:
        path.unscaled = run.stage.in_float16 and (
            f"{run.stage.in_float16} runs in float16, and no scaler scales the loss"
        )
        without = "and there is none"
    if path.unscaled and run.stage.unsure_region:
        path.unscaled = ""
        where = run.stage.unsure_region
        path.unsure_dtype = f"{where}: amplint can't see the dtype of the region; float16 needs a scaler, {without}"


def _skips_all(pair: _Pair) -> bool:
    """Whether a run's scaler has skipped all steps that it was asked for, which the reference has taken."""
    reference, observed = pair.reference, pair.observed
    took = reference.observed.steps and not reference.observed.skipped
    skipped_all = 0 < observed.steps == observed.skipped
    return bool(took and pair.run.stage.protected and observed.end == "finished" and skipped_all)


def _differs(observed: Observed) -> bool:
    """Whether a run's gradients or updates are not those of the reference."""
    return any(show(each, observed, observed).misbehaves for each in ("gradient", "update"))


def judged(code: Code, step: Step, runs: StepRuns) -> Judged:
    """What the runs of a step say of it."""
    missing = [_why_not(code, each, runs) for each in _unreached(code, step, runs)]
    not_tried = [*runs.untried.assumptions]
    if not_tried:  # what is not reached may hang on that
        others = f" (nor for {counted(len(not_tried) - 1, 'other assumption')})" if len(not_tried) > 1 else ""
        missing.insert(0, f"no run is left for what happens where {not_tried[0]}{others}")
    found = judge(runs.paths, failed=runs.failed, guessed=runs.guessed, missing=missing)
    found.not_tried, found.not_combined = not_tried, runs.untried.combinations
    found.dtypes = sorted({dtype for path in runs.paths for dtype in path.observed.loss_dtypes})
    return found


def _unreached(code: Code, step: Step, runs: StepRuns) -> list[ir.Value]:
    """The events of a step that no run has come to, and that can be come to."""
    missing = [each.call for each in code.covered(step) if each.call.id not in runs.executed]
    # What another file's function is for may be something else: one that wasn't called is no part of the step.
    missing = [each for each in missing if code.owner(each) is code or _function_id(each) in runs.applied]
    return [
        each
        for each in missing
        if not any(
            _is_given(test, needed, runs)
            or _is_constant(code.owner(each), test, needed, runs)
            or _is_without_scaler(code.owner(each), test, needed, runs)
            for test, needed in _tests(each)
        )
    ]


def _is_constant(code: Code, test: ir.If, needed: bool, runs: StepRuns) -> bool:
    """Whether what the file itself sets, once and for all, decides a condition the other way in each run."""
    if runs.held.get(test.id) != {not needed}:
        return False
    values = [*ir.walk_values(test.test)]
    followed = (ir.Name, ir.Attribute, ir.Subscript, ir.Constant, ir.Compare, ir.Bool, ir.Unary)
    if not all(isinstance(each, followed) for each in values):
        return False
    inside = {each.base.id for each in values if isinstance(each, (ir.Attribute, ir.Subscript))}
    asked = [each for each in values if isinstance(each, (ir.Name, *_PARTS)) and each.id not in inside]
    return bool(asked) and all(_is_set_once(code, each) for each in asked)


def _is_without_scaler(code: Code, test: ir.If, needed: bool, runs: StepRuns) -> bool:
    """Whether an arm is for there being no scaler, and each run uses it as one all the same."""
    asked = asked_for(test.test)
    if asked is None or asked.there is needed or not code.callers.is_scaler(code, asked.value):
        return False
    outcomes = runs.decided.get(test.id, set())
    return outcomes == {not needed} or (needed not in outcomes and code.text(asked.value) in runs.always)


def _is_set_once(code: Code, value: ir.Value) -> bool:
    """Whether all that sets a variable, an attribute or an entry is one constant."""
    if isinstance(value, ir.Subscript):
        return code.writes_once(value)
    if isinstance(value, ir.Attribute):
        return code.sets_once(value.attr) or code.stores_once(value)
    home = value.scope.home(value.name) if isinstance(value, ir.Name) else None
    bindings = home.bindings[ir.last_name(value)] if home is not None else []
    return len(bindings) == 1 and isinstance(bindings[0], Assigned) and isinstance(bindings[0].value, ir.Constant)


def _function_id(value: ir.Value) -> int:
    function = ir.function_of(value)
    return function.id if function is not None else 0


def _is_given(test: ir.If, needed: bool, runs: StepRuns) -> bool:
    """Whether what a function is given decides a condition in it the other way, in each call that the step makes."""
    function = ir.function_of(test)
    params = {each.name for each in function.params} if function is not None else set()
    values = list(ir.walk_values(test.test))
    if runs.decided.get(test.id) != {not needed} or not any(isinstance(each, ir.Name) for each in values):
        return False
    return all(
        each.name in params
        if isinstance(each, ir.Name)
        else set(each.ops) <= _SAME
        if isinstance(each, ir.Compare)
        else isinstance(each, (ir.Constant, ir.Bool, ir.Unary))
        for each in values
    )


def _tests(call: ir.Value) -> list[tuple[ir.If, bool]]:
    """The conditions around a line, the outermost first, and what they have to be."""
    found = [
        (owner, statement.block is owner.then)
        for statement in upwards(ir.statement_of(call))
        if isinstance(owner := statement.block.owner, ir.If)
    ]
    return found[::-1]


def _why_not(code: Code, call: ir.Value, runs: StepRuns) -> str:
    """Why a line was not reached, as far as the conditions around it say: the outermost that no run has met."""
    code = code.owner(call)
    for test, needed in _tests(call):
        known = runs.decided.get(test.id)
        if known == {not needed}:
            always = "holds in every run" if not needed else "holds in no run"
            return f"{code.where(call)} is not reached: {code.text(test.test)} {always}"
    tests = [code.text(owner.test) if holds else f"not ({code.text(owner.test)})" for owner, holds in _tests(call)]
    if tests:
        return f"{code.where(call)} is reached only if {' and '.join(tests)}"
    if runs.ended:
        return f"verify's run ends on {runs.ended}, before {code.where(call)}"
    return f"{code.where(call)} is not reached in verify's runs"


def _hangs_on(code: Code, call: ir.Value) -> str:
    """The conditions around a line, and what the variables in them are made of."""
    code = code.owner(call)
    values: list[ir.Value] = [owner.test for owner, _ in _tests(call)]
    for each in values:  # grows
        for value in ir.walk_values(each):
            bindings = code.module.names.bindings(value) if isinstance(value, ir.Name) else []
            more = [binding.value for binding in bindings if isinstance(binding, Assigned)]
            values += [one for one in more if one not in values][: _MOST_VALUES - len(values)]
    return " ".join(map(code.text, values))


def _is_programs(filename: str) -> bool:
    """Whether a gradient is read for the program: there its attributes are looked up."""
    return filename == lookup.__file__
