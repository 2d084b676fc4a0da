"""The documentation of rules, as `amplint rule` prints it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from amplint.base.about import DOCUMENTATION, SCHEMA_VERSION
from amplint.base.findings import Severity
from amplint.explain.messages import Message, leading_to, plain
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
# As what a user sees an observable of a rule in a step of their own.
SEEN_AS = {
    "exception": "an exception",
    "warning": "a warning",
    "gradient": "wrong gradients",
    "update": "wrong updates",
    "skips": "a step that is wrongly skipped or taken",
    "scale": "a scale that doesn't adapt",
    "learning": "a loss that doesn't change as it should",
    "autocast-state": "a backward or step that runs inside an autocast region",
    "dtype": "a loss of the wrong dtype",
}
# What stands above the messages that a misuse may lead to.
MAY_LEAD_TO = (
    "If a run prints one of these messages, this misuse is one possible cause. `amplint explain` weighs the causes."
)
# What words in the cells of the proofs mean, and which result is right.
_LEGEND = (
    (r" x the (?:true|right|norm)", "Factors compare with the same program in float32: `1.00 x` is right."),
    (
        r"clip saw [\d.,e+-]+ x the true norm",
        "`{0}`: the norm of the gradients at the clip, as a multiple of their norm in float32.",
    ),
    (
        r"gradients read were [\d.,e+-]+ x the true ones",
        "`{0}`: the size of the gradients where the program reads them.",
    ),
    (r"\bupdate (?=off by|[\d.,e+-]+ x|not finite)", "`update` is the change of the model's parameters by one step."),
    (
        r"\boff by",
        "`off by` is the difference from the same program in float32. Rounding to float16 or bfloat16 alone gives up "
        "to a few percent, which differs between programs: compare the two columns.",
    ),
    (r"\bgradients (?=off by|[\d.,e+-]+ x)", "`gradients` are those that the steps used."),
    (r"[\d.]+% off\b", "`{0}`: the difference of the gradients themselves from those in float32."),
    (
        r"a step used [\d.,e+-]+ x the norm that the clip after it allows",
        "`{0}`: the clip came after the step, which used gradients whose norm was that many times the clip's bound.",
    ),
    (
        r"\d+ of \d+ steps used gradients that a step had used",
        "`{0}`: each of these steps repeats a step with the same "
        "gradients. `update` compares single steps, so it doesn't show the repetition.",
    ),
    (r"\b(?:update|gradients|parameters) not finite", "`not finite` means: infinite or NaN."),
    (r"\b[1-9]\d* of \d+ steps with an overflow taken", "`{0}`: the scaler should have skipped these steps."),
    (
        r"scale backed off",
        "`scale backed off`: how often the scaler has halved the scale. Once for each overflow is right.",
    ),
    (r"scale backed off (?:once|\d+ times), not \d+ times", "`{0}`: the number after `not` is the right one."),
    (
        r"scale at the end",
        "`scale at the end` is the loss scale after the last step: the scale falls with each overflow, "
        "and grows while there is none.",
    ),
    (
        r"scale at the end: [\d.e+]+, [\d.e+]+",
        "If a program has several scalers, the scale of each is listed, and equal scales only once.",
    ),
    (r"scale at the end: (?:[\d.e+]+, )*off\b(?! by)", "`off` instead of a scale: the scaler is disabled."),
    (r"with a region open \((\w+) (\w+)\)", "`{0}`: inside an autocast region for {1}, with the dtype {2}."),
    (r"\bloss b?float\d+", "`loss` with a dtype is the dtype of the loss from which backward starts."),
    (r"\bregions: ", "`regions` are the autocast regions that the program enters, each with its device and dtype."),
    (r"regions: [^|]*\boff\b(?! by)", "A region with `off` instead of a dtype is disabled."),
    (
        r"loss changed by",
        "`loss changed by` compares the loss of the last step with the loss of the first. The reference "
        "is the same program in float32.",
    ),
)
# The words by which a fixture is marked that is not run; they are for authors of rules.
_MARK = re.compile(r"\s\(`?shows=none`?\)")
_LONGEST, _SHORTEST = 160, 40  # of what a program said, in a cell
_WORDINGS = 4  # of one message that are shown
_NAMES = frozenset({"Adam's", "Lightning", "None"})  # with a capital letter in a sentence, too
_NUMBERS = re.compile(r"\d[\d.,e+-]*")
_EXCEPTION = re.compile(r"\w+(?:Error|Exception)(?=:)")
# Where a page says that a finding has another severity than the rule's; not where that is only for likely ones.
_OTHERWISE = r"(?:\bis\s|, and\s|[(;]|^-)\s*(?:also\s+)?an?\s+{}\b(?!, and only [*`]?likely)"
_GLOSSARY = (
    "Terms such as *region*, *likely*, *suspicion* and *micro step* are defined by `amplint rule --glossary` and at "
    f"{DOCUMENTATION}glossary/"
)


@cache
def proofs() -> dict[str, list[dict[str, Any]]]:
    """What the fixtures of each rule showed."""
    found: dict[str, list[dict[str, Any]]] = json.loads(PROOFS.read_text("utf-8"))["proofs"]
    return found


def proof_cells(proof: dict[str, Any]) -> tuple[str, str, str]:
    """The cells of a Markdown table: the device, and what the wrong and the corrected program showed."""
    where = f"{proof['device']}{'*' if proof['simulated'] else ''}" if proof["device"] else "cpu"
    before, after = (shortened(proof[each]).replace("|", "\\|") for each in ("before", "after"))
    return where, before, after


def _alike(shown: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Those whose wrong programs showed the same, but for numbers, or the same exception; the largest group first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in shown:
        exception = _EXCEPTION.match(each["before"])
        found.setdefault(exception[0] if exception else _NUMBERS.sub("#", each["before"]), []).append(each)
    return sorted(map(_most_frequent_first, found.values()), key=len, reverse=True)


def _most_frequent_first(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A group, whose first one stands for all of it in the table."""
    counts = Counter(each["before"] for each in group)
    return sorted(group, key=lambda each: -counts[each["before"]])


