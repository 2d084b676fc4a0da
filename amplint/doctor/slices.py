"""The statements of the user's code that compute a value, so that they can be run once more.

Loss code lies outside of modules. Of the function that runs, the statements that the value depends on are taken, from
the one that calls the model; what they read and don't compute is taken from the function's variables as they are.
Nothing of the program is changed: a statement that writes to an object, or that calls what can't be called twice, is
not run again.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import io
import linecache
import os
import random
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader

from amplint.doctor.findings import Place
from amplint.doctor.places import is_top_level, is_users
from amplint.doctor.random_state import generators_restored
from amplint.doctor.readings import may_be_bad

# Methods that do something to a program which can't be undone, or that give something else when called again.
_ONCE = {
    "step", "zero_grad", "backward", "unscale_", "next", "__next__", "send", "write", "log_dict", "open", "input",
    "save", "load_state_dict", "put", "get_nowait", "add_scalar", "set_postfix", "setattr", "exec", "exit", "quit",
    "synchronize", "all_reduce", "all_gather", "barrier", "broadcast", "manual_seed", "seed", "optimize", "unlink",
    "remove_hooks", "shuffle", "dump", "writelines", "writerow", "writerows", "heappush", "heappop", "heapreplace",
    "insort", "setitem", "delattr", "delitem", "sendall", "mkdir", "makedirs", "rename", "system", "set_rng_state",
    "setstate", "copyto",
}  # fmt: skip
# Methods that change the object they are called on: allowed on what the statements themselves have made.
_CHANGES = {
    "append", "extend", "update", "pop", "popitem", "popleft", "appendleft", "insert", "remove", "clear", "add", "push",
    "reset", "setdefault", "sort", "discard",
}  # fmt: skip
_WRITES = {"write", "writelines", "writerow", "writerows", "writeheader", "writestr"}
_STREAMS = {"StringIO", "BytesIO"}
_WRITERS = {"writer", "DictWriter"}  # of the module csv
_SEEDS = {"manual_seed", "seed"}
_CONTAINERS = {"list", "dict", "set", "deque", "defaultdict", "Counter", "OrderedDict"}
_GENERATORS = {"Generator", "Random"}  # made by the statements themselves, and seeded
_DEPTH = 12  # calls of functions of the user's that are looked into
_OF_NUMBERS = ("float", "round")  # functions that read a number
_TARGET = "__amplint_value__"
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Delete, ast.Pass)


class NoSlice(Exception):
    """The value can't be computed again from the code of a function, and why."""


@dataclass(frozen=True)
class Slice:
    """Statements that compute a value again.

    Attributes:
        code: What to execute, with the file's own lines.
        names: The variables that it starts from.
        inputs: Those of them that the statements read.
        target: The name that holds the value afterwards.
        lines: The lines of the first and the last statement.
        path: The file.
        function: The name of the function that the statements are of.
        generators: What it draws random numbers from, other than torch's and the global ones.
    """

    code: CodeType
    names: dict[str, Any]
    inputs: tuple[str, ...]
    target: str
    lines: tuple[int, int]
    path: str
    function: str
    generators: tuple[Any, ...] = ()

    def run(self, **changed: Any) -> Any:
        """Compute the value, with some variables changed."""
        names = {**self.names, **changed}
        with generators_restored(self.generators):
            exec(self.code, names)
        return names[self.target]


def slice_for(frame: FrameType, wanted: torch.Tensor, first: int | None) -> Slice:
    """The statements of a frame's function that compute `wanted`.

    Args:
        frame: A frame of the user's code.
        wanted: A tensor that one of its variables holds.
        first: The line from which on statements are taken: that of the first call of a module in the step. 0 for all of
            this round of the loop; None where there is nothing to take.

    Raises:
        NoSlice: There is none.
    """
    if first is None:
        raise NoSlice("the model was called elsewhere")
    kept, target = _statements_for(frame, wanted, first)
    kept.take(frame.f_locals)
    return _slice_of(frame, kept, target)


def whole_slice_for(frame: FrameType, wanted: torch.Tensor) -> Slice:
    """All statements of this round of the loop that `wanted` depends on: `slice_for` from the first line on."""
    return slice_for(frame, wanted, 0)


def evaluation_slice_for(frame: FrameType, wanted: torch.Tensor) -> Slice:
    """All of this round of the loop, or of the function, that computes `wanted`, with the loops in it: an evaluation
    from its first batch on, whose totals and lists begin anew.

    Raises:
        NoSlice: There is none, or it begins from what has changed since.
    """
    kept, target = _statements_for(frame, wanted, 0)
    kept.take_with_loops(_new_objects(_values_of(kept.all), {**frame.f_globals, **frame.f_locals}))
    return _slice_of(frame, kept, target)


def line_that_fills(frame: FrameType, name: str) -> Place | None:
    """The first line of a frame's function that adds to a list or the like that a variable holds; None for none."""
    with contextlib.suppress(NoSlice):
        nodes = (node for each in body_of(frame.f_code, frame.f_globals) for node in ast.walk(each))
        lines = [node.lineno for node in nodes if isinstance(node, ast.Expr) and name in _changed_in_place(node)]
        return Place(frame.f_code.co_filename, min(lines), frame.f_code.co_name) if lines else None
    return None


def last_statement_for(frame: FrameType, wanted: Any) -> Slice:
    """The one statement of a frame's function that has computed `wanted` last, from variables that are as they were.

    Raises:
        NoSlice: There is none, or what it reads has changed since.
    """
    kept, target = _statements_for(frame, wanted, 0)
    try:
        kept.take_last()
    except NoSlice:
        kept = _last_before_loops(frame, target)
    return _slice_of(frame, kept, target)


