"""Counts the AMP training steps of source files, with nothing of amplint: what `amplint verify` should be able to run.

python -m tests.field.steps PATH...

A step is a function, or a module's own code, that calls `backward` and an optimizer's or scaler's `step`, in a text
that names autocast or a scaler too. A function counts by itself, nested ones aside.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_AMP = re.compile(r"autocast|scaler", re.IGNORECASE)
_STEPPED = re.compile(r"optim|scaler|opt\b|opt_|_opt", re.IGNORECASE)
_SCHEDULED = re.compile(r"sched", re.IGNORECASE)


class Step(NamedTuple):
    """A training step: its file, its function's name and first line (`<module>`, 1), and its lines."""

    path: str
    name: str
    row: int
    last: int


def steps_of(path: Path) -> Iterator[Step]:
    """The steps of a file; none where Python can't parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = path.read_text("utf-8")
            tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return
    if not _AMP.search(text):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_step(node):
            yield Step(str(path), node.name, node.lineno, node.end_lineno or node.lineno)
    if _is_step(tree):
        yield Step(str(path), "<module>", 1, len(text.splitlines()))


def _is_step(node: ast.AST) -> bool:
    words, backward, step = "", False, False
    for each in _own(node):
        if isinstance(each, ast.Name):
            words += f" {each.id}"
        elif isinstance(each, ast.Attribute):
            words += f" {each.attr}"
        elif isinstance(each, ast.arg):
            words += f" {each.arg}"
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            receiver = ast.unparse(each.func.value)
            backward = backward or each.func.attr == "backward"
            stepped = _STEPPED.search(receiver) and not _SCHEDULED.search(receiver)
            step = step or (each.func.attr == "step" and bool(stepped))
    return backward and step and bool(_AMP.search(words))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node, functions and classes nested in it left out."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield child
            yield from _own(child)
        elif isinstance(child, ast.Lambda):
            yield from _own(child)


def main() -> None:
    """Print the steps of the files and folders that are named."""
    files = [
        each
        for name in sys.argv[1:]
        for path in [Path(name)]
        for each in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
    ]
    count = 0
    for file in files:
        for step in steps_of(file):
            print(f"{step.path}:{step.row} {step.name}")
            count += 1
    print(f"{count} steps in {len(files)} files")


if __name__ == "__main__":
    main()