def shortened(said: str) -> str:
    """What a program said, in one line; a long text ends after a sentence, or after a word."""
    said = " ".join(said.split())
    if len(said) <= _LONGEST:
        return said
    start = said[:_LONGEST]
    end = start.rfind(". ") + 1
    return f"{start[:end] if end > _SHORTEST else start.rpartition(' ')[0]} ..."


def legend(shown: Sequence[dict[str, Any]]) -> str:
    """What the words in the cells of these proofs mean, and which result is right; empty if they explain themselves."""
    cells = " | ".join(each[half] for each in shown for half in ("before", "after"))
    found = ((re.search(words, cells), meaning) for words, meaning in _LEGEND)
    return " ".join(meaning.format(hit[0].strip(), *hit.groups()) for hit, meaning in found if hit)


def text_of(rule: Rule) -> str:
    """The rule's documentation as people read it."""
    return _MARK.sub("", rule.doc.strip())


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
    others = [
        each.value
        for each in Severity
        if each is not rule.severity and re.search(_OTHERWISE.format(each.value), rule.doc, re.MULTILINE)
    ]
    finds_errors = rule.severity is Severity.ERROR and rule.stage is not Stage.REMOVED
    likely = "; a *likely* finding is a warning" if finds_errors else ""
    other = f", in some cases {' or '.join(others)} (see below)" if others else ""
    said = [f"Severity: {rule.severity.value}{other}{likely}.", _state(rule)]
    if rule.fixes is not None and rule.stage is not Stage.REMOVED:
        said.append(f"Fixes: {fix_words(rule) or 'none'}.")
    if rule.formerly:
        said.append(f"Formerly {', '.join(rule.formerly)}.")
    if rule.plugin:
        said.append(f"Of the plugin {rule.plugin}.")
    return f"# {rule.name} ({rule.code})\n\n{' '.join(said)}\n\n{_GLOSSARY}\n\n{_explanation(rule)}"


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
    before, heading, after = text_of(rule).partition("\n## References\n")
    heading = f"{_messages(rule)}{heading}"
    run = f"\n{said}\n" if (said := in_a_run(rule)) else ""
    return f"{before}{run}{_proof_table(rule)}{heading}{after}\n"


