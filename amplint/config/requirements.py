"""What a directory requires of torch, or of a framework: its pyproject.toml, setup.cfg, setup.py, and lists.

Nothing here raises for a file that is odd or can't be read: it declares nothing.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplint.base.paths import LARGEST_CONFIG, contents, shown
from amplint.base.target import Target
from amplint.config.requirement_lists import LONGEST, Said, listed, lists, pinned, read, requirement_lines
from amplint.config.toml_lines import parse_toml

if TYPE_CHECKING:
    from amplint.config.specifiers import Bounds

# What they are called where they are installed.
_PACKAGES = {
    "torch": "torch",
    "lightning": "lightning",
    "pytorch-lightning": "lightning",
    "lightning-fabric": "lightning",
    "transformers": "transformers",
    "accelerate": "accelerate",
}

# What other packages require: each release of lightning-bolts from 0.6 to the last, 0.7.0, is for Lightning before 2.0.
_REQUIRED_BY = {"lightning-bolts": ("lightning", "<2.0")}


def declared_in(directory: Path, package: str = "torch") -> Target | None:
    """The target that the files of `directory` declare; None where none of them names a version of the package."""
    return next(filter(None, (_target(directory, group, package) for group in _groups(directory, package))), None)


def _groups(directory: Path, package: str) -> Iterator[Iterable[Said]]:
    """The groups of requirements in a directory, in the order in which they count: the first that has one decides."""
    for name, needs, reader in (
        ("pyproject.toml", (package, "file"), _pyproject),
        ("setup.cfg", (package, "file:"), _setup_cfg),
        ("setup.py", (package, ".txt"), _setup_py),
    ):
        text = read(directory / name)
        if text is not None and any(each in text.lower() for each in needs):
            for group in reader(text):
                yield _with_files(directory, name, group)
    yield from map(listed, lists(directory))


def _with_files(directory: Path, name: str, group: Iterable[str | Path]) -> Iterator[Said]:
    """The requirements of a group that a file has, and of the lists that it names."""
    for each in _read(group):
        if isinstance(each, Path):
            yield from listed(Path(os.path.normpath(directory / each)))
        else:
            yield Said(directory / name, each)


def reading(directory: Path) -> set[str]:
    """The lists in a directory and those that they include: what they say may decide what is required."""
    return {str(path) for path in lists(directory)} | {
        str(said.file) for group in _groups(directory, "torch") for said in group
    }


def broken(directory: Path) -> str | None:
    """What is wrong with the pyproject.toml of `directory`, of which then nothing is known; None: nothing."""
    path = directory / "pyproject.toml"
    try:
        parse_toml(contents(str(path), LARGEST_CONFIG).decode("utf-8-sig"))
    except OSError:
        return None
    except ValueError as error:
        return f"{shown(str(path))} is not valid TOML ({error}): its requirements are unknown"
    return None


def _target(directory: Path, group: Iterable[Said], package: str) -> Target | None:
    """The union of a group's requirements on a package: they differ by their markers, and any of them may hold."""
    texts = [(file, pinned(text)) for file, text in group if len(text) < LONGEST and package in text.lower()]
    if not texts:
        return None
    from amplint.config.specifiers import bounds, split  # noqa: PLC0415 - packaging is only for who declares something

    found: dict[str, dict[str, Bounds]] = {}
    for file, text in texts:
        called, specifier = split(text)
        path = os.path.relpath(file, directory)
        if (limit := _limit(called, package)) is not None:
            return Target(*limit, f"{path}: {called}")
        if specifier and _PACKAGES.get(called) == package:
            with suppress(ValueError):
                if (bound := bounds(specifier, package)) is not None:
                    found.setdefault(path, {})[f"{called}{specifier}"] = bound
    if not found:
        return None
    every = [bound for said in found.values() for bound in said.values()]
    origin = "; ".join(f"{name}: {', '.join(said)}" for name, said in found.items())
    return Target(min(each[0] for each in every), _highest(every), origin)


def _limit(called: str, package: str) -> Bounds | None:
    """The releases of a package that another package is for; None: it is for all."""
    from amplint.config.specifiers import bounds  # noqa: PLC0415 - see above

    required, specifier = _REQUIRED_BY.get(called, ("", ""))
    return bounds(specifier, package) if required == package else None


def _highest(every: list[Bounds]) -> tuple[int, ...] | None:
    """The highest release that any of the requirements admits; None: one of them has no bound."""
    highs = [high for _, high in every if high is not None]
    return max(highs) if len(highs) == len(every) else None


def _read(group: Iterable[str | Path]) -> Iterator[str | Path]:
    with suppress(RecursionError):  # a sum of thousands of lists
        yield from group


