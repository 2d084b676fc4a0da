"""What amplint says of misuses that are planted in real training files, one at a time.

    python -m tests.field.planted FOLDER

A file's own code decides where a misuse can be planted: an `unscale_` is taken away where a clip follows it, an
`update` is taken away, a step is taken past the scaler. A planted misuse counts as found if a finding of its kind is
new in the file. This measures recall on the forms of code that people write, and not of the misuses that they make.
"""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from amplint import Settings, check, settings_for

_CLIPS = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")
_REGIONS = ("autocast", "amp_autocast")


class Planted(NamedTuple):
    """A file's text with one misuse: its kind, its line, and the rules of which one has to say it."""

    kind: str
    line: int
    codes: frozenset[str]
    text: str


class Outcome(NamedTuple):
    """What became of one planted misuse."""

    path: str
    kind: str
    line: int
    found: bool


class _File:
    """A training file: its lines, its tree, and the names of its scalers."""

    def __init__(self, text: str) -> None:
        self.lines = io.StringIO(text).readlines()  # as ast counts them
        self.tree = ast.parse(text)
        self.scalers = {
            ast.unparse(call.func.value)
            for call in _calls(self.tree)
            if isinstance(call.func, ast.Attribute) and call.func.attr == "unscale_"
        } | {
            ast.unparse(call.func.value.func.value)
            for call in _calls(self.tree)
            if isinstance(call.func, ast.Attribute)
            and call.func.attr == "backward"
            and isinstance(call.func.value, ast.Call)
            and isinstance(call.func.value.func, ast.Attribute)
            and call.func.value.func.attr == "scale"
        }

    def blocks(self) -> Iterator[list[ast.stmt]]:
        """The lists of statements."""
        for node in ast.walk(self.tree):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                    yield block

    def statements(self) -> Iterator[ast.stmt]:
        """The statements."""
        return (statement for block in self.blocks() for statement in block)

    def of_scaler(self, statement: ast.stmt, name: str) -> ast.Call | None:
        """The call of a scaler's method that is the whole statement."""
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == name:
            return call if ast.unparse(call.func.value) in self.scalers else None
        return None

    def replaced(self, old: ast.AST, new: str) -> str:
        """The text with a node's text replaced."""
        first, last = old.lineno - 1, old.end_lineno - 1  # type: ignore[attr-defined]
        head = self.lines[first].encode()[: old.col_offset].decode()  # type: ignore[attr-defined]
        tail = self.lines[last].encode()[old.end_col_offset :].decode()  # type: ignore[attr-defined]
        return "".join([*self.lines[:first], head + new + tail, *self.lines[last + 1 :]])

    def inserted(self, new: str, before: ast.stmt, *, after: ast.stmt | None = None) -> str:
        """The text with a line before a statement, with its indentation; or with that, after another statement."""
        at = before.lineno - 1 if after is None else after.end_lineno or after.lineno
        indent = self.lines[before.lineno - 1][: before.col_offset]
        return "".join([*self.lines[:at], f"{indent}{new}\n", *self.lines[at:]])

    def source(self, node: ast.AST) -> str:
        """A node's text."""
        first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
        lines = [line.encode() for line in self.lines[first : last + 1]]
        lines[-1] = lines[-1][: node.end_col_offset]  # type: ignore[attr-defined]
        lines[0] = lines[0][node.col_offset :]  # type: ignore[attr-defined]
        return b"".join(lines).decode()


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _clips(statements: list[ast.stmt]) -> bool:
    return any(_name(call) in _CLIPS for each in statements for call in _calls(each))


def _without_unscale(file: _File) -> Iterator[Planted]:
    for block in file.blocks():
        for at, statement in enumerate(block):
            if file.of_scaler(statement, "unscale_") and _clips(block[at + 1 :]):
                yield Planted("no unscale_", statement.lineno, _codes(401, 409, 420), file.replaced(statement, "pass"))


