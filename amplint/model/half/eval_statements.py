"""The run of functions: their statements, path by path, over values and calls."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amplint.model.flow.state import Opened
from amplint.model.half.eval_calls import Calls
from amplint.model.half.eval_values import Values
from amplint.model.half.observations import Env, Observations, Seen
from amplint.model.inference.tensor_types import A_NUMBER, MODULE, NUMBER, UNKNOWN_KIND, Kind, join
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from amplint.model import Module
    from amplint.model.flow.open_regions import Regions
    from amplint.model.flow.path_conditions import Conditions

_DEPTH = 4
_ROUNDS = 3
_WORK = 200_000
# What a test asks that decides between dtypes: the arms are not for what comes in.
_ASKS = re.compile(r"(?i)dtype|half|fp16|bf16|fp32|float16|autocast|precision|amp(?![a-z])|finfo|is_floating")
# Decorators that leave a function what it is.
_PLAIN = ("torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.compile", "torch.jit.", "builtins.")


@dataclass
class Frame:
    """A function that is being run: what it returns, and the paths that leave its innermost loop."""

    returned: list[Kind] = field(default_factory=list)
    breaks: list[Env] = field(default_factory=list)
    continues: list[Env] = field(default_factory=list)


class Run:
    """Runs functions abstractly: their paths, joined where they meet."""

    def __init__(self, module: Module, regions: Regions, conditions: Conditions) -> None:
        self._module, self._regions, self._conditions = module, regions, conditions
        self._objects = objects(module)
        self._met = Observations(module)
        self.values = Values(module, self._met, self._call)
        self._calls: Calls = Calls(module, self._met, self.values, self._follow)
        self._frame = Frame()
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

    def _body(self, block: ir.Block, env: Env) -> Kind:
        """Run a function's suite; what it returns."""
        outer, self._frame = self._frame, Frame()
        end = self._block(block, env)
        returned = self._frame.returned
        self._frame = outer
        if end is not None or not returned:
            returned = [*returned, UNKNOWN_KIND]
        found = returned[0]
        for each in returned[1:]:
            found = join(found, each)
        return found

    def _follow(self, function: ir.Function, given: Mapping[str, Kind], env: Env) -> Kind:
        """What a call of a function of this file returns; `given` are its arguments by name."""
        if len(self._active) > _DEPTH or function.id in self._active or self._met.work > _WORK:
            return UNKNOWN_KIND
        if function.is_generator or function.is_async or not self._is_plain(function):
            return UNKNOWN_KIND
        inside = env.within(self._regions.decorators(function))
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

    def _block(self, block: ir.Block, env: Env | None) -> Env | None:
        for statement in block.statements:
            if env is None or self._met.work > _WORK:
                return None
            env = self._statement(statement, env)
        return env

    def _statement(self, statement: ir.Statement, env: Env) -> Env | None:
        self._met.work += 1
        if isinstance(statement, ir.Assign):
            if statement.value is not None:
                kind = self.values.kind(statement.value, env)
                for target in statement.targets:
                    self.values.bind(target, kind, env)
        elif isinstance(statement, ir.AugAssign):
            self._increment(statement, env)
        elif isinstance(statement, ir.Return):
            self._frame.returned.append(self.values.kind(statement.value, env) if statement.value else UNKNOWN_KIND)
            return None
        elif isinstance(statement, ir.Raise):
            return None
        elif isinstance(statement, ir.Jump):
            return self._jump(statement, env)
        elif isinstance(statement, ir.If):
            return self._if(statement, env)
        elif isinstance(statement, (ir.For, ir.While)):
            return self._loop(statement, env)
        elif isinstance(statement, ir.With):
            return self._with(statement, env)
        elif isinstance(statement, ir.Try):
            return self._try(statement, env)
        elif isinstance(statement, ir.Match):
            ends = [self._block(each.body, env.copy()) for each in statement.cases]
            return _joined([env, *ends])
        elif isinstance(statement, ir.Expr):
            self.values.kind(statement.value, env)
            if isinstance(statement.value, ir.Call):
                env.state = self._regions.manual(statement.value, env.state, self._conditions)
        elif not isinstance(statement, (ir.Function, ir.Class)):
            for value in statement.values():
                self.values.kind(value, env)
        return env

    def _jump(self, statement: ir.Jump, env: Env) -> Env | None:
        if statement.kind == "pass":
            return env
        (self._frame.breaks if statement.kind == "break" else self._frame.continues).append(env)
        return None

    def _increment(self, statement: ir.AugAssign, env: Env) -> None:
        target, value = self.values.kind(statement.target, env), self.values.kind(statement.value, env)
        operands = (statement.target, target), (statement.value, value)
        self.values.arithmetic(statement.target, statement.op, *operands, env)
        if not target.is_tensor:  # a tensor keeps its dtype in place
            found = value if value.is_tensor else A_NUMBER if value.what == NUMBER else UNKNOWN_KIND
            self.values.bind(statement.target, found if target.what == NUMBER else UNKNOWN_KIND, env)

    def _if(self, statement: ir.If, env: Env) -> Env | None:
        self.values.kind(statement.test, env)
        then, other = env.copy(), env.copy()
        if any(_ASKS.search(ir.last_name(each)) for each in ir.walk_values(statement.test)):
            then.forget_tensors()
            other.forget_tensors()
        after = self._block(statement.then, then)
        otherwise = self._block(statement.orelse, other) if statement.orelse is not None else other
        return _joined([after, otherwise])

    def _loop(self, statement: ir.For | ir.While, env: Env) -> Env | None:
        each = UNKNOWN_KIND
        if isinstance(statement, ir.For):
            over = self.values.kind(statement.iter, env)
            each = self.values.item(over)
            surely = over.what == MODULE  # a list of layers is not empty
        else:
            self.values.kind(statement.test, env)
            surely = False
        start, ends = env, [] if surely else [env]
        for _ in range(_ROUNDS):
            outer, self._frame = self._frame, Frame(self._frame.returned)
            inside = start.copy()
            if isinstance(statement, ir.For):
                self.values.bind(statement.target, each, inside)
            end = self._block(statement.body, inside)
            done = _joined([end, *self._frame.continues])
            ends += [*self._frame.breaks, *([done] if done is not None else [])]
            self._frame = outer
            again = _joined([start, done])
            if again is None or again == start:
                break
            start = again
        after = _joined(ends)
        if after is not None and statement.orelse is not None:
            return self._block(statement.orelse, after)
        return after

    def _with(self, statement: ir.With, env: Env) -> Env | None:
        before = env.state
        for item in statement.items:
            kind = self.values.kind(item.context, env)
            entered = self._regions.enter(item.context, env.state, self._conditions)
            hidden = self._regions.may_hide(item.context)
            if entered is env.state and hidden:
                entered = env.state.replace(
                    regions=(*env.state.regions, Opened(0, None))
                )  # not a region that can be seen
            env.state = entered
            if item.target is not None:
                self.values.bind(item.target, kind if kind.is_tensor else UNKNOWN_KIND, env)
        end = self._block(statement.body, env)
        if end is not None:
            end.state = before
        return end

    def _try(self, statement: ir.Try, env: Env) -> Env | None:
        start = env.copy()
        end = self._block(statement.body, env)
        if end is not None and statement.orelse is not None:
            end = self._block(statement.orelse, end)
        start.forget_tensors()
        ends = [end, *(self._block(each.body, start.copy()) for each in statement.handlers)]
        after = _joined(ends)
        if after is not None and statement.final is not None:
            return self._block(statement.final, after)
        return after


def _joined(envs: Iterable[Env | None]) -> Env | None:
    """What holds on all the paths that go on."""
    found = [each for each in envs if each is not None]
    if not found:
        return None
    first = found[0].copy()
    for each in found[1:]:
        first.join(each)
    return first
