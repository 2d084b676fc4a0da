"""What a text means, with what it takes from other files, or why it can't be read."""

from __future__ import annotations

import sys
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING

from amplint.base.about import REPORT
from amplint.base.findings import Finding
from amplint.base.project_root import NOWHERE, Start
from amplint.base.target import nothing_declared
from amplint.registry import all_rules
from amplint.registry.rule import PluginError
from amplint.sources.parsing import Refusal, parse
from amplint.sources.source import Source

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from amplint.base.target import Target
    from amplint.model import Module


INTERNAL_ERROR = "AMP000"


INVALID_SYNTAX = "AMP001"


_PACKAGE = Path(__file__).parents[1]


class UnreadableError(Exception):
    """There is no module to ask rules about; `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class UnfoldableError(Exception):
    """libcst can't read a piece of a text: it has to read, or refuse, the whole."""


def forget() -> None:
    """Forget the syntax trees of what was read last, at which Python's garbage collector would look again and again."""
    if "amplint.model.syntax.lazy_lowering" in sys.modules:
        from amplint.model.syntax.lazy_lowering import forget_trees  # noqa: PLC0415 - it imports libcst
        from amplint.model.syntax.positions import forget_positions  # noqa: PLC0415 - it imports libcst

        forget_trees()
        forget_positions()


def read(
    source: Source,
    target: Target,
    frameworks: Callable[[str], Target] = nothing_declared,
    *,
    tree: ast.Module | None = None,
    fold: bool = True,
    follow: bool = True,
    device: str | None = None,
    src: tuple[str, ...] | None = None,
    start: Start = NOWHERE,
) -> Module:
    """What a text means, with what it takes from other files of its project; `frameworks` is asked for their targets.

    `device` is the project's, for code that shows none; `src` where its modules are (None: where most have them);
    `start` says what the project is where nothing marks one.
    `tree` is what `check_syntax` made of it, where that is known. Without `follow` nothing is taken from other files;
    without `fold` libcst reads all of the text at once, and not what is asked for
    (`amplint.model.syntax.lazy_lowering`).

    Raises:
        UnreadableError: Python or libcst can't parse it, or amplint fails on it.
    """
    module = read_alone(source, target, frameworks=frameworks, tree=tree, fold=fold)
    module.device = device
    try:
        from amplint.model.project.link import link  # noqa: PLC0415 - it imports libcst
        from amplint.model.project.resolve_import import look_in  # noqa: PLC0415 - it imports libcst

        look_in(src, start)  # rules may ask for other files whether or not imports are followed
        if follow:
            link(module)
    except Exception as error:
        raise _failed(source, error, fold) from error
    return module


def read_alone(
    source: Source,
    target: Target,
    last_id: int = 0,
    frameworks: Callable[[str], Target] = nothing_declared,
    *,
    tree: ast.Module | None = None,
    fold: bool = False,
) -> Module:
    """What a text by itself means; the ids of its nodes come behind `last_id`.

    Raises:
        UnreadableError: Python or libcst can't parse it, or amplint fails on it.
    """
    tree = tree or check_syntax(source)
    try:
        # Not at the top: importing libcst takes longer than to lint most files.
        from amplint.model import build  # noqa: PLC0415
    except Exception as error:
        raise UnreadableError(internal_error(source, "amplint", error)) from error
    try:
        return build(source, target, last_id, frameworks, tree if fold else None)
    except Exception as error:
        raise _failed(source, error, fold) from error


def _failed(source: Source, error: Exception, fold: bool) -> Exception:
    """What to raise when a text can't be read."""
    from amplint.model import CannotRead  # noqa: PLC0415 - it imports libcst

    if not isinstance(error, CannotRead):
        return UnreadableError(internal_error(source, "the model", error))
    if fold:
        return UnfoldableError()
    return UnreadableError(invalid_syntax(source, error.row, f"amplint can't read this code yet: {error}"))


def check_syntax(source: Source) -> ast.Module:
    """What Python makes of a text; refuses what can't be parsed, without importing libcst.

    Raises:
        UnreadableError: it can't.
    """
    tree = parse(source)
    if isinstance(tree, Refusal):
        message = _of_a_notebook(source, tree) or tree.message
        raise UnreadableError(all_rules()[INVALID_SYNTAX].finding((tree.start, tree.end), message))
    return tree


def _of_a_notebook(source: Source, refusal: Refusal) -> str | None:
    """What is wrong with a program in which a command of a notebook's stands, as exports of notebooks have them."""
    from amplint.sources.ipython import is_command, refused_command  # noqa: PLC0415 - few files are refused

    line = source.line(source.row(refusal.start)).strip()
    return refused_command(source.named(refusal.start), line) if is_command(line) else None


def invalid_syntax(source: Source, row: int, message: str, column: int | None = None) -> Finding:
    """AMP001 for a line, or a character of it."""
    row = min(max(row, 1), len(source.line_starts))
    start, width = source.offset(row, 1), len(source.line(row))
    span = (start, start + width) if column is None else (start + column - 1, start + min(column, width))
    return all_rules()[INVALID_SYNTAX].finding(span, message)


def refused(source: Source) -> list[Finding]:
    """AMP001 for each part of a file that is no program, while others are."""
    return [all_rules()[INVALID_SYNTAX].finding((start, end), message) for start, end, message in source.refused()]


def internal_error(source: Source, what: str, error: BaseException, plugin: str = "") -> Finding:
    """AMP000 for an exception that should not have been raised, with what a report of it needs."""
    report = f"please report it to the authors of {plugin}" if plugin else REPORT
    if isinstance(error, PluginError):
        return failure(source, f"{error} ({report})")
    frames = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(_PACKAGE)]
    place = f" at {Path(frames[-1].filename).relative_to(_PACKAGE).as_posix()}:{frames[-1].lineno}" if frames else ""
    if plugin:  # whose folders may lie anywhere
        last = extract_tb(error.__traceback__)[-1]
        what, place = f"plugin {plugin}: {what}", f" at {Path(last.filename).name}:{last.lineno}"
    said = next(iter(str(error).splitlines()), "")
    message = f"{what} failed with {type(error).__name__}{place}: {said}".removesuffix(": ")
    return failure(source, f"{message} ({report})")


def failure(source: Source, message: str) -> Finding:
    """AMP000 for a file."""
    return all_rules()[INTERNAL_ERROR].finding((0, len(source.line(1))), message)
