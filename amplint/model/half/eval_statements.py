"""The run of functions: what their statements do to what is half, over values and calls."""

from __future__ import annotations

import re
from functools import partial, reduce
from typing import TYPE_CHECKING

from amplint.model.flow.state import Opened, State
from amplint.model.half.eval_calls import Calls
from amplint.model.half.eval_values import Values
from amplint.model.half.observations import Env, Observations, Seen
from amplint.model.inference.class_indices import index_parameters
from amplint.model.inference.tensor_types import A_NUMBER, MODULE, NUMBER, UNKNOWN_KIND, WHOLE, Kind, join
from amplint.model.names.grad_mode import without_gradients
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.interpreter import Interpreter, Paths, Rounds
from amplint.model.syntax.ir import node_of
from amplint.model.syntax.nesting import dominates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amplint.model import Module
    from amplint.model.flow.open_regions import Regions
    from amplint.model.flow.path_conditions import Conditions

_DEPTH = 4
_ROUNDS = 3
_WORK = 200_000
# What a test asks that decides between dtypes: the arms are not for what comes in.
_ASKS = re.compile(r"(?i)dtype|half|fp16|bf16|fp32|float16|autocast|scaler|precision|amp(?![a-z])|finfo|is_floating")
# What a test asks that decides between devices, only some of which have a region.
_ASKS_DEVICE = re.compile(r"(?i)cuda|(?<![a-z])(mps|gpus?|cpu)(?![a-z])|device")
# Decorators that leave a function what it is.
_PLAIN = ("torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.compile", "torch.jit.", "builtins.")


