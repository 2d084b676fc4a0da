"""The pages of the rules: one function makes them, for the terminal and for the file in the package."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from amplint.base.about import DOCUMENTATION
from amplint.base.findings import Confidence
from amplint.explain.messages import Message, known
from amplint.guide import RULES
from amplint.guide.rule_pages import as_text, proofs, shortened, text_of
from amplint.registry import all_rules, redirects
from amplint.registry.rule import OURS, Rule
from tests.conftest import Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

OWN = [rule for code, rule in all_rules().items() if code.startswith(OURS)]
# What makes a reader of a page ask who, or before what: a sentence without a subject, a bare adverb, a word of ours.
_STOPS = re.compile(
    r"\bSilent\b|(?:^|[.:] )(?:No fix|Displayed)\b|\bhalf types?\b|\bfixtures?\b"
    r"|(?<!right )\b(?:raises?|train|run|large|small|wrong|float32|enabled) (?:before|after)[,.;]",
    re.MULTILINE,
)
# The start of each condition in a sentence, of which a reader keeps three in mind.
_CONDITION = re.compile(r"(?:\bif|\bunless|(?:and|nothing) about|(?:nothing|and) (?:under|with|after|in))\b")
_MOST = 3


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
def test_a_message_stands_on_the_pages_of_the_rules_whose_misuse_leads_to_it(message: Message) -> None:
    for code in message.codes:
        page = as_text([all_rules()[code]])
        whys = [dict(each.on_page).get(code, (each.why,)) for each in message.causes if code in each.rules]
        whys = [each for each in whys if each != ("",)]
        item = next((f"{line} " for line in page.splitlines() if whys and line.endswith(whys[0][0][1:])), "")
        assert bool(item) == bool(whys)
        if whys:
            assert page.index("\n## Messages\n") < page.index(item.strip()) < page.index("\n## References\n")


def test_what_is_on_a_page_is_of_a_rule_of_its_cause() -> None:
    for message in known():
        for cause in message.causes:
            assert {code for code, _ in cause.on_page} <= set(cause.rules), message.id
            for code, (_, *words) in cause.on_page:
                assert all(any(word in each.text for each in message.says) for word in words), (message.id, code)


def test_a_page_shows_the_wordings_that_its_misuse_leads_to() -> None:
    page = as_text([all_rules()["AMP105"]])
    assert "- `module 'apex.amp' has no attribute 'GradScaler'` or " in page
    assert "torch.cuda.amp' has no attribute" not in page


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


def _sentences(rule: Rule) -> list[str]:
    """Those in the paragraphs of a page, without the code in them; the items of lists are not in paragraphs."""
    text = re.sub(r"```.*?```", "", text_of(rule), flags=re.DOTALL)
    text = re.sub(r"`[^`]+`|\([^()]*\)|\"[^\"]*\"", "_", text)
    paragraphs = [each for each in text.split("\n\n") if not each.lstrip().startswith(("-", "|"))]
    return [each for paragraph in paragraphs for each in re.split(r"(?<=[.:]) ", " ".join(paragraph.split()))]


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.code)
def test_a_page_says_who_and_before_what(rule: Rule) -> None:
    assert [each for each in _sentences(rule) if _STOPS.search(each)] == []


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.code)
def test_many_conditions_are_a_list(rule: Rule) -> None:
    said = [each for each in _sentences(rule) if "nothing" in each or "no fix" in each]
    assert [each for each in said if len(_CONDITION.findall(each)) > _MOST] == []


def test_a_page_names_its_glossary_and_what_right_results_are() -> None:
    page = as_text([all_rules()["AMP214"]])
    assert f"{DOCUMENTATION}glossary/" in page
    assert "`amplint rule --glossary`" in page
    assert "`off by` is the difference from the same program in float32" in page
    assert "`scale at the end` is the loss scale after the last step" in page
    assert "`off by`" not in as_text([all_rules()["AMP105"]])  # nothing is executed


def test_what_a_program_said_is_not_cut_in_a_word() -> None:
    known = [proof[half] for of in proofs().values() for proof in of for half in ("before", "after")]
    cut = [(shortened(each), " ".join(each.split())) for each in known if shortened(each).endswith(" ...")]
    assert len(cut) >= 10
    for short, whole in cut:
        assert whole.startswith(f"{short[:-4]} ")
        assert len(short) < len(whole)
    assert shortened("a\nb") == "a b"


_GIVEN = re.compile(r"\bSeverity\.([A-Z]+)\b")
_BY_ACCUMULATION = "apart.severity"  # a warning, where a setting other than the default is needed


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.code)
def test_a_page_says_when_a_finding_has_another_severity(rule: Rule) -> None:
    text = Path(str(import_module(rule.module_name).__file__)).read_text("utf-8")
    code = text.partition("@rule.check")[2]
    given = {each.lower() for each in _GIVEN.findall(code)}
    given |= {"warning"} if _BY_ACCUMULATION in code else set()
    for each in given - {rule.severity.value}:
        said = rf"(?:\bis\s|, and\s|[(;]|^-)\s*(?:also\s+)?an?\s+{each}\b"
        assert re.search(said, rule.doc, re.MULTILINE), each
        line = next(each for each in as_text([rule]).splitlines() if each.startswith("Severity: "))
        assert each in line.partition(". ")[0], line  # of an error the likely ones are warnings


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.code)
def test_a_page_says_that_a_likely_finding_is_a_warning(rule: Rule) -> None:
    found = rule.finding((0, 0), "message", confidence=Confidence.LIKELY)
    said = "; a *likely* finding is a warning. " in as_text([rule])
    assert said is (rule.severity is not found.severity)


def test_the_glossary_is_printed_with_links_to_the_site(amplint: Run) -> None:
    ran = amplint("rule", "--glossary")
    assert (ran.code, ran.err) == (0, "")
    assert "| skipped step |" in ran.out
    assert f"]({DOCUMENTATION}fixes/#safe-and-unsafe)" in ran.out
    assert ".md" not in ran.out
    assert amplint("rule", "--glossary", "AMP401").code == 2
