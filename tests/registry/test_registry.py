"""The registry knows a rule's header from the text of its module, and imports the module for the rest."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from amplint.registry import all_rules
from amplint.registry.rule import Rule
from tests.new_rule import PROMPT

HEADERS = """\
\"\"\"Doc, with triggers=("no",) and default=False.\"\"\"

rule = Rule({header}){end}

OTHER = dict(triggers=("not this",), default=False)
"""


@pytest.mark.parametrize("code", all_rules())
def test_the_header_in_the_text_is_the_modules_own(code: str) -> None:
    known = all_rules()[code]
    own = import_module(known.module_name).rule
    for field in ("module_name", "code", "name", "default", "triggers"):
        assert getattr(known, field) == getattr(own, field), field


@pytest.mark.parametrize("code", all_rules())
def test_no_prompt_is_left(code: str) -> None:
    """What `tests.new_rule` has asked for is written."""
    path = import_module(all_rules()[code].module_name).__file__
    assert path is not None
    assert PROMPT not in Path(path).read_text("utf-8")


@pytest.mark.parametrize(
    ("header", "triggers", "default"),
    [
        ("__name__, __doc__, severity=Severity.NOTE", (), True),
        (
            '__name__, __doc__, severity=Severity.NOTE, triggers=("a & b", "c"), trial=False',
            ((b"a", b"b"), (b"c",)),
            True,
        ),
        (
            '\n    __name__,\n    triggers=(\n        "a",\n        "b",\n    ),\n    default=False,\n',
            ((b"a",), (b"b",)),
            False,
        ),
    ],
)
@pytest.mark.parametrize("end", ["", "  # fmt: skip"])
def test_headers(header: str, triggers: tuple[tuple[bytes, ...], ...], default: bool, end: str) -> None:
    rule = Rule.from_text("amplint.registry.amp999_some_rule", HEADERS.format(header=header, end=end))
    assert (rule.code, rule.name) == ("AMP999", "some-rule")
    assert rule.triggers == triggers
    assert rule.default is default


def test_rules_are_in_the_order_of_their_codes() -> None:
    assert list(all_rules()) == sorted(all_rules())
    assert {"AMP000", "AMP101", "AMP401"} <= all_rules().keys()


def test_a_rule_is_imported_for_what_its_header_does_not_say() -> None:
    code = (
        "import sys; from amplint.registry import all_rules\n"
        "def loaded(): return [name for name in sys.modules if '.amp1' in name]\n"
        "rule = all_rules()['AMP101']; print(rule.name, loaded())\n"
        "print(rule.severity.value, loaded())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "deprecated-autocast []",
        "warning ['amplint.rules.deprecated.amp101_deprecated_autocast']",
    ]


def test_what_no_rule_has_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="sevrity"):
        _ = all_rules()["AMP101"].sevrity
