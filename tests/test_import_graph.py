"""The packages of amplint stand in one order, and no modules import each other in a circle.

All imports count: those at a module's top, those in functions, and those for type checkers alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import ROOT

# A package imports what stands before it, and its own modules. A module directly in `amplint` is named by itself.
ORDER = (
    "base",
    "sources",
    "model.torch_facts",
    "model.syntax",
    "model",
    "model.names",
    "model.project",
    "model.objects",
    "model.calls",
    "model.inference",
    "model.usage",
    "model.regions",
    "model.flow",
    "model.half",
    "registry",
    "config",
    "suppression",
    "files",
    "fixes",
    "rules.shared",
    "rules",
    "rules.internal",
    "rules.deprecated",
    "rules.arguments",
    "rules.regions",
    "rules.scaler",
    "rules.numerics",
    "rules.frameworks",
    "engine",
    "cache",
    "adoption",
    "report",
    "report.formats",
    "runner",
    "api",
    "plugin_api",
    "explain",
    "guide",
    "verify.fixtures",
    "verify.bench",
    "verify.program",
    "verify.interpreter",
    "verify.steps",
    "verify",
    "testing",
    "doctor",
    "integrations",
    "cli",
)


@cache
def modules() -> dict[str, Path]:
    """The files of all modules of the package by their dotted names, without `amplint.`; `` is the package itself."""
    package = ROOT / "amplint"
    named = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imported(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "amplint":
                    yield alias.name.removeprefix("amplint").removeprefix(".")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "amplint":
            home = (node.module or "").removeprefix("amplint").removeprefix(".")
            # The version stands in the package itself, which is imported before anything in it.
            for alias in node.names if [alias.name for alias in node.names] != ["__version__"] else ():
                inner = f"{home}.{alias.name}".removeprefix(".")
                yield inner if inner in modules() else home


def package_of(module: str) -> str:
    """The entry of ORDER that a module belongs to."""
    is_package = modules()[module].name == "__init__.py"
    return module if is_package or "." not in module else module.rpartition(".")[0]


@cache
def imports() -> dict[str, set[str]]:
    """Which modules a module imports. The facade of the package, which nothing may import, is left out."""
    return {name: set(imported(path)) - {name} for name, path in modules().items() if name not in {"", "__main__"}}


def test_each_package_has_its_place() -> None:
    assert {package_of(name) for name in imports()} == set(ORDER)


@pytest.mark.parametrize("package", ORDER)
def test_a_package_imports_only_what_stands_before_it(package: str) -> None:
    allowed = set(ORDER[: ORDER.index(package) + 1])
    wrong = {
        f"{name} imports {other}"
        for name, others in imports().items()
        if package_of(name) == package
        for other in others
        if not other or package_of(other) not in allowed
    }
    assert not wrong


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = imports()
    while leaves := {name for name, others in graph.items() if not others & graph.keys()}:
        graph = {name: others for name, others in graph.items() if name not in leaves}
    # What is left is in a circle, or imports something that is.
    while unused := graph.keys() - set().union(*graph.values()):
        graph = {name: others for name, others in graph.items() if name not in unused}
    assert not {name: sorted(others & graph.keys()) for name, others in graph.items()}