class Run(Interpreter[Env]):
    """Runs functions abstractly: their paths, joined where they meet."""

    def __init__(self, module: Module, regions: Regions, conditions: Conditions) -> None:
        super().__init__()
        self._module, self._regions, self._conditions = module, regions, conditions
        self._objects = objects(module)
        self._met = Observations(module)
        self.values = Values(module, self._met, self._call)
        self._calls = Calls(module, self._met, self.values, self._follow)
        self._done: dict[object, Kind] = {}
        self._active: list[int] = []

    def _call(self, call: ir.Call, env: Env) -> Kind:
        return self._calls.call(call, env)

    @property
    def seen(self) -> list[Seen]:
        """What was met, in the order of the text."""
        return sorted(self._met.seen.values(), key=lambda each: each.node.id)

    @property
    def sites(self) -> tuple[int, ...]:
        """The calls that led to where the run is."""
        return self._met.sites

    def enter(self, container: ir.Function | ir.Program) -> None:
        """Run a function that nobody in sight calls, or the module's own body."""
        env = Env()
        if isinstance(container, ir.Function):
            env = env.within(self._regions.decorators(container))
        self._active, self._met.sites = [container.id], ()
        self._body(container.body, env)

    def called(self, function: ir.Function, given: Mapping[str, Kind]) -> Kind:
        """What a function returns that is called outside of every region; `given` are its arguments by name."""
        return self._follow(function, given, Env())

    def _body(self, block: ir.Block, env: Env) -> Kind:
        """Run a function's suite; what it returns."""
        paths = self.block(block, [env])
        found = [each.result for each in paths.exits]
        return reduce(join, found if found and not paths.normal else [*found, UNKNOWN_KIND])

    def _follow(self, function: ir.Function, given: Mapping[str, Kind], env: Env) -> Kind:
        """What a call of a function of this file returns; `given` are its arguments by name."""
        if len(self._active) > _DEPTH or function.id in self._active or self._met.work > _WORK:
            return UNKNOWN_KIND
        if function.is_generator or function.is_async or not self._is_plain(function):
            return UNKNOWN_KIND
        inside = env.within(self._regions.decorators(function))
        whole = dict.fromkeys(index_parameters(self._module, function), WHOLE)
        given = {**whole, **{name: kind for name, kind in given.items() if kind != UNKNOWN_KIND or name not in whole}}
        key = (function.id, tuple(sorted(given.items())), inside.state.regions)
        if key not in self._done:
            inside.kinds |= {self._variable(function, name): kind for name, kind in given.items()}
            if function.cls is not None:
                inside.forget_attributes()
            self._active.append(function.id)
            self._done[key] = self._body(function.body, inside)
            self._active.pop()
        return self._done[key]

    def _is_plain(self, function: ir.Function) -> bool:
        opening = {each.at or each.call for each in self._regions.decorators(function)}
        return all(
            each.id in opening
            or all(
                name.startswith(_PLAIN)
                for name in self._module.names.of(each.func if isinstance(each, ir.Call) else each)
            )
            for each in function.decorators
        )

    def _variable(self, function: ir.Function, name: str) -> str:
        return self._objects.raw_variable(function.scope, name)

    # --- statements -------------------------------------------------------------------------------------------------

    def goes_on(self, states: list[Env]) -> bool:
        """Whether a statement is run: not where the run takes too long."""
        self._met.work += 1
        return bool(states) and self._met.work <= _WORK

    def joined(self, states: list[Env]) -> list[Env]:
        """What holds on all of the paths."""
        if len(states) < 2:
            return states
        both = states[0].copy()
        for each in states[1:]:
            both.join(each)
        return [both]

    def simple(self, statement: ir.Statement, states: list[Env]) -> list[Env]:
        """The path behind a statement without suites, or a definition."""
        for env in states:
            if isinstance(statement, ir.Assign):
                self._assign(statement, env)
            elif isinstance(statement, ir.AugAssign):
                self._increment(statement, env)
            elif isinstance(statement, ir.Expr):
                self.values.kind(statement.value, env)
                if isinstance(statement.value, ir.Call):
                    env.state = self._regions.manual(statement.value, env.state, self._conditions)
            elif not isinstance(statement, (ir.Function, ir.Class, ir.Raise)):
                for value in statement.values():
                    self.values.kind(value, env)
        return states

    def returned(self, statement: ir.Return, states: list[Env]) -> list[Env]:
        """The path that leaves the function, with what it returns."""
        for env in states:
            env.result = self.values.kind(statement.value, env) if statement.value is not None else UNKNOWN_KIND
        return states

    def _assign(self, statement: ir.Assign, env: Env) -> None:
        if statement.value is not None:
            kind = self.values.kind(statement.value, env)
            for target in statement.targets:
                self.values.bind(target, kind, env)

    def _increment(self, statement: ir.AugAssign, env: Env) -> None:
        target, value = self.values.kind(statement.target, env), self.values.kind(statement.value, env)
        operands = (statement.target, target), (statement.value, value)
        self.values.arithmetic(statement.target, statement.op, *operands, env)
        if not target.is_tensor:  # a tensor keeps its dtype in place
            found = value if value.is_tensor else A_NUMBER if value.what == NUMBER else UNKNOWN_KIND
            self.values.bind(statement.target, found if target.what == NUMBER else UNKNOWN_KIND, env)

    def arms(self, statement: ir.If, states: list[Env]) -> tuple[list[Env], list[Env]]:
        """A path into each of the arms."""
        for env in states:
            self.values.kind(statement.test, env)
        told = [self.values.holds(statement.test, env) for env in states]
        then = [each.copy() for each, holds in zip(states, told, strict=True) if holds is not False]
        other = [each.copy() for each, holds in zip(states, told, strict=True) if holds is not True]
        if _asks(statement.test):
            for env in (*then, *other):
                env.forget_tensors()
        return then, other

    def behind_arms(self, statement: ir.If, states: list[Env]) -> list[Env]:
        """The paths behind the arms of an `if`.

        Where the test asks for AMP or a device, and a region in one arm leaves something in half precision that the
        other arm doesn't, what holds is what the region leaves: the other arm is for a run without AMP. So it is where
        the other arm makes it without gradients: that arm evaluates.
        """
        self._complete(statement, states)
        if len(states) == 2:
            for_amp = _asks(statement.test) or _asks(statement.test, _ASKS_DEVICE)
            one, other = states[0].kinds, states[1].kinds
            for key in one.keys() & other.keys():
                in_one, in_other = (self._left_by_region_in(statement, each[key]) for each in (one, other))
                counts = in_one != in_other
                if counts and not for_amp:
                    arms = statement.then, statement.orelse
                    counts = self._evaluates(arms[in_one], key) and not self._evaluates(arms[in_other], key)
                if counts:
                    one[key] = other[key] = one[key] if in_one else other[key]
        return states

    def _complete(self, statement: ir.If, states: list[Env]) -> None:
        """Take a variable that some of the paths don't set, nor anything before, for what it is on the others: where it
        is read the program has come by these, as behind `if n == 2: ... elif n == 3: ...`.
        """
        for key in {key for each in states for key in each.kinds}:
            known = [each.kinds[key] for each in states if key in each.kinds]
            if len(known) < len(states) and self._is_new_in(statement, key):
                for each in states:
                    each.kinds.setdefault(key, reduce(join, known))

    def _is_new_in(self, statement: ir.If, key: str) -> bool:
        """Whether a variable of the function is bound in an `if`, and by nothing that surely comes before it."""
        bindings = self._objects.bindings_of(key)
        if not bindings or ir.function_of(statement) is None or any(map(ir.parameter_of, bindings)):
            return False
        places = map(node_of, bindings)
        return all(each is not None and not (each.id < statement.id and dominates(each, statement)) for each in places)

    def _evaluates(self, arm: ir.Block | None, key: str) -> bool:
        """Whether an arm sets a variable without gradients alone."""
        setting = (
            [
                each
                for each in ir.walk_statements(arm)
                if isinstance(each, ir.Assign)
                if any(self.values.key(part) == key for target in each.targets for part in ir.walk_values(target))
            ]
            if arm is not None
            else []
        )
        return bool(setting) and all(without_gradients(self._module, each) for each in setting)

    def _left_by_region_in(self, statement: ir.If, kind: Kind) -> bool:
        """Whether something, or a part of it, is what a region in the arms of an `if` leaves in half precision."""
        node: ir.Node | None = self._module.value(kind.region) if kind.region else None
        while node is not None and node is not statement:
            node = node.parent
        return node is not None or any(self._left_by_region_in(statement, each) for each in kind.items)

    def rounds(self, loop: ir.For | ir.While, states: list[Env]) -> list[Rounds[Env]]:
        """The iterations of a loop."""
        (env,) = states
        if isinstance(loop, ir.While):
            self.values.kind(loop.test, env)
            return [_UntilNothingNew(self, env, lambda _: None, surely=False)]
        over = self.values.kind(loop.iter, env)
        bind = partial(self.values.bind, loop.target, self.values.item(over))
        return [_UntilNothingNew(self, env, bind, surely=over.what == MODULE)]  # a list of layers is not empty

    def inside(
        self, item: ir.Item, _statement: ir.With, states: list[Env], run: Callable[[list[Env]], Paths[Env]]
    ) -> Paths[Env]:
        """Enter a context, `run` what is in it, and leave it."""
        (env,) = states
        before = env.state
        kind = self.values.kind(item.context, env)
        entered = self._regions.enter(item.context, before, self._conditions)
        if entered is before and self._regions.may_hide(item.context):  # not a region that can be seen
            entered = before.replace(regions=(*before.regions, Opened(0, None)))
        env.state = entered
        if item.target is not None:
            self.values.bind(item.target, kind if kind.is_tensor else UNKNOWN_KIND, env)
        paths = run(states)
        paths.replace(partial(_left_to, before))
        return paths

    def interrupted(self, statement: ir.Try, states: list[Env]) -> list[Env]:
        """The path on which an exception leaves the suite of a `try`."""
        copies = [each.copy() for each in states]
        for env in copies:
            env.forget_tensors()
        return copies

    def caught(self, statement: ir.Try, interrupted: list[Env], raised: list[Env]) -> tuple[list[list[Env]], list[Env]]:
        """A path into each handler."""
        starting = [[each.copy() for each in interrupted] for _ in statement.handlers]
        return starting, [] if statement.handlers else raised

    def subject(self, statement: ir.Match, states: list[Env]) -> list[Env]:
        """The path behind the subject of a `match`."""
        for env in states:
            self.values.kind(statement.subject, env)
        return states

    def case(self, case: ir.Case, _statement: ir.Match, states: list[Env]) -> tuple[list[Env], list[Env]]:
        """A path into a case, and one past it."""
        taken = [each.copy() for each in states]
        if case.guard is not None:
            for env in taken:
                self.values.kind(case.guard, env)
        return taken, [] if case.irrefutable and case.guard is None else states