def _messages(rule: Rule) -> str:
    """The messages that it can cause, as `amplint explain` knows them."""
    said = messages(rule)
    if not said:
        return ""
    return "\n".join(["", "## Messages", MAY_LEAD_TO, "", *said, ""])


def messages(rule: Rule) -> list[str]:
    """The items of a list of the messages to which the rule's misuse leads, each with how it does."""
    said = [(each, _why(each, rule.code)) for each in leading_to(rule.code) if each.says]
    return [f"- {_wordings(each, why[1:])}{_because(_uncapitalized(why[0]))}" for each, why in said if why]


def _because(why: str) -> str:
    """How a cause follows the messages that it leads to; a condition of the message comes before the colon."""
    named = re.fullmatch(r"(if the message names [^:]+): (.+)", why)
    return f", {named[1]}: {named[2]}" if named is not None else f": {why}"


def _why(message: Message, code: str) -> tuple[str, ...]:
    """How what a rule finds leads to a message, and what is in the wordings that it leads to; empty if it doesn't."""
    causes = (each for each in message.causes if code in each.rules)
    return next((why for each in causes if (why := dict(each.on_page).get(code, (each.why,))) != ("",)), ())


def _uncapitalized(text: str) -> str:
    first = text.split(maxsplit=1)[0]
    return f"{text[0].lower()}{text[1:]}" if first[1:] == first[1:].lower() and first not in _NAMES else text


def _wordings(message: Message, chosen: tuple[str, ...]) -> str:
    says = [each for each in message.says if not chosen or any(word in each.text for word in chosen)]
    texts = list(dict.fromkeys(_as_code(plain(each.text)) for each in says))
    texts = [each for each in texts if not each.startswith("`..._...")] or texts  # a name that says nothing
    if texts[_WORDINGS:]:
        texts = [*texts[: _WORDINGS - 1], "other texts like these"]
    return " or ".join([", ".join(texts[:-1]), texts[-1]]) if texts[1:] else texts[0]


def _as_code(text: str) -> str:
    """A text as Markdown's code, with the backticks that it has."""
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def in_a_run(rule: Rule, verify: str = "`amplint verify`") -> str:
    """Whether `amplint verify`, or a link to it, can show it in a step of the user's own; empty if it isn't said."""
    shows = rule.shows
    if shows is None:  # a plugin's need not say
        return ""
    if shows.how == "no":
        return f"{verify} can't show this problem in your own training step, because {shows.why}."
    seen = [f"as {SEEN_AS[each]}" for each in shows.observables]
    also = ", even for a device that your machine doesn't have" if shows.how == "simulated" else ""
    listed = f"{', '.join(seen[:-1])}{',' if seen[2:] else ''} or {seen[-1]}" if seen[1:] else seen[0]
    return f"{verify} can show this problem in your own training step{also}: {listed}."


def _proof_table(rule: Rule) -> str:
    shown = proofs().get(rule.code, [])
    if not shown:
        return ""
    groups = _alike(shown)
    rows = [(each[0], len(each)) for each in groups]
    with_device = any(each["device"] for each, _ in rows)
    lines = []
    for each, count in rows:
        where, before, after = proof_cells(each)
        lines.append(f"| {' | '.join((str(count), *([where] if with_device else []), before, after))} |")
    foot = "\n\\* this device is simulated on the CPU\n" if any(each["simulated"] for each, _ in rows) else ""
    meaning = f"\n{said}\n" if (said := legend([each for each, _ in rows])) else ""
    head = [
        "",
        "Each test program for this rule was run twice with torch: once with the misuse, and once corrected (by the "
        "fix, or by hand where there is none). Programs whose results differ only in their numbers share a row, which "
        "shows the most frequent numbers.",
        "",
    ]
    columns = ["programs", *(["device"] if with_device else []), "wrong program", "corrected program"]
    table = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *lines, ""]
    return "\n".join([*head, *table]) + foot + meaning


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
