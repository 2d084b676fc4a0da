"""The pages of the rules: one function makes them, for the terminal and for the file in the package."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.explain.messages import known
from amplint.guide import RULES
from amplint.guide.rule_pages import as_text
from amplint.registry import all_rules, redirects
from amplint.registry.rule import OURS
from tests.conftest import Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

OWN = [rule for code, rule in all_rules().items() if code.startswith(OURS)]


def test_it_has_what_the_command_prints() -> None:
    text = RULES.read_text("utf-8")
    bodies = re.split(r'^<a id="amp\d+"></a>(?:<a id="[\w-]+"></a>)+\n\n', text, flags=re.MULTILINE)[1:]
    assert len(bodies) == len(OWN)
    for rule, body in zip(OWN, bodies, strict=True):
        assert body.replace("#", "").strip() == as_text([rule]).replace("#", "").strip()


def test_every_link_of_the_table_has_its_anchor() -> None:
    text = RULES.read_text("utf-8")
    links = re.findall(r"\]\(#([\w-]+)\)", text)
    assert links == [rule.code.lower() for rule in OWN]
    assert set(links) <= set(re.findall(r'<a id="([\w-]+)">', text))
    assert text.count("\n## ") == len(OWN)
    assert text.count("\n# ") == sum(rule.doc.count("\n# ") for rule in OWN)


@pytest.mark.parametrize("message", [each for each in known() if each.says], ids=lambda each: each.id)
def test_a_message_stands_on_the_pages_of_its_rules(message: object) -> None:
    for code in message.codes:  # type: ignore[attr-defined]
        page = as_text([all_rules()[code]])
        assert "\n## Messages\n" in page
        assert page.index("\n## Messages\n") < page.index("\n## References\n")
        assert message.title.replace("`", "") in page  # type: ignore[attr-defined]


def test_a_rule_is_found_by_a_name_that_it_had_before(project: Write, amplint: Run) -> None:
    project({})
    for name, code in redirects().items():
        assert amplint("rule", name).out == amplint("rule", code).out
        assert f'<a id="{name}"></a>' in RULES.read_text("utf-8")
        assert name not in {rule.name for rule in all_rules().values()}


def test_rule_takes_names_and_several(project: Write, amplint: Run) -> None:
    project({})
    page = amplint("rule", "AMP401")
    assert page.code == 0
    assert page == amplint("rule", "clip-without-unscale") == amplint("rule", "amp401")
    assert page == amplint("rule", "Clip-Without-Unscale", "AMP401")
    assert amplint("rule", "AMP401", "repeated-unscale").out == page.out + "\n" + amplint("rule", "AMP405").out
    family = [code for code in all_rules() if code.startswith("AMP60")]
    assert amplint("rule", "AMP60").out.count("\n## What it does\n") == len(family) >= 3
    objects = json.loads(amplint("rule", "clip-without-unscale", "AMP405", "--output-format=json").out)
    assert [each["code"] for each in objects] == ["AMP401", "AMP405"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("clip-without-unscal", "unknown rule 'clip-without-unscal'; did you mean clip-without-unscale (AMP401)?"),
        ("AMP999", "unknown rule 'AMP999'; the families are AMP0 (internal), "),
        ("amp4o1", "unknown rule 'amp4o1'; the nearest is AMP401"),
    ],
)
def test_unknown_ones_are_told_the_nearest(project: Write, amplint: Run, given: str, said: str) -> None:
    project({})
    ran = amplint("rule", given)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"amplint: error: {said}")
