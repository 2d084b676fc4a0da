"""Flow analysis names what happens on a path; which rule reports it is said in one place."""

from __future__ import annotations

import re
from pathlib import Path

import amplint.model
from amplint.model.flow.violations import ViolationKind
from amplint.rules.shared.violation_codes import VIOLATIONS, code_of, same_rules

MODEL = Path(amplint.model.__file__).parent


def test_one_rule_reports_each_kind() -> None:
    every = [kind for kinds in VIOLATIONS.values() for kind in kinds]
    assert sorted(every, key=lambda kind: kind.value) == list(ViolationKind)
    assert all(code_of(kind) == code and same_rules(kind) == VIOLATIONS[code] for code in VIOLATIONS
               for kind in VIOLATIONS[code])  # fmt: skip


def test_the_model_knows_no_codes() -> None:
    cited = re.compile(r'docs/amp-facts\.md, "[^"]*"')  # a heading of that page may name rules
    texts = {path.name: cited.sub("", path.read_text("utf-8")) for path in MODEL.rglob("*.py")}
    assert not [name for name, text in texts.items() if re.search(r"AMP\d", text)]
