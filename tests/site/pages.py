"""Pages of the site that are made of other files: one for each rule, their list, and files from outside of docs/."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import NamedTuple

from amplint.guide import GLOSSARY, GUIDE
from amplint.guide.rule_pages import FAMILIES, MAY_LEAD_TO, in_a_run, legend, messages, proofs, shortened, text_of
from amplint.registry import all_rules
from amplint.registry.rule import OURS, Rule
from amplint.report.repository_paths import HOME
from tests import ROOT
from tests.proofs import telling

SNAPSHOTS = ROOT / "tests" / "__snapshots__" / "test_fixtures"
PICTURE = "assets/terminal.svg"
_FINDING = re.compile(r"^ *\d+:\d+-\d+:\d+ (\w+) \S+ (error|warning|note)(?: (likely|suspicion))?$")
_FIX = re.compile(r"^ *(safe|unsafe|no) fix\b")
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"```python\n(.*?)```\n?", re.DOTALL)
# A fence, an inline code, a link, a comment, an anchor, a heading; or the code of a rule.
_RULE = re.compile(
    r"^```.*?^```|`[^`\n]+`|\[[^\]]*\]\([^)]*\)|<[^>]+>|^#.*?$|^---\n.*?^---$|\bAMP\d{3}\b", re.DOTALL | re.MULTILINE
)
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(?:#([\w-]+))?\)")
# Where files that are not in docs/ are on the site.
_MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    ".github/terminal.svg": PICTURE,
    "amplint/guide/nan.md": "nan.md",
    "amplint/guide/rules.md": "rules/index.md",
    "amplint/guide/glossary.md": "glossary.md",
}


class Facts(NamedTuple):
    """What the rule's fixtures say of it: how sure its findings are, and which fixes they have."""

    confidences: tuple[str, ...]
    fixes: tuple[str, ...]

    def fix(self) -> str:
        """The fixes in a word or two, the most frequent first."""
        return " or ".join(each for each in self.fixes if each != "no") or "none"

    def fixes_in_words(self) -> str:
        """The same, with whether there always is one."""
        return self.fix() + ("; not in all cases" if "no" in self.fixes and len(self.fixes) > 1 else "")

    def confidence(self) -> str:
        """How sure findings are, the most frequent first."""
        return " or ".join(self.confidences)


# Rules about amplint and comments, which have no fixtures.
_WITHOUT_FIXTURES = {
    "AMP000": Facts(("certain",), ("no",)),
    "AMP001": Facts(("certain",), ("no",)),
    "AMP002": Facts(("certain",), ("safe",)),
}


@cache
def facts(code: str) -> Facts:
    """What is said of the bad halves of a rule's fixtures."""
    snapshot = SNAPSHOTS / f"{code}.ambr"
    if not snapshot.exists():  # it has no fixtures, or nobody has accepted what is said of them
        return _WITHOUT_FIXTURES.get(code, Facts(("certain",), ("no",)))
    confidences: Counter[str] = Counter()
    fixes: Counter[str] = Counter()
    found = False
    for line in snapshot.read_text("utf-8").splitlines():
        if place := _FINDING.match(line):
            fixes["no"] += found  # until one is said
            found = place[1] == code
            if found:
                confidences[place[3] or "certain"] += 1
        elif found and (kind := _FIX.match(line)):
            fixes[kind[1]] += 1
            found = False
    fixes["no"] += found
    return Facts(*(tuple(each for each, count in of.most_common() if count) for of in (confidences, fixes)))


@cache
def since() -> Mapping[str, str]:
    """The release that brought each rule, from the lists of rules in CHANGELOG.md; the oldest is the last there."""
    found: dict[str, str] = {}
    for part in (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1:]:
        release = part.split()[0]
        for listed in re.findall(r"^- Rules: (.*?)(?=^- |\Z)", part, re.DOTALL | re.MULTILINE):
            for first, last in re.findall(r"AMP(\d+)(?:\s+to\s+AMP(\d+))?", listed):
                numbers = range(int(first), int(last or first) + 1)
                found |= {f"{OURS}{number:03}": release for number in numbers}
    return found