def _clip_first(file: _File) -> Iterator[Planted]:
    for block in file.blocks():
        for statement, after in itertools.pairwise(block):
            if file.of_scaler(statement, "unscale_") and isinstance(after, ast.Expr) and _clips([after]):
                moved = file.replaced(after, file.source(statement))
                again = _File(moved)
                old = next(each for each in again.statements() if _is_at(each, statement))
                text = again.replaced(old, file.source(after))
                yield Planted("clip before unscale_", statement.lineno, _codes(401, 409), text)


def _is_at(statement: ast.stmt, other: ast.stmt) -> bool:
    return (statement.lineno, statement.col_offset) == (other.lineno, other.col_offset)


def _repeated(file: _File) -> Iterator[Planted]:
    for statement in file.statements():
        if file.of_scaler(statement, "unscale_"):
            twice = f"{file.source(statement)}; {file.source(statement)}"
            yield Planted("unscale_ twice", statement.lineno, _codes(405), file.replaced(statement, twice))


def _without_update(file: _File) -> Iterator[Planted]:
    for statement in file.statements():
        if file.of_scaler(statement, "update"):
            codes = _codes(404, 405, 410, 420)
            yield Planted("no update", statement.lineno, codes, file.replaced(statement, "pass"))


def _bypassed(file: _File) -> Iterator[Planted]:
    for statement in file.statements():
        call = file.of_scaler(statement, "step")
        if call and call.args and isinstance(call.args[0], (ast.Name, ast.Attribute)):
            text = file.replaced(statement, f"{ast.unparse(call.args[0])}.step()")
            yield Planted("step past the scaler", statement.lineno, _codes(402, 404, 407, 410, 420, 421), text)


