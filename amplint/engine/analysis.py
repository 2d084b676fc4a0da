"""What rules find in a text that was read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from amplint.base.edits import validate
from amplint.base.findings import Edit, Finding
from amplint.base.interruption import go_on
from amplint.base.patience import of_file
from amplint.engine.reading import UnfoldableError, internal_error
from amplint.sources.comments import keeping_comments
from amplint.sources.source import MARK, Source

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.registry.rule import Rule


# The families about what a run does, and not about names.
_OF_TRAINING, _OF_SCALERS = "23456", "4"


def given_up(module: Module) -> tuple[str, ...]:
    """What could not be analysed in a module, a line each; nothing is found there."""
    from amplint.model.flow.analysis import given_up as functions  # noqa: PLC0415 - it imports libcst

    return tuple(functions(module))


def run(rules: list[Rule], module: Module) -> tuple[list[Finding], set[str]]:
    """What rules find, AMP000 for each that fails, and the codes of those.

    Raises:
        UnfoldableError: the module has to be read without folding.
    """
    findings: list[Finding] = []
    failed: set[str] = set()
    time = of_file()
    for rule in rules:
        go_on()
        if time is not None:
            if time.leaves(rule.code):
                continue
            time.start(rule.code)
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
    from amplint.model import CannotRead  # noqa: PLC0415 - it imports libcst

    try:
        return Counter(each for rule in rules if not rule.plugin and rule.doubts for each in rule.doubts(module))
    except CannotRead as error:
        raise UnfoldableError from error


def _ask(rule: Rule, module: Module) -> tuple[list[Finding], BaseException | None]:
    """What a rule finds, and why not more where it fails."""
    from amplint.engine.cross_file import at_home  # noqa: PLC0415 - it imports libcst
    from amplint.model import CannotRead  # noqa: PLC0415 - it imports libcst

    findings: list[Finding] = []
    try:
        found = [at_home(module, rule, each) for each in rule.run(module)] if rule.run is not None else []
        for each in found:
            if each is not None and not _in_mark(module.source, each):
                if rule.plugin and each.code != rule.code:
                    raise ValueError(f"the rule made a finding of {each.code}")
                validate(each, module.own_length)
                sure = _as_sure_as_run(module, rule, each)
                findings.append(_keeping_comments(module, _naming_its_setting(module, rule, sure)))
    except CannotRead as error:
        raise UnfoldableError from error
    except Exception as error:
        return findings, error
    except SystemExit as error:
        if not rule.plugin:
            raise
        return findings, error
    return findings, None


def _is_of_training(rule: Rule, finding: Finding) -> bool:
    """Whether a finding is one of amplint's own rules about training, and more than a suspicion."""
    return not rule.plugin and not finding.is_suspicion and rule.code[3] in _OF_TRAINING


def _as_sure_as_run(module: Module, rule: Rule, finding: Finding) -> Finding:
    """A finding of a rule about training; a suspicion where the file as it is never runs the code, or only times it."""
    from amplint.model.flow.switched_off import is_switched_off  # noqa: PLC0415 - it imports libcst
    from amplint.rules.shared.rehearsal import is_timed  # noqa: PLC0415 - it imports libcst

    if not _is_of_training(rule, finding):
        return finding
    unlikely = is_switched_off(module, finding.start) or is_timed(module, finding.start)
    return finding.as_suspicion() if unlikely else finding


def _naming_its_setting(module: Module, rule: Rule, finding: Finding) -> Finding:
    """A finding of a rule about training that says which setting it needs, where that is off by default."""
    from amplint.rules.shared.default_values import unless_by_default  # noqa: PLC0415 - it imports libcst
    from amplint.rules.shared.enabled_flags import unless_scaling  # noqa: PLC0415 - it imports libcst

    if not _is_of_training(rule, finding) or finding.message.startswith("if "):
        return finding
    statement = module.statement_at(finding.start)
    needed = unless_by_default(module, statement) if statement is not None else ""
    if not needed and rule.code[3] == _OF_SCALERS:
        needed = unless_scaling(module)
    said = needed.partition("`")[2].partition("`")[0]
    return finding if said in finding.message else finding._replace(message=needed + finding.message)


def _keeping_comments(module: Module, finding: Finding) -> Finding:
    """A finding with a fix that takes no comment away, or else without it."""
    if finding.fix is None:
        return finding
    if any(_meets_mark(module.source, edit) for edit in finding.fix.edits):
        return finding._replace(fix=None, withheld="the fix would change an IPython line or a second cell")
    edits = keeping_comments(module.source, finding.fix.edits)
    if edits is None:
        return finding._replace(fix=None, withheld="the fix would replace a comment")
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