def _last_before_loops(frame: FrameType, target: str) -> _Kept:
    """The last statement that sets `target` before the loops around the line of a frame.

    Raises:
        NoSlice: There is none, or what it reads has changed since.
    """
    for before in _before_loops(frame):
        again = {name for each in before.loops for name in _defined(each)}
        if target in again:
            break
        if not any(target in _defined(each) for each in before.statements):
            continue  # it is older than this round of the loop around
        kept = _Kept(before.statements, target)
        kept.take_last(again)
        if kept.statements:
            return kept
    raise NoSlice("no statement computes it")


def line_that_sets(frame: FrameType, name: str) -> Place | None:
    """The line of a frame's function that has set a variable last, in this round of the loop; None if none has."""
    with contextlib.suppress(NoSlice):
        statements = _before(body_of(frame.f_code, frame.f_globals), frame.f_lineno, 0, None)
        before = [each for level in reversed(_before_loops(frame)) for each in level.statements]
        for statement in reversed([*before, *statements]):
            if name in _defined(statement) | _changed_in_place(statement):
                return Place(frame.f_code.co_filename, statement.lineno, frame.f_code.co_name)
    return None


class _BeforeLoops(NamedTuple):
    """The statements of a function, or of one round of a loop, before the loops around a line, and these loops."""

    statements: list[ast.stmt]
    loops: list[ast.stmt]


def _before_loops(frame: FrameType) -> list[_BeforeLoops]:
    """What ran before each of the loops around the line of a frame: in this round of the loop around it, if there is
    one. The innermost loop comes first.
    """
    found: list[_BeforeLoops] = []
    statements: list[ast.stmt] = []
    block: list[ast.stmt] | None = body_of(frame.f_code, frame.f_globals)
    while block is not None:
        around = next((each for each in block if each.lineno <= frame.f_lineno <= (each.end_lineno or 0)), None)
        statements += [each for each in block if (each.end_lineno or each.lineno) < frame.f_lineno]
        if around is None or isinstance(around, _SIMPLE):
            break
        if isinstance(around, (ast.For, ast.AsyncFor, ast.While)):
            found.append(_BeforeLoops(statements, []))
            for each in found:
                each.loops.append(around)
            statements = []
        block = _block_with(around, frame.f_lineno)
    return found[::-1]


def line_that_updates(frames: Sequence[FrameType]) -> Place | None:
    """The line that changes parameters by their gradients without an optimizer: `p.data.add_(p.grad, alpha=-lr)`."""
    for frame in frames:
        with contextlib.suppress(NoSlice):
            for node in (node for part in body_of(frame.f_code, frame.f_globals) for node in ast.walk(part)):
                changed = node.target if isinstance(node, ast.AugAssign) else _receiver(node)
                if changed is not None and "grad" not in _attributes(changed) and "grad" in _attributes(node):
                    return Place(frame.f_code.co_filename, changed.lineno, frame.f_code.co_name)
    return None


def _receiver(node: ast.AST) -> ast.expr | None:
    """What a method that works in place, such as `p.data.add_(...)`, changes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        return None if node.func.attr.endswith("__") else node.func.value
    return None


def _attributes(node: ast.AST) -> set[str]:
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def _statements_for(frame: FrameType, wanted: Any, first: int) -> tuple[_Kept, str]:
    """The statements that may compute `wanted`, of which some are to be taken, and the name that holds it."""
    body = body_of(frame.f_code, frame.f_globals)
    target = _name_of(frame.f_locals, wanted)
    running = _expression_at(body, frame.f_lineno, frame.f_locals) if target is None else None
    target = target or _TARGET
    return _Kept(_before(body, frame.f_lineno, first, running), target), target


def _slice_of(frame: FrameType, kept: _Kept, target: str) -> Slice:
    if not kept.statements:
        raise NoSlice("no statement computes it")
    variables = dict(frame.f_locals)
    names = {**frame.f_globals, **variables}
    drawn: dict[int, Any] = {}
    _Check(names, _DEPTH, set(), is_slice=True, drawn=drawn).block(kept.statements)
    renamed = [_Renamed(kept.attributes).visit(each) for each in copy.deepcopy(kept.statements)]
    code = _compiled(renamed, frame)
    lines = (kept.statements[0].lineno, kept.statements[-1].end_lineno or kept.statements[-1].lineno)
    inputs = tuple(
        sorted(name for name in {_root_of(each) for part in renamed for each in _used(part)} if name in variables)
    )
    path, function = frame.f_code.co_filename, frame.f_code.co_name
    return Slice(code, names, inputs, _flat(target), lines, path, function, tuple(drawn.values()))


def _compiled(statements: list[ast.stmt], frame: FrameType) -> CodeType:
    """The code of statements of a frame's function, with its name."""
    module = ast.fix_missing_locations(ast.Module(statements, []))
    code = compile(module, frame.f_code.co_filename, "exec", dont_inherit=True)
    return code.replace(co_name=frame.f_code.co_name)


def running_statement(frame: FrameType, line: int) -> Slice:
    """The statement that runs at a line of a frame, to be run once more with the variables as they are.

    Raises:
        NoSlice: It can't be.
    """
    body = body_of(frame.f_code, frame.f_globals)
    found = _statement_at(body, line)
    if found is None or isinstance(found, (ast.Return, ast.Raise, ast.Delete)):
        value = found.value if isinstance(found, ast.Return) else None
        if found is None or value is None:
            raise NoSlice("no statement that can be run by itself")
        found = ast.copy_location(ast.Expr(value), found)
    names = {**frame.f_globals, **frame.f_locals, _TARGET: None}
    _Check(names, _DEPTH, set()).block([found])
    code = _compiled([copy.deepcopy(found)], frame)
    return Slice(code, names, (), _TARGET, (line, line), frame.f_code.co_filename, frame.f_code.co_name)