# Each reader yields groups of requirements, and of paths of lists that the file names. What the project itself needs
# comes first: an extra or a development group only adds to that.


def _pyproject(text: str) -> Iterator[Iterable[str | Path]]:
    try:
        document = parse_toml(text)
    except ValueError:
        return
    project, tool = _table(document, "project"), _table(document, "tool")
    poetry = _table(tool, "poetry")
    dynamic = _table(_table(tool, "setuptools"), "dynamic")
    yield [
        *_strings(project.get("dependencies")),
        *_poetry(_table(_table(tool, "uv"), "sources")),
        *_files(_table(dynamic, "dependencies").get("file")),
    ]
    yield _poetry(_table(poetry, "dependencies"))
    yield [
        *(each for extra in _table(project, "optional-dependencies").values() for each in _strings(extra)),
        *(each for group in _table(document, "dependency-groups").values() for each in _strings(group)),
        *_poetry(_table(poetry, "dev-dependencies")),
        *(
            each
            for name in _table(poetry, "group")
            for each in _poetry(_table(_table(_table(poetry, "group"), name), "dependencies"))
        ),
    ]


def _table(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _strings(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _files(value: object) -> list[Path]:
    """The paths that a setting gives, one or a list of them."""
    return [Path(each) for each in (_strings(value) if isinstance(value, list) else _strings([value]))]


def _poetry(dependencies: dict[str, Any]) -> Iterator[str]:
    """Poetry's own way to write requirements, in the standard's words."""
    for name in _PACKAGES:
        value = dependencies.get(name)
        for each in value if isinstance(value, list) else [value]:
            wheel = each.get("url", each.get("path")) if isinstance(each, dict) else None
            if isinstance(wheel, str):
                yield wheel
            written = each.get("version") if isinstance(each, dict) else each
            if isinstance(written, str) and len(written) < LONGEST:
                for alternative in re.split(r"\|\|?", written):
                    clauses = [clause for clause in re.split(r"[,\s]+(?![\s\d])", alternative.strip()) if clause]
                    yield name + ",".join(filter(None, map(_poetry_clause, clauses)))


def _poetry_clause(clause: str) -> str:
    clause = clause.replace(" ", "")
    if clause == "*":
        return ""
    if clause[0] not in "^~" or clause.startswith("~="):
        return clause if clause[0] in "<>=!~" else f"=={clause}"
    version = clause[1:]
    numbers = [int(number) for number in re.findall(r"\d+", version.partition("-")[0])][:3]
    # A caret keeps the first number that isn't zero, a tilde the second number where there is one.
    kept = next((i for i, number in enumerate(numbers) if number), 0) if clause[0] == "^" else min(1, len(numbers) - 1)
    end = [*numbers[:kept], numbers[kept] + 1] if numbers else [0]
    return f">={version},<{'.'.join(map(str, end))}"


def _setup_cfg(text: str) -> Iterator[Iterable[str | Path]]:
    import configparser  # noqa: PLC0415 - few have such a file

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string("\n".join(line for line in text.splitlines() if len(line) < LONGEST))
    except configparser.Error:
        return
    required = parser.get("options", "install_requires", fallback="")
    if required.startswith("file:"):
        yield [Path(each.strip()) for each in required[len("file:") :].split(",")]
    yield requirement_lines(required)
    if parser.has_section("options.extras_require"):
        yield requirement_lines("\n".join(value for _, value in parser.items("options.extras_require")))


def _setup_py(text: str) -> Iterator[Iterable[str | Path]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in someone's setup.py is not ours to print
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    names: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            names.update((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            names[node.target.id] = node.value
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) == "setup":
            for keyword in node.keywords:
                if keyword.arg == "install_requires":
                    yield _literals(keyword.value, dict(names))
    yield _named_lists(tree)


def _named_lists(tree: ast.AST) -> Iterator[Path]:
    """The text files that a setup.py names, by themselves or joined to a path: it reads what it requires from there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            words = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if len(words) > 1 and words[-1].endswith(".txt"):
                yield Path(*words)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".txt"):
            yield Path(node.value)


def _name(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def _literals(node: ast.expr, names: dict[str, ast.expr]) -> Iterator[str]:
    """The strings that an expression holds literally: lists, sums of lists, names assigned to those."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from node.value.splitlines()
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        for each in node.elts:
            yield from _literals(each, names)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _literals(node.left, names)
        yield from _literals(node.right, names)
    elif isinstance(node, ast.Starred):
        yield from _literals(node.value, names)
    elif isinstance(node, ast.Name) and node.id in names:
        # Each name counts once: one may be assigned to itself, or twice to the next, and that to the one after it.
        yield from _literals(names.pop(node.id), names)
