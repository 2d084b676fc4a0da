"""One text and some rules: which of them can matter, what the text means, what they find in it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING

from amplint.base.edits import validate
from amplint.base.findings import Edit, Finding
from amplint.base.project_root import NOWHERE, Start
from amplint.base.target import nothing_declared
from amplint.registry import all_rules
from amplint.registry.rule import PluginError
from amplint.runner import REPORT
from amplint.sources.comments import keeping_comments
from amplint.sources.parsing import Refusal, parse
from amplint.sources.source import MARK, Source

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from amplint.base.target import Target
    from amplint.model import Module
    from amplint.registry.rule import Rule

INTERNAL_ERROR = "AMP000"
INVALID_SYNTAX = "AMP001"
_PACKAGE = Path(__file__).parents[1]
_SHOWN = 60  # characters of a line


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
        from amplint.model.syntax.lazy_lowering import forget_trees  # noqa: PLC0415 - see below

        forget_trees()


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
        from amplint.model.project.link import link  # noqa: PLC0415 - see below
        from amplint.model.project.resolve_import import look_in  # noqa: PLC0415 - see below

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
    from amplint.model import CannotRead  # noqa: PLC0415 - see above

    if not isinstance(error, CannotRead):
        return UnreadableError(internal_error(source, "the model", error))
    if fold:
        return UnfoldableError()
    return UnreadableError(invalid_syntax(source, error.row, f"amplint can't read it yet: {error}"))


def given_up(module: Module) -> tuple[str, ...]:
    """What could not be analysed in a module, a line each; nothing is found there."""
    from amplint.model.flow.analysis import given_up as functions  # noqa: PLC0415 - see above

    return tuple(functions(module))


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
    from amplint.sources.ipython import is_command  # noqa: PLC0415 - few files are refused

    line = source.line(source.row(refusal.start)).strip()
    if not is_command(line):
        return None
    return f"{source.named(refusal.start)}, `{_cut(line)}`, is a command of a notebook: Python can't run it here"


def _cut(line: str) -> str:
    """The start of a line, for a message."""
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."


def run(rules: list[Rule], module: Module) -> tuple[list[Finding], set[str]]:
    """What rules find, AMP000 for each that fails, and the codes of those.

    Raises:
        UnfoldableError: the module has to be read without folding.
    """
    findings: list[Finding] = []
    failed: set[str] = set()
    for rule in rules:
        found, error = _ask(rule, module)
        findings += found
        if error is not None:
            failed.add(rule.code)
            findings.append(internal_error(module.source, rule.code, error, rule.plugin))
    return findings, failed


def doubts(rules: list[Rule], module: Module) -> Counter[str]:
    """What rules doubt of a module that they say nothing about, each as a sentence.

    Raises:
        UnfoldableError: the module has to be read without folding.
    """
    from amplint.model import CannotRead  # noqa: PLC0415 - see above

    try:
        return Counter(each for rule in rules if not rule.plugin and rule.doubts for each in rule.doubts(module))
    except CannotRead as error:
        raise UnfoldableError from error


def _ask(rule: Rule, module: Module) -> tuple[list[Finding], BaseException | None]:
    """What a rule finds, and why not more where it fails."""
    from amplint.engine.cross_file import at_home  # noqa: PLC0415 - see above
    from amplint.model import CannotRead  # noqa: PLC0415 - see above

    findings: list[Finding] = []
    try:
        found = [at_home(module, rule, each) for each in rule.run(module)] if rule.run is not None else []
        for each in found:
            if each is not None and not _in_mark(module.source, each):
                if rule.plugin and each.code != rule.code:
                    raise ValueError(f"it made a finding of {each.code}")
                validate(each, module.own_length)
                findings.append(_keeping_comments(module, each))
    except CannotRead as error:
        raise UnfoldableError from error
    except Exception as error:
        return findings, error
    except SystemExit as error:
        if not rule.plugin:
            raise
        return findings, error
    return findings, None


def _keeping_comments(module: Module, finding: Finding) -> Finding:
    """A finding with a fix that takes no comment away, or else without it."""
    if finding.fix is None:
        return finding
    if any(_meets_mark(module.source, edit) for edit in finding.fix.edits):
        return finding._replace(fix=None, withheld="it would change a line of IPython's, or more than one cell")
    edits = keeping_comments(module.source, finding.fix.edits)
    if edits is None:
        return finding._replace(fix=None, withheld="a comment stands in what it would replace")
    return finding._replace(fix=finding.fix._replace(edits=edits))


def _in_mark(source: Source, finding: Finding) -> bool:
    """Whether a finding is about what stands for something else, which its place can't show."""
    return MARK in source.text[finding.start : finding.end] or source.replaced(finding.start)


def _meets_mark(source: Source, edit: Edit) -> bool:
    """Whether an edit changes a line in which something is replaced for the analysis; or the end of a cell."""
    if MARK not in source.text:
        return False
    starts, row = source.line_starts, source.row(edit.end)
    # What ends where a line starts leaves that line alone.
    end = edit.end if edit.end == starts[row - 1] else (*starts, len(source.text))[row]
    return MARK in source.text[starts[source.row(edit.start) - 1] : end]


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