def _scaled_backwards(calls: Iterable[ast.Call]) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The calls that run a scaled backward, each with its call of `scale`."""
    for call in calls:
        if _name(call) == "backward" and isinstance(call.func, ast.Attribute):
            scale = call.func.value
            if isinstance(scale, ast.Call) and _name(scale) == "scale" and len(scale.args) == 1:
                yield call, scale


def _scaled_statements(file: _File) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """The statements that are such a call, each with its call of `scale`."""
    for statement in file.statements():
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield from ((statement, scale) for _, scale in _scaled_backwards([statement.value]))


def _unscaled(file: _File) -> Iterator[Planted]:
    for call, scale in _scaled_backwards(_calls(file.tree)):
        loss = f"({file.source(scale.args[0])})"
        codes = _codes(403, 407, 418, 420)
        yield Planted("backward of the unscaled loss", call.lineno, codes, file.replaced(scale, loss))


def _never_cleared(file: _File) -> Iterator[Planted]:
    clears = [
        statement
        for statement in file.statements()
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and _name(statement.value) == "zero_grad"
    ]
    if len(clears) == 1 and file.scalers:
        yield Planted("no zero_grad", clears[0].lineno, _codes(411), file.replaced(clears[0], "pass"))


def _region_calls(file: _File) -> list[tuple[ast.With, ast.Call]]:
    return [
        (node, node.items[0].context_expr)
        for node in ast.walk(file.tree)
        if isinstance(node, ast.With)
        and len(node.items) == 1
        and isinstance(node.items[0].context_expr, ast.Call)
        and _name(node.items[0].context_expr) in _REGIONS
    ]


def _without_region(file: _File) -> Iterator[Planted]:
    regions = _region_calls(file)
    named = [each for each in _calls(file.tree) if _name(each) in _REGIONS]
    if len(regions) == len(named) == 1 and file.scalers:
        region, call = regions[0]
        text = "".join(file.lines).replace(f"with {file.source(call)}:", "if True:", 1)
        if "if True:" in text:
            yield Planted("no region", region.lineno, _codes(207, 210, 310, 420), text)


def _backward_inside(file: _File) -> Iterator[Planted]:
    for block in file.blocks():
        for statement, after in itertools.pairwise(block):
            backward = isinstance(after, ast.Expr) and isinstance(after.value, ast.Call)
            if not (backward and _name(after.value) == "backward" and after.lineno == after.end_lineno):  # type: ignore[attr-defined]
                continue
            for region, _ in _region_calls(file):
                if region is statement:
                    indent = " " * (region.body[0].col_offset - after.col_offset)
                    lines = list(file.lines)
                    lines[after.lineno - 1] = indent + lines[after.lineno - 1]
                    yield Planted("backward in the region", after.lineno, _codes(301, 420), "".join(lines))


def _bfloat16(file: _File) -> Iterator[Planted]:
    regions = _region_calls(file)
    if not file.scalers or any(each.arg == "dtype" for _, call in regions for each in call.keywords):
        return
    if len(regions) == 1 and "torch" in "".join(file.lines) and all(len(call.args) <= 1 for _, call in regions):
        region, call = regions[0]
        head = file.source(call)
        comma = ", " if call.args or call.keywords else ""
        text = file.replaced(call, f"{head[:-1].rstrip().rstrip(',')}{comma}dtype=torch.bfloat16)")
        yield Planted("bfloat16 with a scaler", region.lineno, _codes(206), text)


def _not_saved(file: _File) -> Iterator[Planted]:
    states = [
        call
        for call in _calls(file.tree)
        if _name(call) == "state_dict"
        and isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) in file.scalers
    ]
    loads = [statement for statement in file.statements() if file.of_scaler(statement, "load_state_dict")]
    dicts = [
        (node, index)
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Dict)
        for index, value in enumerate(node.values)
        if value in states and node.keys[index] is not None
    ]
    if len(states) == len(dicts) == len(loads) == 1:
        node, index = dicts[0]
        pairs = [
            f"{file.source(key)}: {file.source(value)}"
            for at, (key, value) in enumerate(zip(node.keys, node.values, strict=True))
            if at != index and key is not None
        ]
        again = _File(file.replaced(node, "{" + ", ".join(pairs) + "}"))
        again.scalers = file.scalers
        load = next(each for each in again.statements() if again.of_scaler(each, "load_state_dict"))
        yield Planted("scaler not in the checkpoint", node.lineno, _codes(413), again.replaced(load, "pass"))
    if len(loads) == 1 and states:
        yield Planted("scaler not loaded", loads[0].lineno, _codes(413), file.replaced(loads[0], "pass"))


def _clip_last(file: _File) -> Iterator[Planted]:
    for block in file.blocks():
        for clip, step in itertools.pairwise(block):
            if isinstance(clip, (ast.Expr, ast.Assign)) and _clips([clip]) and file.of_scaler(step, "step"):
                moved = file.replaced(step, f"{file.source(step)}; {file.source(clip)}")
                old = next(each for each in _File(moved).statements() if _is_at(each, clip))
                yield Planted(
                    "clip after the step", clip.lineno, _codes(419, 401, 409), _File(moved).replaced(old, "pass")
                )


def _cleared_too_early(file: _File) -> Iterator[Planted]:
    stepped = {
        ast.unparse(call.args[0])
        for statement in file.statements()
        if (call := file.of_scaler(statement, "step")) and call.args
    }
    if len(stepped) == 1:
        for statement, _ in _scaled_statements(file):
            text = file.replaced(statement, f"{file.source(statement)}; {next(iter(stepped))}.zero_grad()")
            yield Planted("cleared before the step", statement.lineno, _codes(407, 411, 419, 420), text)


def _thrown_away(file: _File) -> Iterator[Planted]:
    for statement, scale in _scaled_statements(file):
        loss, end = file.source(scale.args[0]), file.source(statement)[len(file.source(scale)) :]
        text = file.replaced(statement, f"{file.source(scale)}; ({loss}){end}")
        yield Planted("scaled loss thrown away", statement.lineno, _codes(403, 407, 417, 420), text)


def _made_again(file: _File) -> Iterator[Planted]:
    for function in ast.walk(file.tree):
        if not isinstance(function, (ast.FunctionDef, ast.Module)):
            continue
        made = [each for each in function.body if _makes_scaler(file, each)]
        loops = [each for each in ast.walk(function) if isinstance(each, (ast.For, ast.While))]
        steps = [each for each in loops if not any(inner is not each and inner in loops for inner in ast.walk(each))]
        inner = [loop for loop in steps if any(file.of_scaler(each, "step") for each in ast.walk(loop))]  # type: ignore[arg-type]
        if len(made) == len(inner) == 1:
            text = file.inserted(file.source(made[0]), inner[0].body[0])
            yield Planted("scaler made in the loop", inner[0].lineno, _codes(408), text)


def _makes_scaler(file: _File, statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and _name(statement.value) == "GradScaler"
        and ast.unparse(statement.targets[0]) in file.scalers
    )


def _on_micro_steps(file: _File) -> Iterator[Planted]:
    for statement in file.statements():
        if not isinstance(statement, ast.If) or statement.orelse or "%" not in ast.unparse(statement.test):
            continue
        for each in statement.body:
            if file.of_scaler(each, "unscale_"):
                text = _File(file.replaced(each, "pass")).inserted(file.source(each), statement)
                yield Planted("unscale_ on micro steps", each.lineno, _codes(405, 411, 409, 410), text)
            if file.of_scaler(each, "update"):
                text = _File(file.replaced(each, "pass")).inserted(file.source(each), statement, after=statement)
                yield Planted("update on micro steps", each.lineno, _codes(410, 404, 411), text)


def _codes(*numbers: int) -> frozenset[str]:
    return frozenset(f"AMP{number}" for number in numbers)


PLANTERS: tuple[Callable[[_File], Iterator[Planted]], ...] = (
    _without_unscale,
    _clip_first,
    _repeated,
    _without_update,
    _bypassed,
    _unscaled,
    _never_cleared,
    _without_region,
    _backward_inside,
    _bfloat16,
    _not_saved,
    _clip_last,
    _cleared_too_early,
    _thrown_away,
    _made_again,
    _on_micro_steps,
)


def planted(text: str) -> Iterator[Planted]:
    """A file's text with each misuse that can be planted in it, one at a time."""
    try:
        file = _File(text)
    except (SyntaxError, ValueError):
        return
    if not file.scalers:
        return
    for plant in PLANTERS:
        for each in plant(file):
            try:
                ast.parse(each.text)
            except SyntaxError:
                continue
            yield each


