"""How large the package is: lines of code by package, the modules behind a rule, the functions that are hard to follow.

`python -m tests.size` prints it; `--functions` lists the functions of which the complexity is over the bound.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections.abc import Iterator
from statistics import mean
from typing import NamedTuple

from radon.complexity import cc_visit
from radon.visitors import Class, Function

from tests import ROOT
from tests.test_import_graph import imports, modules, package_of

# The cyclomatic complexity above which a function counts as hard to follow.
BOUND = 15
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class Complex(NamedTuple):
    """A function over the bound."""

    complexity: int
    path: str
    line: int
    name: str


def lines_of_code(text: str) -> int:
    """The lines of a module that hold code: no docstring, no comment, no blank line."""
    rows: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            rows.update(range(token.start[0], token.end[0] + 1))
    return len(rows - set(_docstrings(ast.parse(text))))


def _docstrings(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            first = node.body[0]
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def closure(module: str) -> set[str]:
    """The modules that a module needs, itself included: what it imports, what that imports, and so on.

    Every import counts, wherever it stands: at a module's top, in a function that may never run, or for type checkers
    alone. It is what a reader may have to look at, and more than what Python loads.
    """
    graph, needed, todo = imports(), {module}, [module]
    while todo:
        new = graph.get(todo.pop(), set()) - needed
        needed |= new
        todo += new
    return needed


def complex_functions() -> list[Complex]:
    """The functions of the package over the bound, the most complex first; nested ones count by themselves."""
    over = []
    for path in modules().values():
        for block in _functions(cc_visit(path.read_text("utf-8"))):
            own = block.complexity - sum(inner.complexity for inner in block.closures)
            if own > BOUND:
                over.append(Complex(own, path.relative_to(ROOT).as_posix(), block.lineno, block.fullname))
    return sorted(over, reverse=True)


def _functions(blocks: list[Function | Class]) -> Iterator[Function]:
    for block in blocks:
        if isinstance(block, Function) and not block.is_method:
            yield block
            yield from _functions(block.closures)
        elif isinstance(block, Class):
            for method in block.methods:
                yield method
                yield from _functions(method.closures)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", action="store_true", help="list the functions over the bound")
    options = parser.parse_args()
    sizes = {name: lines_of_code(path.read_text("utf-8")) for name, path in modules().items()}
    behind = [closure(name) for name in modules() if ".amp" in name]
    needed = mean(map(len, behind))
    lines = mean(sum(sizes[module] for module in closed) for closed in behind)
    over = complex_functions()
    for package, (count, size) in sorted(_by_package(sizes).items(), key=lambda row: -row[1][1]):
        print(f"{size:7,} lines in {count:3} modules  {package}")
    print(f"{len(sizes)} modules, {sum(sizes.values()):,} lines of code")
    print(f"behind a rule: {needed:.0f} modules, {lines:,.0f} lines of code on average")
    print(f"{len(over)} functions with a complexity above {BOUND}")
    for function in over if options.functions else ():
        print(f"{function.complexity:4} {function.path}:{function.line} {function.name}")


def _by_package(sizes: dict[str, int]) -> dict[str, tuple[int, int]]:
    """How many modules a package has, and how many lines of code."""
    found: dict[str, tuple[int, int]] = {}
    for module, size in sizes.items():
        package = package_of(module) or "(the package itself)"
        count, lines = found.get(package, (0, 0))
        found[package] = (count + 1, lines + size)
    return found


if __name__ == "__main__":
    main()