def _statement_at(block: Sequence[ast.stmt], line: int) -> ast.stmt | None:
    """The simple statement at a line."""
    for statement in block:
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            if isinstance(statement, _SIMPLE):
                return statement
            inner = _block_with(statement, line)
            return _statement_at(inner, line) if inner is not None else None
    return None


def names_read(frame: FrameType) -> set[str]:
    """The names that the statement which runs in a frame reads; of a block, that its first line reads."""
    block: list[ast.stmt] | None = []
    with contextlib.suppress(NoSlice):
        block = body_of(frame.f_code, frame.f_globals)
    while block:
        found = next((each for each in block if each.lineno <= frame.f_lineno <= (each.end_lineno or 0)), None)
        if found is None:
            break
        block = None if isinstance(found, _SIMPLE) else _block_with(found, frame.f_lineno)
        if block is None:
            parts = [found] if isinstance(found, _SIMPLE) else list(ast.iter_child_nodes(found))
            return {name for part in parts if part is found or not isinstance(part, ast.stmt) for name in _used(part)}
    return set()


# --- the function and its statements


def body_of(code: CodeType, names: dict[str, Any]) -> list[ast.stmt]:
    """The body of a function, or of the module, that `code` was compiled from.

    Raises:
        NoSlice: Its source isn't there.
    """
    text = "".join(linecache.getlines(code.co_filename, names))
    if not text:
        raise NoSlice("the source can't be read")
    try:
        tree = _parsed(text)
    except SyntaxError:
        raise NoSlice("the source can't be parsed") from None
    if is_top_level(code):
        return tree.body
    if code.co_name == "<lambda>":
        found = (node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno)
        return [ast.copy_location(ast.Expr(node.body), node.body) for node in found]
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            if min([node.lineno, *(each.lineno for each in node.decorator_list)]) <= code.co_firstlineno <= node.lineno:
                return node.body
    raise NoSlice("the function's source can't be found")


def tree_of(path: str) -> ast.Module:
    """The syntax tree of a file, which is read only once; not to be changed.

    Raises:
        SyntaxError: The file can't be parsed.
    """
    return _parsed("".join(linecache.getlines(path)))


@functools.lru_cache(maxsize=32)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _before(block: list[ast.stmt], line: int, first: int, running: ast.stmt | None) -> list[ast.stmt]:
    """The statements that run from the line `first` up to `line`, in this round of the innermost loop around it.

    `running`, if there is one, comes in the place of the statement that runs.
    """
    statements: list[ast.stmt] = []
    for statement in block:
        end = statement.end_lineno or statement.lineno
        if statement.lineno > line:
            break
        if end < line:
            if end >= first:
                statements.append(statement)
            continue
        inner = None if isinstance(statement, _SIMPLE) else _block_with(statement, line)
        if inner is None:
            return [*statements, running] if running is not None else statements
        nested = _before(inner, line, first, running)
        if isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
            return nested  # what comes before the loop ran before this round
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            nested = [ast.copy_location(type(statement)(statement.items, nested), statement)] if nested else []
        return [*statements, *nested]
    return statements


def _expression_at(body: list[ast.stmt], line: int, variables: Mapping[str, Any]) -> ast.stmt:
    """A statement that computes what the running one reads or differentiates, such as `loss_of(x).backward()`: of
    several that a text shows, the first one that reads a tensor which is not finite.
    """
    found: list[ast.expr] = []
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.Call, ast.FormattedValue)) and node.lineno <= line <= (node.end_lineno or 0):
                found += _shown(node)
    value = next((each for each in found if _reads_bad(each, variables)), found[0] if found else None)
    if value is None:
        raise NoSlice("no variable holds it")
    return ast.copy_location(ast.Assign([ast.Name(_TARGET, ast.Store())], value), value)


def _shown(node: ast.Call | ast.FormattedValue) -> list[ast.expr]:
    """What a call reads, or a text shows, if that is no variable."""
    if isinstance(node, ast.Call):
        value = _read_by(node)
        return [value] if value is not None and not isinstance(value, (ast.Name, ast.Attribute)) else []
    value = _read_by(node.value) if isinstance(node.value, ast.Call) else None
    return [each for each in [value or node.value] if not isinstance(each, ast.Name)]


def _reads_bad(value: ast.expr, variables: Mapping[str, Any]) -> bool:
    """Whether an expression reads a variable, or an attribute of an object in one, that is a number and not finite."""
    held = [variables.get(each.id) for each in ast.walk(value) if isinstance(each, ast.Name)]
    held += [part for each in held for part in getattr(each, "__dict__", {}).values()]
    tensors = (each for each in held if isinstance(each, torch.Tensor) and each.is_floating_point())
    return any(each.numel() == 1 and may_be_bad(each) for each in tensors)


def _read_by(call: ast.Call) -> ast.expr | None:
    """What `x.item()`, `float(x)`, `x.backward()` and `scaler.scale(x).backward()` are about."""
    called = call.func
    is_function = isinstance(called, ast.Name) and called.id in _OF_NUMBERS
    is_of_math = isinstance(called, ast.Attribute) and _root(called) == "math"
    if (is_function or is_of_math) and call.args:
        inner = call.args[0]
        return (_read_by(inner) if isinstance(inner, ast.Call) else None) or inner
    if isinstance(called, ast.Attribute) and called.attr in ("item", "backward", "tolist"):
        value = called.value
        if (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr == "scale"
            and value.args
        ):
            return value.args[0]
        return value
    return None