def outcomes(path: Path, kinds: Collection[str] = ()) -> list[Outcome]:
    """What amplint says of a file's planted misuses, of some kinds or of all. A file that has a misuse of a kind
    already is skipped for that kind.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return []
    plants = [each for each in planted(text) if not kinds or each.kind in kinds]
    if not plants:
        return []
    settings = settings_for(path)
    before = _found(text, path, settings)
    rows = []
    for each in plants:
        if each.codes & set(before):
            continue
        found = bool((_found(each.text, path, settings) - before).keys() & each.codes)
        rows.append(Outcome(str(path), each.kind, each.line, found))
    return rows


def _found(text: str, path: Path, settings: Settings) -> Counter[str]:
    return Counter(each.code for each in check(text, path, settings))


def _has_scaler(path: Path) -> bool:
    content = path.read_bytes()
    return b".backward(" in content and (b"GradScaler" in content or b".unscale_(" in content)


def main(arguments: list[str] | None = None) -> int:
    """Plant misuses in the training files below a folder, and print how many of them amplint finds."""
    parser = argparse.ArgumentParser(prog="python -m tests.field.planted", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--missed", action="store_true", help="print the ones it doesn't find, a line each")
    parser.add_argument("--kind", action="append", help="only misuses of this kind; may be given several times")
    options = parser.parse_args(arguments)
    files = [path for path in sorted(options.folder.rglob("*.py")) if _has_scaler(path)]
    planted_of, found_of = Counter[str](), Counter[str]()
    with ProcessPoolExecutor(2) as pool:
        for rows in pool.map(partial(outcomes, kinds=options.kind or ()), files, chunksize=2):
            for row in rows:
                planted_of[row.kind] += 1
                found_of[row.kind] += row.found
                if options.missed and not row.found:
                    print(f"{row.path}:{row.line}: {row.kind}", flush=True)
    print("| planted | places | found |\n|---|---|---|")
    for kind, number in planted_of.most_common():
        print(f"| {kind} | {number} | {found_of[kind]} ({found_of[kind] / number:.0%}) |")
    print(f"| all | {planted_of.total()} | {found_of.total()} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