class _UntilNothingNew(Rounds[Env]):
    """The iterations of a loop, until another one would know the same. `surely`: there is at least one."""

    def __init__(self, run: Run, env: Env, bind: Callable[[Env], None], *, surely: bool) -> None:
        self._run = run
        self._todo: Env | None = env
        self._before = env
        self._bind = bind
        self._ended = [] if surely else [env]
        self._left = _ROUNDS

    def start(self) -> list[Env]:
        """The path into the next iteration."""
        if self._todo is None or not self._left:
            return []
        self._left -= 1
        self._before = self._todo
        starting = self._todo.copy()
        self._bind(starting)
        return [starting]

    def end(self, states: list[Env]) -> None:
        """Take the paths at the end of an iteration: another one starts with what holds before and behind it."""
        done = self._run.joined(states)
        self._ended += done
        (again,) = self._run.joined([self._before, *done])
        self._todo = again if again != self._before else None

    def behind(self) -> list[Env]:
        """The path behind the loop."""
        return self._run.joined(self._ended)


def _asks(test: ir.Value, words: re.Pattern[str] = _ASKS) -> bool:
    """Whether a name or a string in a test has one of some words."""
    read = ((each, ir.last_name(each)) for each in ir.walk_values(test))
    return any(words.search(str(each.value) if isinstance(each, ir.Constant) else name) for each, name in read)


def _left_to(state: State, env: Env) -> Env:
    """A path on which the regions are open that a state has."""
    env.state = state
    return env
