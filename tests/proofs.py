"""Writes down what `amplint verify --run fixtures/` finds: `amplint rule` shows it, and the README a part of it.

python -m tests.proofs
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amplint.guide.rule_pages import PROOFS, proof_cells, proofs
from amplint.verify.fixtures.run import Row, verify
from tests.test_rule_pages import write

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TABLE = re.compile(r"(?<=<!-- proofs -->\n).*?(?=<!-- /proofs -->)", re.DOTALL)
# The rule's fixture that stands in the README shows the first of these that there is.
_TELLING = ("gradient", "update", "skips", "learning", "dtype", "scale", "autocast-state", "exception", "warning")


def record(rows: Iterable[Row]) -> dict[str, list[dict[str, Any]]]:
    """What is kept of the verdicts, by rule."""
    kept: dict[str, list[dict[str, Any]]] = {}
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


def without_numbers(rules: dict[str, list[dict[str, Any]]]) -> str:
    """What holds on every machine: rounding is not quite the same everywhere."""
    return re.sub(r"\d[\d.,e+-]*", "#", json.dumps(rules, indent=1).replace("AMP", "AMP_"))


def table() -> str:
    """The README's table: a fixture of each rule."""
    lines = ["| rule | fixture | before the fix | after |", "|---|---|---|---|"]
    for rule, of in proofs().items():
        shown = min(of, key=lambda each: _TELLING.index(each["shows"]))
        lines.append(f"| {rule} | {' | '.join(proof_cells(shown))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    rows = verify([ROOT / "fixtures"])
    kept = {"torch": version("torch"), "proofs": record(rows)}
    PROOFS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    proofs.cache_clear()
    README.write_text(TABLE.sub(lambda _: table(), README.read_text("utf-8")), "utf-8")
    write()  # the rules' pages have them too


if __name__ == "__main__":
    main()
