"""Writes the files that are made of others: the rules' pages, the documentation's tables, the schema, proofs, weights.

    python -m tests.generate                     # fixtures of which nothing is written down are run, the others are not
    python -m tests.generate --proofs AMP401     # those of a rule are run again
    python -m tests.generate --proofs            # all are: minutes
    python -m tests.generate --shown             # also the outputs of commands in the README and in docs/

`tests/test_generated.py` checks that all of it is current, `tests/guide/test_shown.py` the outputs. Running fixtures
and `--shown` take torch.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from amplint.config import schema
from amplint.config.defaults import DEFAULT_EXCLUDE
from amplint.config.keys import KEYS
from amplint.explain.ranking import WEIGHTS
from amplint.guide import RULES
from amplint.guide.rule_pages import FAMILIES, PROOFS, as_document, proofs
from amplint.registry import all_rules
from amplint.registry.rule import OURS, Rule
from tests import ROOT, shown
from tests.explaining import training
from tests.field import rounds
from tests.field.packages import read_packages
from tests.proofs import proofs_table, run_again, without_the_gone

README = ROOT / "README.md"
CONFIGURATION = ROOT / "docs" / "configuration.md"
EVIDENCE = ROOT / "docs" / "evidence.md"
SCHEMA = Path(schema.__file__).with_name("schema.json")
_VERDICTS = ROOT / "tests" / "field" / "verdicts.csv"
# What a rule of each family finds.
_EXAMPLES = {
    "1": "`torch.cuda.amp.autocast`, apex",
    "2": "a scaler without its device, float16 without a scaler, bfloat16 with one",
    "3": "`backward()` inside a region, a loss computed in half precision, a region that is never entered",
    "4": "gradients clipped before `unscale_`, `optimizer.step()` for `scaler.step`, `update()` missing or misplaced",
    "5": "an epsilon that is 0 in float16, a mask of -1e9, NaN hidden from the scaler",
    "6": "torch's clip with an accelerate scaler, precisions that Lightning no longer has",
}
_SECTION = "(?<=<!-- {0} -->\n).*?(?=<!-- /{0} -->)"


def families_table() -> str:
    """The README's table of families."""
    rows = ["| family | rules | for example |", "|---|---|---|"]
    for digit, example in _EXAMPLES.items():
        count = sum(each.code[3] == digit for each in _own())
        rows.append(f"| [{FAMILIES[digit]} (AMP{digit})](amplint/guide/rules.md#amp{digit}) | {count} | {example} |")
    return "\n".join(rows) + "\n"


def keys_table() -> str:
    """The table of what can be configured."""
    rows = ["| key | value | default | |", "|---|---|---|---|"]
    for key in KEYS.values():
        default = key.unset if key.default is None else _shown(key.default)
        rows.append(f"| `{key.name}` | {key.kind.words} | {default} | {key.doc} |")
    return "\n".join(rows) + "\n"


def found() -> str:
    """What was found in real code, and what a person said who read each place."""
    with _VERDICTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    verdicts = Counter(row["verdict"] for row in rows)
    legacy = sum(row["code"].startswith("AMP1") for row in rows)
    packages = len({row["package"] for row in rows})
    judged = f"{verdicts['right']} are right, {verdicts['unsure']} unsure, {verdicts['wrong'] or 'none'} wrong"
    text = (
        f"In {len(read_packages())} packages from PyPI amplint reports {len(rows)} places, in {packages} of them: "
        f"{legacy} names that are deprecated or gone, {len(rows) - legacy} misuses. One of amplint's authors read "
        f"each: {judged}."
    )
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def rounds_table() -> str:
    """The table of the rounds of readers."""
    return rounds.figures(rounds.read_rounds()) + "\n"


# What stands in a document between `<!-- name -->` and `<!-- /name -->`.
SECTIONS: Mapping[Path, Mapping[str, Callable[[], str]]] = {
    README: {"families": families_table},
    CONFIGURATION: {"keys": keys_table},
    EVIDENCE: {"found": found, "rounds": rounds_table, "proofs": proofs_table},
}


def document(path: Path) -> str:
    """A document with what follows from other files as they are."""
    text = path.read_text("utf-8")
    for name, make in SECTIONS[path].items():
        made = make()
        text, times = re.subn(_SECTION.format(name), lambda _, made=made: made, text, flags=re.DOTALL)
        assert times == 1, f"{path.name} needs one place for {name}"
    return text


def proofs_text() -> str:
    """What is written down of fixtures, without those that there are no more."""
    written = json.loads(PROOFS.read_text("utf-8"))
    return json.dumps({**written, "proofs": without_the_gone(written["proofs"])}, indent=1) + "\n"


# The files and what makes each, in the order in which one follows from another.
FILES: Mapping[Path, Callable[[], str]] = {
    PROOFS: proofs_text,
    SCHEMA: schema.text,
    WEIGHTS: training.text,
    RULES: lambda: as_document(_own()),
    **{path: partial(document, path) for path in SECTIONS},
}


def _own() -> list[Rule]:
    """The rules of this package: a plugin may be installed."""
    return [rule for code, rule in all_rules().items() if code.startswith(OURS)]


def _shown(value: object) -> str:
    if value == list(DEFAULT_EXCLUDE):
        return "version control, environments, caches, build products, copies of other projects"
    return f"`{json.dumps(value)}`"


def main() -> None:
    """Write what is not current, and name it."""
    parser = argparse.ArgumentParser(prog="python -m tests.generate", description=__doc__.partition("\n")[0])
    parser.add_argument("--proofs", nargs="*", metavar="CODE", help="run the fixtures of these rules again, or all")
    parser.add_argument("--shown", action="store_true", help="write what commands print into the documentation")
    arguments = parser.parse_args()
    again = arguments.proofs
    codes = None if again is None else frozenset(again or all_rules())
    run_again(codes or frozenset())
    for path, make in FILES.items():
        text = make()
        if path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            proofs.cache_clear()
            print(f"written: {path.relative_to(ROOT)}")
    for path in shown.documents() if arguments.shown else ():
        text = shown.current(path)
        if path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
