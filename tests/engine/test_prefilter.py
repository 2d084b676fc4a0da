from __future__ import annotations

import pytest

from amplint.engine.prefilter import matters, opens, roots, touched
from amplint.registry import all_rules

ALL = frozenset(all_rules())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", False),
        (b"import torch\nx = (\n", False),
        ("print('ünï')\n".encode(), False),
        (b"\xef\xbb\xbfx = 1\n", False),
        # The word is far from where an encoding is declared.
        ("x = 1\n\n# coding: ünï\n".encode(), False),
        (b"with torch.autocast('cuda'): pass\n", True),
        (b"x = 1  # noqa: AMP101\n", True),
        (b"x = 1  # NoQA: amp101\n", True),
        (b"x = 1  # noqa: E501\ny = amp\n", False),
        (b"x = 1  # amplint: ignore[AMP101]\n", True),
        # What may be no text has to be looked at.
        (b"x = '\xe9'\n", True),
        (b"x = 1\0\n", True),
        (b"# coding: latin-1\nx = '\xe9'\n", True),
        ("#!/usr/bin/python\n# -*- coding: utf-8 -*-\nx = 'é'\n".encode(), True),
        (b"# coding: latin-1\rx = '\xe9'\r", True),
    ],
)
def test_what_opens_the_gate(data: bytes, expected: bool) -> None:
    assert opens(data, ALL) is expected


def test_only_selected_rules_open_it() -> None:
    data = b"torch.cuda.amp.GradScaler()\n"
    assert matters(data, frozenset({"AMP102"}))
    assert not matters(data, frozenset({"AMP101", "AMP103"}))
    assert matters(data, frozenset({"AMP401"}))  # whose words may stand in what the file imports
    assert not matters(b"x = 1  # noqa: AMP101\n", ALL - {"AMP002"})


def test_what_is_touched() -> None:
    codes = [rule.code for rule in touched(b"from torch.cuda.amp import autocast", frozenset(all_rules()))]
    assert codes == sorted(codes)
    assert "AMP101" in codes
    assert "AMP102" not in codes
    assert "AMP301" not in codes
    assert "AMP301" in [rule.code for rule in touched(b"autocast, backward", frozenset(all_rules()))]


def test_no_word_is_missed_that_a_rule_looks_for() -> None:
    sought = [each.encode() for each in roots(frozenset(all_rules()))]
    without = {
        (rule.code, words)
        for rule in all_rules().values()
        for words in rule.triggers
        if not any(root in word for root in sought for word in words)
    }
    assert not without
