"""The README: its table is that of the rules, and what it shows is what the commands print."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from amplint.config.defaults import DEFAULT_EXCLUDE
from amplint.config.keys import KEYS
from amplint.registry import all_rules
from tests.field.packages import read_packages
from tests.picture import COMMANDS, PICTURE, printed, words

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
VERDICTS = ROOT / "tests" / "field" / "verdicts.csv"
_TABLE = re.compile(r"(?<=<!-- rules -->\n).*?(?=<!-- /rules -->)", re.DOTALL)
_KEYS = re.compile(r"(?<=<!-- keys -->\n).*?(?=<!-- /keys -->)", re.DOTALL)

_FOUND = re.compile(r"(?<=<!-- found -->\n).*?(?=<!-- /found -->)", re.DOTALL)
_CONSOLE = re.compile(r"^```console\n\$ (amplint[^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MEASURED = re.compile(r"\d+\.\d+|[\d,]+ a second")
_SHELL = re.compile(r"<!-- ([\w-]+) -->\n```sh\n([^\n]+)\n```")


def table() -> str:
    rows = ["| code | name | severity | what is wrong |", "|---|---|---|---|"]
    rows += [f"| {each.code} | {each.name} | {each.severity.value} | {each.summary} |" for each in all_rules().values()]
    return "\n".join(rows) + "\n"


def keys() -> str:
    rows = ["| key | value | default | |", "|---|---|---|---|"]
    for key in KEYS.values():
        default = key.unset if key.default is None else _shown(key.default)
        rows.append(f"| `{key.name}` | {key.kind.words} | {default} | {key.doc} |")
    return "\n".join(rows) + "\n"


def _shown(value: object) -> str:
    if value == list(DEFAULT_EXCLUDE):
        return "version control, environments, caches, build products"
    return f"`{json.dumps(value)}`"


def found() -> str:
    """What was found in real code, and what a person said who read each place."""
    with VERDICTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    verdicts = Counter(row["verdict"] for row in rows)
    legacy = sum(row["code"].startswith("AMP1") for row in rows)
    packages = len({row["package"] for row in rows})
    judged = f"{verdicts['right']} are right, {verdicts['unsure']} unsure, {verdicts['wrong'] or 'none'} wrong"
    text = (
        f"**What it finds.** In {len(read_packages())} packages from PyPI it reports {len(rows)} places, in {packages} "
        f"of them: {legacy} names that are deprecated or gone, {len(rows) - legacy} misuses. A person read each: "
        f"{judged} (what was wrong once is mended); see [On real code](#on-real-code)."
    )
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def run(command: str) -> str:
    arguments = shlex.split(command)
    assert arguments[0] == "amplint"
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "160"}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    return done.stdout


def test_the_table_is_that_of_the_rules() -> None:
    found = _TABLE.search(README.read_text("utf-8"))
    assert found
    assert found.group() == table(), "write it with: python -m tests.test_readme"


def test_the_table_of_keys_is_the_one_that_counts() -> None:
    found = _KEYS.search(README.read_text("utf-8"))
    assert found
    assert found.group() == keys(), "write it with: python -m tests.test_readme"


def test_what_was_found_is_what_the_verdicts_say() -> None:
    shown = _FOUND.search(README.read_text("utf-8"))
    assert shown
    assert shown.group() == found(), "write it with: python -m tests.test_readme"


@pytest.mark.parametrize(("command", "shown"), _CONSOLE.findall(README.read_text("utf-8")))
def test_commands_print_what_is_shown(command: str, shown: str) -> None:
    # The last digit of a number that was measured hangs on the machine.
    assert _MEASURED.sub("#", run(command)) == _MEASURED.sub("#", shown)


def test_ci_runs_the_two_commands() -> None:
    shown = dict(_SHELL.findall(README.read_text("utf-8")))
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert set(shown) == {"install-and-run", "install-and-test"}
    for name in shown:
        assert f"readme {name}" in script
    commands = [each.strip() for each in shown["install-and-run"].split("&&")]
    assert commands[0] == "pip install ."
    for each in commands[1:]:
        assert "AMP401" in run(each) or "+            self.scaler.unscale_(self.optimizer)" in run(each)


def test_the_picture_shows_what_is_printed() -> None:
    shown = words(PICTURE.read_text("utf-8"))
    for command in COMMANDS:
        said = _words(f"$ {command}\n{printed(command, colour=False)}")
        assert said in _words(" ".join(shown)), "draw it with: python -m tests.picture"


def _words(text: str) -> str:
    """A text without its blanks, which colours and pictures set otherwise."""
    return "".join(text.split())


if __name__ == "__main__":
    text = README.read_text("utf-8")
    for place, write in ((_TABLE, table), (_KEYS, keys), (_FOUND, found)):
        made = write()
        text = place.sub(lambda _, made=made: made, text)
    README.write_text(text, "utf-8")
