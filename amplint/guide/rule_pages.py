"""The documentation of rules, as `amplint rule` prints it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from amplint.base.about import SCHEMA_VERSION
from amplint.explain.messages import leading_to, plain
from amplint.registry.rule import Rule, Stage

# What the rules of a family are about, by the first digit of their codes.
FAMILIES = {
    "0": "amplint itself",
    "1": "Deprecated names",
    "2": "Arguments, devices and dtypes",
    "3": "Autocast regions",
    "4": "GradScaler",
    "5": "Half-precision arithmetic",
    "6": "accelerate, Lightning, transformers",
}
# What `amplint verify` found of the rules' fixtures: by rule, a list of objects (`python -m tests.generate` writes it).
PROOFS = Path(__file__).parents[1] / "rules" / "proofs.json"


@cache
def proofs() -> dict[str, list[dict[str, Any]]]:
    """What the fixtures of each rule showed."""
    found: dict[str, list[dict[str, Any]]] = json.loads(PROOFS.read_text("utf-8"))["proofs"]
    return found


def proof_cells(proof: dict[str, Any]) -> tuple[str, str, str]:
    """The cells of a Markdown table: the fixture, what was shown before the fix, and after."""
    name = proof["variant"].replace("_", " ")
    where = f" ({proof['device']}{'*' if proof['simulated'] else ''})" if proof["device"] else ""
    before, after = (proof[each].replace("|", "\\|") for each in ("before", "after"))
    return f"{name}{where}", before, after


def family(rule: Rule) -> str:
    """What a rule's family is about; for a rule of a plugin, its distribution."""
    return rule.plugin or FAMILIES[rule.code[3]]


def as_document(rules: Sequence[Rule]) -> str:
    """The rules' pages as one Markdown file, after their tables; `#amp401`, a rule's name and `#amp4` lead into it."""
    lines = ["# The rules of amplint", ""]
    for digit, words in FAMILIES.items():
        lines += [f'<a id="amp{digit}"></a>', "", f"### {words} (AMP{digit})", ""]
        lines += ["| code | name | severity | what is wrong |", "|---|---|---|---|"]
        lines += [
            f"| [{each.code}](#{each.code.lower()}) | {each.name} "
            f"| {each.severity.value}{'' if each.default else ', off'} | {each.summary} |"
            for each in rules
            if each.code[3] == digit
        ]
        lines.append("")
    return "\n".join([*lines, *(_below(each) for each in rules)])


def _below(rule: Rule) -> str:
    """A rule's page under a heading of the file's, which its own are below."""
    former = (each.lower() for each in rule.formerly)
    anchors = "".join(f'<a id="{name}"></a>' for name in (rule.code.lower(), rule.name, *former))
    lines = _page(rule).splitlines()
    in_code = False
    for at, line in enumerate(lines):
        in_code ^= line.startswith("```")
        if line.startswith("#") and not in_code:
            lines[at] = f"#{line}"
    return "\n".join([anchors, "", *lines, ""])


def as_text(rules: Sequence[Rule]) -> str:
    """The rules' pages in Markdown, one after the other."""
    return "\n".join(_page(rule) for rule in rules)


def _page(rule: Rule) -> str:
    said = [f"Severity: {rule.severity.value}.", _state(rule)]
    if rule.fixes is not None and rule.stage is not Stage.REMOVED:
        said.append(f"Fixes: {fix_words(rule) or 'none'}.")
    if rule.formerly:
        said.append(f"Formerly {', '.join(rule.formerly)}.")
    if rule.plugin:
        said.append(f"Of the plugin {rule.plugin}.")
    return f"# {rule.name} ({rule.code})\n\n{' '.join(said)}\n\n{_explanation(rule)}"


def fix_words(rule: Rule) -> str:
    """The kinds of fixes that a rule offers: `safe, unsafe`; empty where it offers none, or doesn't say."""
    return ", ".join(each.value for each in rule.fixes or ())


def _state(rule: Rule) -> str:
    """Whether a rule runs."""
    on = f'`extend-select = ["{rule.code}"]` turns it on.'
    if rule.stage is Stage.REMOVED:
        return "It was removed, and never runs."
    if rule.stage is Stage.PREVIEW:
        return f"In preview: it needs `preview = true`{'' if rule.default_in_preview else f'; {on[:-1]} then'}."
    state = "On by default." if rule.default else f"Off by default; {on}"
    return f"{state} Deprecated: it will be removed." if rule.stage is Stage.DEPRECATED else state


def _explanation(rule: Rule) -> str:
    """The documentation, with the fixtures' results after the words that say what was measured."""
    before, heading, after = rule.doc.strip().partition("\n## References\n")
    heading = f"{_messages(rule)}{heading}"
    return f"{before}{_in_a_run(rule)}{_proof_table(rule)}{heading}{after}\n"


def _messages(rule: Rule) -> str:
    """The messages that it can cause, as `amplint explain` knows them."""
    said = [_shown([text.text for text in each.says]) for each in leading_to(rule.code) if each.says]
    if not said:
        return ""
    return "\n".join(["", "## Messages", "`amplint explain` leads here from", *(f"- {each}" for each in said), ""])


def _shown(wordings: Sequence[str]) -> str:
    first = plain(wordings[0]).replace("`", "")
    return f"`{first}`{f' and {len(wordings) - 1} more like it' if wordings[1:] else ''}"


def _in_a_run(rule: Rule) -> str:
    """Whether `amplint verify` can show it in a step of the user's own."""
    shows = rule.shows
    if shows is None:  # a plugin's need not say
        return ""
    seen = ", ".join(shows.observables)
    said = {
        "yes": f"`amplint verify` can show it in a run of your training step, by: {seen}.",
        "simulated": f"`amplint verify` can show it in a run of your training step, also on a simulated device, by: "
        f"{seen}.",
        "no": f"`amplint verify` can't show it in a run of your training step: {shows.why}.",
    }
    return f"\n{said[shows.how]}\n"


def _proof_table(rule: Rule) -> str:
    shown = proofs().get(rule.code, [])
    if not shown:
        return ""
    lines = [f"| {' | '.join(proof_cells(each))} |" for each in shown]
    foot = "\n\\* simulated on the CPU\n" if any(each["simulated"] for each in shown) else ""
    return "\n".join(["", "| fixture | before the fix | after |", "|---|---|---|", *lines, ""]) + foot


def as_json(rules: Sequence[Rule], *, as_list: bool) -> str:
    """The rules as JSON: one object, or a list of them."""
    pages = [
        {
            "schema_version": SCHEMA_VERSION,
            "name": rule.name,
            "code": rule.code,
            "severity": rule.severity.value,
            "default": rule.default,
            "stage": rule.stage.value,
            "fixes": None if rule.fixes is None else [each.value for each in rule.fixes],
            "formerly": list(rule.formerly),
            "summary": rule.summary,
            "explanation": _explanation(rule),
            "proofs": proofs().get(rule.code, []),
            "run": rule.shows._asdict() if rule.shows else None,
            "plugin": rule.plugin or None,
        }
        for rule in rules
    ]
    return json.dumps(pages if as_list else pages[0], indent=2) + "\n"