def rules() -> list[Rule]:
    """The rules of this package."""
    return [rule for code, rule in all_rules().items() if code.startswith(OURS)]


def pages() -> Mapping[str, str]:
    """All pages that are made, by their place in docs/."""
    return {
        "index.md": _page(ROOT / "README.md"),
        "nan.md": f"---\nsearch:\n  boost: 2\n---\n\n{_page(GUIDE)}",
        "glossary.md": _page(GLOSSARY),
        "contributing.md": _page(ROOT / "CONTRIBUTING.md"),
        "changelog.md": _page(ROOT / "CHANGELOG.md"),
        "rules/index.md": rules_index(),
        **{f"rules/{rule.code}.md": rule_page(rule) for rule in rules()},
    }


def rules_index() -> str:
    """The list of rules, family by family."""
    lines = [
        "# Rules",
        "",
        "`amplint rule AMP401` and `amplint rule clip-without-unscale` print a rule's page in the terminal. A fix is "
        "[safe or unsafe](../fixes.md). A rule that is off by default is turned on with `extend-select`.",
        "",
    ]
    for digit, words in FAMILIES.items():
        lines += [f"## {words} (AMP{digit}) {{ #amp{digit} }}", ""]
        lines += ["| rule | what is wrong | severity | fix |", "|---|---|---|---|"]
        for rule in rules():
            if rule.code[3] == digit:
                off = "" if rule.default else ", off by default"
                name = f"[{rule.code}]({rule.code}.md) {rule.name}"
                lines.append(f"| {name} | {rule.summary} | {rule.severity.value}{off} | {facts(rule.code).fix()} |")
        lines.append("")
    return "\n".join(lines)


def rule_page(rule: Rule) -> str:
    """A rule's page: what it is, an example as a diff, why, and what its fixtures showed in two lines."""
    parts = _parts(text_of(rule))
    default = "on" if rule.default else f'off; `extend-select = ["{rule.code}"]` turns it on'
    sure = facts(rule.code)
    rows = [
        ("Code", f"{rule.code}, `{rule.name}`"),
        ("Family", f"[{FAMILIES[rule.code[3]]}](index.md#amp{rule.code[3]})"),
        ("Severity", rule.severity.value),
        ("Confidence", f"[{sure.confidence()}](../linting.md#how-sure-a-finding-is)"),
        ("Fix", f"[{sure.fixes_in_words()}](../fixes.md#safe-and-unsafe)"),
        ("Default", default),
        ("Since", since().get(rule.code, "the next release")),
        ("Verify", in_a_run(rule, "[`amplint verify`](../verify.md)")),
        ("Terms", "[glossary](../glossary.md): *region*, *likely*, *micro step* and others"),
    ]
    sections = [
        ("Example", _example(parts)),
        ("Why is this bad?", parts["Why is this bad?"]),
        ("What it finds", parts["What it does"]),
        ("Fix safety", parts["Fix safety"]),
        ("Proof", _proof(rule, parts["Proof"])),
        ("Messages", _messages(rule)),
        ("References", parts["References"]),
    ]
    head = ["---", f'title: "{rule.code} {rule.name}"', f"description: {_quoted(rule.summary)}", "---", ""]
    body = [f"# {rule.name} ({rule.code})", "", rule.summary, "", "| | |", "|---|---|"]
    body += [f"| **{name}** | {value} |" for name, value in rows]
    for name, text in sections:
        if text:
            body += ["", f"## {name}", "", text.strip()]
    return "\n".join([*head, *body, ""])


def _parts(doc: str) -> dict[str, str]:
    _, *found = _HEADING.split(doc.strip())
    return {name: text.strip() for name, text in zip(found[::2], found[1::2], strict=True)}


def _example(parts: Mapping[str, str]) -> str:
    """What is wrong and what is right, as a diff where both are programs."""
    wrong, right = parts["Example"], parts["Use instead"]
    before, after = _PYTHON.findall(wrong), _PYTHON.findall(right)
    if len(before) != 1 or len(after) != 1:
        return f"{wrong}\n\nUse instead:\n\n{right}"
    shown = f"```diff\n{diff(before[0].splitlines(), after[0].splitlines())}```\n"
    words = _PYTHON.sub("\n", right).strip()
    return f"{_PYTHON.sub(lambda _: shown, wrong)}\n\n{words}"


