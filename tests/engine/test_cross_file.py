"""Findings in files that a file imports: where they are reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amplint.base.findings import Confidence, Finding, Severity
from amplint.base.target import nothing_declared
from amplint.engine.cross_file import at_home
from amplint.engine.reading import read
from amplint.model import Module
from amplint.registry.rule import Rule
from amplint.sources.load import load

HELPER = """\
import torch


def clip(parameters):
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
"""
MAIN = """\
import torch
from helper import clip

scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    scaler.scale(model(x).sum()).backward()
    clip(model.parameters())
    scaler.step(optimizer)
    scaler.update()
"""


def of_clips(alone: Confidence | None, from_main: Confidence) -> Rule:
    """A rule that reports the clip, as sure as said or not at all: in the helper alone, and from another file."""
    rule = Rule("tests.amp998_clips", "", severity=Severity.ERROR, fixes=())

    @rule.check
    def clips(module: Module) -> Iterator[Finding]:
        sure = from_main if module.parts else alone
        if sure is None:
            return
        spans = [module.span(each) for each in module.calls_of("torch.nn.utils.clip_grad_norm_")]
        yield from (Finding(*span, rule.code, rule.name, Severity.ERROR, "", confidence=sure) for span in spans)

    return rule


@pytest.mark.parametrize(
    ("alone", "from_main", "is_reported_at_the_call"),
    [
        (None, Confidence.CERTAIN, True),
        (Confidence.SUSPICION, Confidence.CERTAIN, False),
        (Confidence.SUSPICION, Confidence.LIKELY, False),
        (Confidence.SUSPICION, Confidence.SUSPICION, False),
        (Confidence.LIKELY, Confidence.CERTAIN, False),
        (Confidence.CERTAIN, Confidence.SUSPICION, False),
    ],
)
def test_what_another_file_reports_by_itself_is_not_reported_at_the_call(
    alone: Confidence | None, from_main: Confidence, is_reported_at_the_call: bool, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "helper.py").write_text(HELPER)
    main = tmp_path / "main.py"
    main.write_text(MAIN)
    module = read(load(main.read_bytes(), str(main)), nothing_declared(), src=(tmp_path,))
    rule = of_clips(alone, from_main)
    assert rule.run is not None
    found = [at_home(module, rule, each) for each in rule.run(module)]
    assert [each is not None for each in found] == [is_reported_at_the_call]
