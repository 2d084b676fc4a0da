"""What `amplint verify --run fixtures/` finds, written down: `amplint rule` shows it, docs/evidence.md a part of it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amplint.guide.rule_pages import PROOFS, proof_cells, proofs
from amplint.verify.fixtures.find import Fixture, find_fixtures
from amplint.verify.fixtures.run import Row, verify

FIXTURES = Path(__file__).parents[1] / "fixtures"
Proofs = dict[str, list[dict[str, Any]]]
# The fixture that a page shows of a rule has the first of these that there is.
_TELLING = ("gradient", "update", "skips", "learning", "dtype", "scale", "autocast-state", "exception", "warning")


def record(rows: Iterable[Row]) -> Proofs:
    """What is kept of the verdicts, by rule."""
    kept: Proofs = {}
    for row in rows:
        if row.bad:
            kept.setdefault(row.fixture.rule, []).append(
                {
                    "variant": row.fixture.name,
                    "shows": row.fixture.shows,
                    "device": row.device,
                    "simulated": row.simulated,
                    "verdict": row.verdict,
                    "before": row.before,
                    "after": row.after,
                }
            )
    return kept


def without_numbers(rules: Proofs) -> str:
    """What holds on every machine: rounding is not quite the same everywhere."""
    return re.sub(r"\d[\d.,e+-]*", "#", json.dumps(rules, indent=1).replace("AMP", "AMP_"))


def telling(of: list[dict[str, Any]]) -> dict[str, Any]:
    """Of what the fixtures of a rule showed that which says most."""
    return min(of, key=lambda each: _TELLING.index(each["shows"]))


def proofs_table() -> str:
    """The table of docs/evidence.md: a fixture of each rule."""
    lines = ["| rule | fixture | device | wrong program | corrected program |", "|---|---|---|---|---|"]
    for rule, of in proofs().items():
        shown = telling(of)
        cells = " | ".join(proof_cells(shown)).replace("__", "&#95;&#95;")  # not bold
        lines.append(f"| {rule} | `{shown['variant']}` | {cells} |")
    return "\n".join(lines) + "\n"


def executed() -> list[Fixture]:
    """The fixtures that are run, in the order in which they are written down."""
    return [each for each in find_fixtures([str(FIXTURES)]) if each.shows != "none"]


def without_the_gone(written: Proofs) -> Proofs:
    """What is written down of the fixtures that there are, in their order."""
    known = {(rule, each["variant"]): each for rule, of in written.items() for each in of}
    kept: Proofs = {}
    for fixture in executed():
        if each := known.get((fixture.rule, fixture.name)):
            kept.setdefault(fixture.rule, []).append(each)
    return kept


def run_again(codes: Collection[str]) -> None:
    """Run the fixtures of rules, and those of which nothing is written down, and write down what they show."""
    written = proofs()
    known = {(rule, each["variant"]) for rule, of in written.items() for each in of}
    asked = [each for each in executed() if each.rule in codes or (each.rule, each.name) not in known]
    if not asked:
        return

    def tell(done: int, total: int, fixture: Fixture) -> None:
        print(f"[{done + 1}/{total}] {fixture.rule} {fixture.name}", flush=True)

    rows = verify([each.bad if each.bad.name == "bad.py" else each.bad.parent for each in asked], progress=tell)
    for rule, of in record(rows).items():
        anew = {each["variant"]: each for each in of}
        before = [each for each in written.get(rule, ()) if each["variant"] not in anew]
        written[rule] = [*before, *anew.values()]
    kept = {"torch": version("torch"), "proofs": without_the_gone(written)}
    PROOFS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    proofs.cache_clear()