def _block_with(statement: ast.stmt, line: int) -> list[ast.stmt] | None:
    """The block of a compound statement that holds a line."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if block and block[0].lineno <= line <= (block[-1].end_lineno or block[-1].lineno):
            return list(block)
    for handler in getattr(statement, "handlers", []):
        if handler.body and handler.body[0].lineno <= line <= (handler.body[-1].end_lineno or 0):
            return list(handler.body)
    return None


def is_held(frame: FrameType, value: Any) -> bool:
    """Whether a variable of a frame, or an attribute of its `self`, holds an object."""
    return _name_of(frame.f_locals, value) is not None


def _name_of(variables: Mapping[str, Any], wanted: Any) -> str | None:
    """What a variable, or an attribute of one, is called that holds a tensor; None if none does."""
    for name, value in variables.items():
        if value is wanted:
            return name
    for name, value in variables.items():
        attributes = getattr(value, "__dict__", None)
        if name == "self" and isinstance(attributes, dict):
            for attribute, held in attributes.items():
                if held is wanted:
                    return f"{name}.{attribute}"
    return None


# --- which statements the value depends on


def _flat(name: str) -> str:
    return name.replace(".", "__of__")


class _Kept:
    """The statements that a value depends on, taken from the last one up."""

    def __init__(self, statements: Sequence[ast.stmt], target: str) -> None:
        self.all = statements
        self._needed = {target}
        self.statements: list[ast.stmt] = []
        self.attributes: set[str] = {target} if "." in target else set()

    def take(self, variables: Collection[str]) -> None:
        """Take them, with the attributes that they set in `attributes`.

        Raises:
            NoSlice: One of the function's `variables` that they read has changed since.
        """
        for statement in self.all:
            self.attributes |= {name for name in _defined(statement) if "." in name}
        self.statements = self._from(self.all)
        kept = {name for each in self.statements for name in _defined(each)}
        self.attributes &= kept
        self._check_first_reads(variables)

    def take_with_loops(self, new: Collection[str]) -> None:
        """Take all that the value depends on, with whole loops, and the modes that models are set to.

        Args:
            new: Names of objects that the statements make, whose methods may change them.

        Raises:
            NoSlice: What they begin from has changed since.
        """
        kept: list[ast.stmt] = []
        for statement in reversed(self.all):
            defined, changed = _defined(statement), _changed_within(statement, new)
            if (defined | changed) & self._needed:
                self._needed = (self._needed - _surely_set(statement)) | _read_first([statement], set())
            elif not _sets_mode(statement):
                continue
            kept.append(statement)
        self.statements = kept[::-1]
        self.attributes |= {name for each in kept for name in _defined(each) if "." in name}
        for statement in self.all:
            if old := (_defined(statement) | _changed_within(statement, new)) & self._needed:
                raise NoSlice(f"`{min(old)}` has changed since")

    def _check_first_reads(self, variables: Collection[str]) -> None:
        """Raise where a variable is read that has got another value since: `out, hidden = model(x, hidden)`."""
        for name in sorted(_read_first(self.statements, set())):
            if name in variables:
                first = min(each.lineno for each in self.statements if name in _used(each))
                if any(each.lineno >= first and name in _defined(each) for each in self.all):
                    raise NoSlice(f"`{name}` has changed since")

    def take_last(self, again: Collection[str] = ()) -> None:
        """Take the fewest statements: variables that have not been set since hold what was read from them.

        Args:
            again: Names that are set after all these statements.

        Raises:
            NoSlice: A variable was set again, and what it held before can't be computed.
        """
        changed: set[str] = set(again)
        self.statements = self._fewest(self.all, changed)
        if self._needed:
            raise NoSlice(f"`{min(self._needed)}` has changed since")
        self.attributes &= {name for each in self.statements for name in _defined(each)}

    def _fewest(self, statements: Sequence[ast.stmt], changed: set[str]) -> list[ast.stmt]:
        """Those of a block; `changed` are the names that it, and what comes after it, sets or changes in place."""
        kept: list[ast.stmt] = []
        for statement in reversed(statements):
            if isinstance(statement, (ast.With, ast.AsyncWith)):
                if body := self._fewest(statement.body, changed):
                    kept.append(ast.copy_location(type(statement)(statement.items, body), statement))
                continue
            is_change, defined = self._mutates(statement), _defined(statement)
            if isinstance(statement, ast.AugAssign) and defined & self._needed:
                raise NoSlice("a variable is changed in place")
            changed |= defined | _changed_in_place(statement)
            if defined & self._needed or is_change:
                self._needed = (self._needed - defined) | (_used(statement) & changed)
                kept.append(statement)
        return kept[::-1]

    def _from(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        kept: list[ast.stmt] = []
        for statement in reversed(statements):
            if isinstance(statement, (ast.With, ast.AsyncWith)):
                body = self._from(statement.body)
                if body:
                    self._needed |= {name for item in statement.items for name in _used(item.context_expr)}
                    kept.append(ast.copy_location(type(statement)(statement.items, body), statement))
            elif _defined(statement) & self._needed or self._mutates(statement):
                self._needed |= _used(statement)
                kept.append(statement)
        return self._without_repeats(kept[::-1])

    def _mutates(self, statement: ast.stmt) -> bool:
        """Whether a statement does something to what is needed: `losses.append(loss)`, `losses["a"] = loss`."""
        return bool(_changed_within(statement) & self._needed)

    @staticmethod
    def _without_repeats(statements: list[ast.stmt]) -> list[ast.stmt]:
        """Without first definitions of a name by itself (`x = x.to(device)`): the variable holds the result already."""
        seen: set[str] = set()
        kept = []
        for statement in statements:
            defined, used = _defined(statement), _used(statement)
            is_own = isinstance(statement, (ast.Assign, ast.AnnAssign)) and defined and defined <= used
            if is_own and not defined & seen:
                continue
            if isinstance(statement, ast.AugAssign) and not defined & seen:
                raise NoSlice("a variable is changed in place")
            seen |= defined
            kept.append(statement)
        return kept


def _defined(statement: ast.AST) -> set[str]:
    """The names and attributes that a statement sets."""
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(node.name)
    return names


def _read_first(statements: Sequence[ast.stmt], known: set[str]) -> set[str]:
    """The names that statements read before they set them; `known` are set, and those that they surely set come in."""
    read: set[str] = set()
    for statement in statements:
        blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        if isinstance(statement, (ast.If, ast.For, ast.While, ast.With)):
            heads = [each for each in ast.iter_child_nodes(statement) if not isinstance(each, ast.stmt)]
            read |= {name for head in heads for name in _used(head)} - known
            known |= {name for head in heads for name in _defined(head)}
            for block in blocks:
                read |= _read_first(block, known if isinstance(statement, ast.With) else set(known))
        else:
            read |= _used(statement) - known
        known |= _defined(statement)
    return read


def _changed_in_place(statement: ast.stmt) -> set[str]:
    """The names of what a statement does something to: `losses.append(loss)`, `losses["a"] = loss`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        if isinstance(called, ast.Attribute) and (called.attr in _CHANGES or called.attr.endswith("_")):
            return {_root(called.value)}
    if isinstance(statement, (ast.Assign, ast.AugAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return {_root(each.value) for each in targets if isinstance(each, ast.Subscript)}
    return set()


def _changed_within(statement: ast.stmt, new: Collection[str] = ()) -> set[str]:
    """The names of what a statement, or one within it, does something to; of objects in `new` any method may."""
    names = {name for each in ast.walk(statement) if isinstance(each, ast.stmt) for name in _changed_in_place(each)}
    for each in ast.walk(statement) if new else ():
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call):
            called = each.value.func
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id in new:
                names.add(called.value.id)
    return names


def _surely_set(statement: ast.stmt) -> set[str]:
    """The names that a statement sets whatever happens in it."""
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return {name for each in statement.body for name in _surely_set(each)}
    return _defined(statement) if isinstance(statement, (ast.Assign, ast.AnnAssign)) else set()


def _sets_mode(statement: ast.stmt) -> bool:
    """Whether a statement sets a model's mode: `model.eval()`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("eval", "train")


def updated_by(node: ast.AST) -> set[str]:
    """The attributes of `self` that a node computes from what they were, writes to in place, or adds to: not what it
    only sets, or sets an item of.
    """
    if isinstance(node, ast.AugAssign):
        return {_root(node.target)}
    if isinstance(node, ast.Assign):
        return {name for name in _defined(node) if "." in name} & _used(node.value)
    return _changed_in_place(node) if isinstance(node, ast.Expr) else set()


def _used(node: ast.AST) -> set[str]:
    """The names and attributes that a statement reads."""
    names: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            names.add(each.id)
        elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load) and isinstance(each.value, ast.Name):
            names.add(f"{each.value.id}.{each.attr}")
        elif isinstance(each, ast.AugAssign):
            names |= _defined(each.target)
    return names


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return f"self.{node.attr}"
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _root_of(name: str) -> str:
    return name.partition(".")[0]


class _Renamed(ast.NodeTransformer):
    """Attributes that the statements set become variables of their own, so that no object is changed."""

    def __init__(self, attributes: set[str]) -> None:
        self._attributes = attributes

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """An attribute, or the variable that stands for it."""
        if isinstance(node.value, ast.Name) and (name := f"{node.value.id}.{node.attr}") in self._attributes:
            return ast.copy_location(ast.Name(_flat(name), node.ctx), node)
        return self.generic_visit(node)


# --- whether they can be run twice


# Of functions, the lines that can't be run twice, from the first to the last, and why.
Guards = dict[CodeType, list[tuple[int, int, str]]]


class _Check:
    """Raises `NoSlice` where statements do what can't be done twice. Libraries and modules' attributes are trusted.

    With `guards`, what a function does only under a condition is noted there, and raises when it is about to be run.
    """

    def __init__(
        self,
        names: Mapping[str, Any],
        depth: int,
        seen: set[CodeType],
        *,
        is_module: bool = False,
        is_slice: bool = False,
        drawn: dict[int, Any] | None = None,
        guards: Guards | None = None,
        code: CodeType | None = None,
    ) -> None:
        self._names = names
        self._guards = guards
        self._code = code  # of the function that is looked through
        self._drawn = drawn  # takes the generators that are drawn from, where these are put back
        self._is_slice = is_slice  # attributes that it sets become variables, see `_Renamed`
        self._depth = depth
        self._seen = seen
        self._is_module = is_module  # a method of a module: its own numbers are restored afterwards
        self._made: set[str] = set()
        self._in_memory: set[str] = set()  # of these, texts in memory and what writes to them
        self._new_generators: set[str] = set()  # of these, generators of random numbers that nobody else has
        self._new_objects: set[str] = set()  # of these, objects of the user's classes

    def block(self, statements: Sequence[ast.stmt], parameters: Sequence[str] = (), made: Sequence[str] = ()) -> None:
        """Check statements of one function, with its parameters, and the names of what only it knows."""
        self._made = {name for each in statements for name in _defined(each) if "." not in name or self._is_slice}
        self._made -= set(parameters)
        self._made |= set(made)
        self._in_memory = _in_memory(statements) & self._made
        self._new_generators = _only_set_to(_new_generator, *_values_of(statements)) & self._made
        self._new_objects = _new_objects(_values_of(statements), self._names) & self._made
        for statement in statements:
            self._statement(statement, is_sure=True)

    def _statement(self, statement: ast.stmt, *, is_sure: bool) -> None:
        """Check a statement, and those in it; `is_sure`: it is run whenever the function is."""
        if self._guards is None or self._code is None:
            for node in ast.walk(statement):
                self._node(node)
            return
        blocks, seen = _blocks(statement), set(self._seen)
        try:
            for node in ast.walk(statement) if blocks is None else _own_nodes(statement):
                self._node(node)
        except NoSlice as error:
            if is_sure:
                raise
            self._seen.intersection_update(seen)  # what was looked through is not known to be good
            last = statement.end_lineno if blocks is None else blocks[0][0].lineno - 1
            lines = (statement.lineno, max(last or 0, statement.lineno), str(error))
            self._guards.setdefault(self._code, []).append(lines)
        for block in blocks or ():
            runs = is_sure and isinstance(statement, (ast.With, ast.Try)) and block is statement.body
            for each in block:
                self._statement(each, is_sure=runs)

    def _line(self, node: ast.AST) -> str:
        """The line of a node, in words."""
        of = f" of {os.path.basename(self._code.co_filename)}" if self._code is not None else ""
        return f"line {getattr(node, 'lineno', 0)}{of}"

    def _node(self, node: ast.AST) -> None:
        if isinstance(node, (ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Yield)):
            raise NoSlice(f"{self._line(node)} can't be run by itself")
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and not self._is_made(node.value):
            raise NoSlice(f"{self._line(node)} changes an object")
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and not self._is_restored(node.value):
            if _dotted(node) not in self._made and not self._is_made(node.value):
                raise NoSlice(f"{self._line(node)} changes an object")
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            self._read(node)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for value in (self._value(item.context_expr) for item in node.items):
                for name in _OF_BLOCKS if value is not None else ():
                    self.callable(getattr(value, name, None))
        if isinstance(node, ast.Call):
            self._call(node)

    def _is_restored(self, node: ast.expr) -> bool:
        """Whether an object is a module, whose own attributes are put back."""
        return self._is_module and isinstance(self._value(node), torch.nn.Module)

    def _read(self, node: ast.Name | ast.Attribute) -> None:
        """Check what is read: what gives something else each time can't be read twice."""
        if isinstance(node, ast.Name) and node.id in self._made:
            return
        if isinstance(node, ast.Attribute):
            getter = getattr(type(self._value(node.value)), node.attr, None)
            if isinstance(getter, property):
                self.callable(MethodType(getter.fget, self._value(node.value)) if getter.fget else None)
                return
        self._check_value(self._value(node), node)

    def _check_value(self, value: Any, node: ast.expr) -> None:
        self._draw(value)
        if isinstance(value, Iterator) and not isinstance(value, type):
            raise NoSlice(f"{self._line(node)} reads something that can be read only once")
        if isinstance(value, io.IOBase) and value not in _streams():
            raise NoSlice(f"{self._line(node)} uses a file")
        if isinstance(value, DataLoader):
            self._loader(value)

    def _loader(self, loader: DataLoader[Any]) -> None:
        """Check what a loader does: what it takes items from, and what makes batches of them."""
        if loader.num_workers:
            raise NoSlice("a loader has workers")
        for each in (loader.dataset, loader.sampler, loader.batch_sampler):
            for name in ("__getitem__", "__getitems__", "__iter__", "__len__"):
                self.callable(getattr(each, name, None))
        self.callable(loader.collate_fn)

    def _draw(self, owner: Any) -> None:
        """Check what may be a generator of random numbers."""
        if _draws(owner):
            if self._drawn is None:
                raise NoSlice("random numbers are drawn from a generator that can't be put back")
            self._drawn[id(owner)] = owner

    def _is_made(self, node: ast.expr) -> bool:
        return _root(node) in self._made

    def _call(self, node: ast.Call) -> None:
        called = node.func
        last = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        value = self._value(called)
        changes = last in _CHANGES and isinstance(called, ast.Attribute) and not self._is_made(called.value)
        is_own = self._is_in_memory(called) or self._seeds_new(called)
        if (last in _ONCE or changes) and not _is_looked_into(value) and not is_own:
            raise NoSlice(f"`{last}()` on {self._line(node)} can't be called twice")
        is_of_new = isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name)
        self.callable(value, is_new=is_of_new and called.value.id in self._new_objects)  # type: ignore[attr-defined]

    def _is_in_memory(self, called: ast.expr) -> bool:
        """Whether what is called writes to a text in memory, which the statements themselves have made."""
        return isinstance(called, ast.Attribute) and called.attr in _WRITES and _root(called) in self._in_memory

    def _seeds_new(self, called: ast.expr) -> bool:
        """Whether a generator is seeded that the statements have made: `torch.Generator().manual_seed(0)`."""
        if not isinstance(called, ast.Attribute) or called.attr not in _SEEDS:
            return False
        owner = called.value
        return _new_generator(owner) or (isinstance(owner, ast.Name) and owner.id in self._new_generators)

    def _value(self, node: ast.expr) -> Any:
        """What an expression of names and attributes is, None where that isn't known without running code."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self._value(node.value)
            if base is None or isinstance(getattr(type(base), node.attr, None), property):
                return None
            try:
                return getattr(base, node.attr, None)
            except Exception:  # a program's own __getattr__
                return None
        return None

    def callable(self, value: Any, *, is_new: bool = False) -> None:
        """Check what is called, if it is a function of the user's; `is_new`: a method of a new object."""
        owner = getattr(value, "__self__", None)
        self._draw(owner)
        if isinstance(value, functools.partial):
            if any(isinstance(each, (io.IOBase, Iterator)) for each in (*value.args, *value.keywords.values())):
                raise NoSlice("a prepared call uses a file, or something that can be read only once")
            self.callable(value.func)
            return
        if isinstance(value, type):
            for name in _OF_CLASSES:
                self.callable(getattr(value, name, None), is_new=True)
            return
        if isinstance(owner, type) and issubclass(owner, torch.autograd.Function) and value.__name__ == "apply":
            for name in ("forward", "setup_context", "backward"):
                self.callable(getattr(owner, name, None), is_new=True)  # its context is made for the call
            return
        owner = None
        if isinstance(value, torch.nn.Module):
            value = value.forward
        elif isinstance(getattr(type(value), "__call__", None), FunctionType):  # noqa: B004 - of the class
            value = MethodType(type(value).__call__, value)
        if isinstance(value, MethodType):
            owner, value = value.__self__, value.__func__
        while hasattr(value, "__wrapped__") and not _is_users_function(value):
            value = value.__wrapped__
        if not isinstance(value, FunctionType):
            return
        code = value.__code__
        if code in self._seen or not is_users(code.co_filename):
            return
        if not self._depth:
            raise NoSlice("functions call each other too deeply to be looked through")
        self._seen.add(code)
        closure = zip(code.co_freevars, value.__closure__ or (), strict=False)
        names = {**value.__globals__, **{name: _content(cell) for name, cell in closure}}
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if owner is not None and parameters:
            names[parameters[0]] = owner
        is_module = isinstance(owner, torch.nn.Module)
        inner = _Check(
            names,
            self._depth - 1,
            self._seen,
            is_module=is_module,
            drawn=self._drawn,
            guards=self._guards,
            code=code,
        )
        made = (*parameters[:1], *_fresh_attributes(type(owner))) if is_new else ()
        inner.block(body_of(code, value.__globals__), parameters, made)


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]] | None:
    """The blocks of statements of an `if`, a loop, a `with` or a `try`; None for another statement."""
    if not isinstance(statement, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
        return None
    handlers = [each.body for each in getattr(statement, "handlers", ())]
    found = (statement.body, *handlers, *(getattr(statement, name, []) for name in ("orelse", "finalbody")))
    return [each for each in found if each]


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and what is in it but other statements."""
    yield node
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, ast.stmt):
            yield from _own_nodes(each)


# What a class does when it is called, and used in a `with` statement.
_OF_BLOCKS = ("__enter__", "__exit__", "__torch_dispatch__", "__torch_function__")
_OF_CLASSES = ("__init__", "__post_init__", *_OF_BLOCKS)


def _streams() -> tuple[Any, ...]:
    return sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__


def _is_users_function(value: Any) -> bool:
    """Whether what is called is a function of the user's, which is looked into."""
    function = value.__func__ if isinstance(value, MethodType) else value
    return isinstance(function, FunctionType) and is_users(function.__code__.co_filename)


def _is_looked_into(value: Any) -> bool:
    """Whether what is called is looked into whatever its name is: a function of the user's, or a module or an object of
    the user's that is called, such as the `nn.PixelShuffle` in `self.shuffle`.
    """
    if isinstance(value, torch.nn.Module):
        return True
    return _is_users_function(value) or _is_users_function(getattr(type(value), "__call__", None))  # noqa: B004 - of the class


def _draws(owner: Any) -> bool:
    """Whether an object is a generator of random numbers of its own, other than torch's."""
    if isinstance(owner, random.Random):
        return owner is not getattr(random, "_inst", None)
    kind = type(owner)
    if not kind.__module__.startswith("numpy.random"):
        return False
    known = sys.modules.get("numpy.random.mtrand")
    return kind.__name__ == "Generator" or (
        kind.__name__ == "RandomState" and owner is not getattr(known, "_rand", None)
    )


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


def _values_of(statements: Sequence[ast.stmt]) -> tuple[dict[str, list[ast.expr]], set[str]]:
    """By name, the values that plain assignments of statements set it to; and the names that are set otherwise."""
    values: dict[str, list[ast.expr]] = {}
    others: set[str] = set()
    for statement in statements:
        for node in ast.walk(statement):
            if pairs := _pairs(node):
                for name, value in pairs:
                    values.setdefault(name, []).append(value)
            elif isinstance(node, ast.stmt):
                heads = [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]
                others |= {name for head in heads for name in _defined(head)}
    return values, others


def _pairs(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """The names that a plain assignment sets, each with its value: two of `bank, query = Bank(), Bank()`."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return []
    target, value = node.targets[0], node.value
    several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
    targets, values = (target.elts, value.elts) if several else ([target], [value])  # type: ignore[attr-defined]
    names = [_dotted(each) if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in targets]
    return list(zip(names, values, strict=True)) if all(names) else []


def _new_objects(values: tuple[Mapping[str, Sequence[ast.expr]], set[str]], names: Mapping[str, Any]) -> set[str]:
    """The names that are only set to new objects of the user's classes, other than modules."""

    def makes_one(value: ast.expr) -> bool:
        called = value.func if isinstance(value, ast.Call) else None
        kind = names.get(called.id) if isinstance(called, ast.Name) else None
        if not isinstance(kind, type) or issubclass(kind, torch.nn.Module):
            return False
        return _is_users_function(getattr(kind, "__init__", None))

    return _only_set_to(makes_one, *values)


def _fresh_attributes(kind: type) -> set[str]:
    """The attributes of objects of a class that its methods set to nothing but new lists and the like, and numbers."""
    bodies = []
    for function in vars(kind).values():
        if isinstance(function, FunctionType):
            with contextlib.suppress(NoSlice):
                bodies += body_of(function.__code__, function.__globals__)
    return {name for name in _only_set_to(_is_fresh, *_values_of(bodies)) if name.startswith("self.")}


def _is_fresh(value: ast.expr) -> bool:
    """Whether an expression makes a list or the like that nobody else has."""
    return isinstance(value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp)) or _makes(value, _CONTAINERS)


def _only_set_to(
    is_such: Callable[[ast.expr], bool], values: Mapping[str, Sequence[ast.expr]], others: Collection[str]
) -> set[str]:
    """The names that are only set to values of some kind, of what `_values_of` returns."""
    return {name for name, given in values.items() if name not in others and all(map(is_such, given))}


def _in_memory(statements: Sequence[ast.stmt]) -> set[str]:
    """The names that are only set to a text in memory, or to what writes rows of a table to one."""
    values, others = _values_of(statements)
    texts = _only_set_to(lambda value: _makes(value, _STREAMS), values, others)

    def writes(value: ast.expr) -> bool:
        is_writer = isinstance(value, ast.Call) and _makes(value, _WRITERS) and bool(value.args)
        return is_writer and _root(value.args[0]) in texts  # type: ignore[attr-defined]

    return texts | _only_set_to(writes, values, others)


def _new_generator(value: ast.expr) -> bool:
    """Whether an expression makes a generator of random numbers, and seeds it perhaps."""
    called = value.func if isinstance(value, ast.Call) else None
    is_seeded = isinstance(called, ast.Attribute) and called.attr == "manual_seed"
    return _makes(value, _GENERATORS) or (is_seeded and _makes(called.value, _GENERATORS))  # type: ignore[union-attr]


def _makes(value: ast.expr, names: Collection[str]) -> bool:
    """Whether an expression is a call of one of these names: `io.StringIO()`."""
    called = value.func if isinstance(value, ast.Call) else None
    last = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return last in names


def _dotted(node: ast.Attribute) -> str:
    return f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""


def draws_of(function: Any) -> tuple[Any, ...]:
    """What a function draws random numbers from, other than torch's generators and the global ones.

    Raises:
        NoSlice: It does what can't be done twice.
    """
    drawn: dict[int, Any] = {}
    _Check({}, _DEPTH, set(), drawn=drawn).callable(function)
    return tuple(drawn.values())


def check_module(module: torch.nn.Module) -> Guards:
    """What the forward pass of a module, or of one in it, does under a condition that can't be done twice.

    Raises:
        NoSlice: It does such a thing whenever it runs.
    """
    guards: Guards = {}
    check = _Check({}, _DEPTH, set(), guards=guards)
    for part in module.modules():
        check.callable(part.forward)
    for hooks in forward_hooks(module):
        for hook in hooks.values():
            if not only_records(hook):
                check.callable(hook)
    return guards


class _ReachedError(BaseException):
    """A line is about to be run that can't be run twice; the user's `except Exception` doesn't catch it."""


@contextlib.contextmanager
def guarded(guards: Guards) -> Iterator[None]:
    """In the block lines that can't be run twice are not run.

    Raises:
        NoSlice: One of them was reached.
    """

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        for first, last, why in guards[frame.f_code] if event == "line" else ():
            if first <= frame.f_lineno <= last:
                raise _ReachedError(why)
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        return on_line if frame.f_code in guards else None

    if not guards:
        yield
        return
    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield
    except _ReachedError as error:
        raise NoSlice(str(error)) from None
    finally:
        sys.settrace(before)


def forward_hooks(module: torch.nn.Module) -> Iterator[dict[int, Any]]:
    """The hooks that run in the forward pass of a module and of those in it."""
    shared = torch.nn.modules.module
    yield from (shared._global_forward_hooks, shared._global_forward_pre_hooks)
    for part in module.modules():
        yield from (part._forward_hooks, part._forward_pre_hooks)


def only_records(hook: Any) -> bool:
    """Whether a hook does what can't be done twice and changes nothing that the module computes: it can be left out."""
    try:
        _Check({}, _DEPTH, set()).callable(hook)
    except NoSlice:
        return _returns_nothing(hook)
    return False


def _returns_nothing(function: Any) -> bool:
    if not isinstance(function, (FunctionType, MethodType)):
        function = getattr(type(function), "__call__", None)  # noqa: B004 - of the class
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    try:
        body = body_of(code, function.__globals__)
    except NoSlice:
        return False
    if code.co_name == "<lambda>":
        calls = [each.value for each in body if isinstance(each, ast.Expr)]
        return all(
            isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _CHANGES
            for call in calls
        )
    returned = (node for each in body for node in ast.walk(each) if isinstance(node, ast.Return))
    return all(node.value is None or ast.unparse(node.value) == "None" for node in returned)