def diff(before: Sequence[str], after: Sequence[str]) -> str:
    """All lines of two programs, with what goes and what comes."""
    lines = []
    for step, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if step == "equal":
            lines += [f" {line}".rstrip() for line in before[a:b]]
        else:
            lines += [f"-{line}" for line in before[a:b]] + [f"+{line}" for line in after[c:d]]
    return "".join(f"{line}\n" for line in lines)


def _proof(rule: Rule, words: str) -> str:
    shown = proofs().get(rule.code, [])
    if not shown:
        return words
    best = telling(shown)
    where = f", {best['device']}{' simulated on the CPU' if best['simulated'] else ''}" if best["device"] else ""
    folder = f"fixtures/{rule.code}_{rule.name.replace('-', '_')}"
    name = best["variant"]
    count = f"{len(shown)} test programs" if shown[1:] else "one test program"
    meaning = [said, ""] if (said := legend([best])) else []
    detail = "\n".join(f"    {line}".rstrip() for line in words.splitlines())
    return "\n".join(
        [
            f"- Wrong program ([source]({HOME}/tree/main/{folder}/{name}){where}): {_inline(best['before'])}",
            f"- Corrected program: {_inline(best['after'])}",
            "",
            *meaning,
            f"This rule has {count} (fixtures), run with torch: see [evidence](../evidence.md#fixtures).",
            "",
            '??? note "What the test programs show"',
            "",
            detail,
        ]
    )


def _inline(text: str) -> str:
    """Words that a program printed, as code."""
    return f"`{shortened(text).replace('`', '')}`"


def _messages(rule: Rule) -> str:
    said = messages(rule)
    if not said:
        return ""
    return "\n".join([MAY_LEAD_TO.replace("`amplint explain`", "[`amplint explain`](../explain.md)"), "", *said])


def _page(path: Path) -> str:
    """The page that a file of the repository, which is not in docs/, is on the site."""
    return moved(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())


def moved(text: str, source: str) -> str:
    """A page with the links that hold in the repository, where it is `source`, as they are on the site."""

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
        place, anchor = _place(target, found[2] or "")
        if "://" not in place:
            place = posixpath.relpath(place, posixpath.dirname(_place(source, "")[0]) or ".")
        return f"]({place}{'#' * bool(anchor)}{anchor})"

    return _LINK.sub(link, text)


def _place(target: str, anchor: str) -> tuple[str, str]:
    """Where a file of the repository, or an anchor in it, is on the site; of what isn't there its address at GitHub."""
    if target == "amplint/guide/rules.md" and re.fullmatch(r"amp\d{3}", anchor):
        return f"rules/{anchor.upper()}.md", ""
    if target.startswith("docs/"):
        return target.removeprefix("docs/"), anchor
    return _MOVED.get(target, f"{HOME}/blob/main/{target}"), anchor


def _quoted(text: str) -> str:
    return '"' + text.replace("`", "").replace("\\", "\\\\").replace('"', '\\"') + '"'


def linked(text: str, place: str) -> str:
    """A page whose mentions of rules lead to their pages; on a rule's own page those of the others."""
    up = "../" * place.count("/")
    own = Path(place).stem
    known = {rule.code for rule in rules()}

    def link(found: re.Match[str]) -> str:
        code = found.group()
        return f"[{code}]({up}rules/{code}.md)" if code in known and code != own else code

    return _RULE.sub(link, text)


def spaced(text: str) -> str:
    """A page with a blank line before each list and table, which Python-Markdown wants and GitHub doesn't."""
    lines: list[str] = []
    in_code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and lines and _starts(line) and _ends(lines[-1]):
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def _starts(line: str) -> bool:
    return line.startswith(("- ", "1. ", "| "))


def _ends(line: str) -> bool:
    """Whether a line is of a paragraph, and not of a list or a table."""
    return bool(line.strip()) and not line.startswith(("- ", "  ", "|", "<!--", "#")) and not re.match(r"\d+\. ", line)
