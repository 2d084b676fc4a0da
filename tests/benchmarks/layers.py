"""What each layer saves that is there for speed alone: every work with it, and with it switched off.

What is counted are instructions, by valgrind's cachegrind: they are the same in every run, whatever else the machine
does, and show one per cent.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.measure import CHECK, Bench, Row
from tests.field.lint import REPOSITORY

# What a layer has to save in one of the works to be worth its lines.
LEAST = 1.03
MAIN = "\nimport sys\nfrom amplint.cli import main\nsys.exit(main(sys.argv[1:]))\n"
# By its name what switches a layer off, before the command runs.
LAYERS = {
    "roots of trigger words": """
from amplint.engine import prefilter
prefilter._roots = lambda triggers: (b"",)
prefilter._parts = lambda words: {word: [] for word in words}
""",
    "comments and sentences open no file": """
from amplint.engine import file
file.without_prose = lambda text, tree, words: text
""",
    "fast dataclasses": """
import dataclasses, sys, types
standard = types.ModuleType("amplint.model.syntax.fast_dataclass")
standard.dataclass, standard.field, standard.Field = dataclasses.dataclass, dataclasses.field, dataclasses.Field
sys.modules[standard.__name__] = standard
""",
    "lazy lowering": """
from amplint.engine import reading
alone = reading.read_alone
reading.read_alone = lambda *given, **named: alone(*given, **{**named, "fold": False})
""",
    "questions about the pieces near a word": """
import sys
from amplint.model.syntax import queries
queries.Nodes.near = lambda self, *words: self
""",
    "names that are surely not imported": """
from amplint.model.project import module_index
module_index._is_its_own = lambda path, name: False
""",
    "roots before patterns in texts": """
from amplint.model.syntax import text_scan
text_scan.has = lambda text, words, roots: words.search(text) is not None
""",
    "calls that may hand something on, by the text": """
from amplint.model.syntax import text_scan
text_scan.may_hand = lambda text, mentioned: bool(mentioned)
""",
    "headers of rules": """
from amplint.registry.rule import Rule
from importlib import import_module
Rule.from_text = classmethod(lambda cls, name, text: import_module(name).rule)
""",
    "trees of pieces are kept": """
from amplint.model.syntax import lazy_lowering
lazy_lowering._tree.__wrapped__.cache_clear = lambda: None
lazy_lowering._tree = lazy_lowering._tree.__wrapped__
""",
    "no search for garbage": """
import gc
gc.disable = lambda: None
""",
}


# Those that files without AMP meet; to switch another off would import what they don't need.
OF_BYTES = ("roots of trigger words", "headers of rules")
VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
_COUNT = re.compile(r"I\s+refs:\s+([\d,]+)")


class Work(NamedTuple):
    """Something to lint, and the layers that it meets."""

    name: str
    arguments: list[str]
    layers: tuple[str, ...] = tuple(LAYERS)


def works(bench: Bench) -> list[Work]:
    """Files without AMP, some fixtures, files of a project that have AMP, and one such file."""
    amp = set(bench.amp_files)
    fixtures = [min(folder.glob("*/bad.py")) for folder in sorted((REPOSITORY / "fixtures").glob("AMP*"))]
    return [
        Work("files without AMP", [name for name in bench.files if name not in amp][::4], OF_BYTES),
        Work("fixtures", list(map(str, fixtures[::16]))),
        Work("files of a project", sorted(amp)[5::16]),
        Work("one file", [str(Path(__file__).with_name("samples") / "train.py")]),
    ]


def rows(bench: Bench) -> Iterator[Row]:
    """Instructions of a run with all layers, and with one of them switched off; nothing where valgrind is missing."""
    if shutil.which(VALGRIND[0]) is None:
        yield Row("layers for speed", "valgrind is missing", "", "", "", None)
        return
    for work in works(bench):
        whole = instructions(bench, "", work)
        for name in work.layers:
            without = instructions(bench, LAYERS[name], work)
            ratio = f"{without / whole:.2f}"
            bar = f"at least {LEAST:g} in one work"
            yield Row(f"{work.name}, {name}", _said(whole), f"without: {_said(without)}", ratio, bar, None)


def instructions(bench: Bench, off: str, work: Work) -> int:
    """How many a run takes; `off` switches something off before."""
    command = [*VALGRIND, str(bench.amplint / "python"), "-c", off + MAIN, *CHECK, "--jobs", "1", *work.arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment["PYTHONHASHSEED"] = "0"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    counted = _COUNT.search(done.stderr)
    assert counted is not None, done.stderr[-500:]
    return int(counted[1].replace(",", ""))


def _said(count: int) -> str:
    return f"{count / 1e9:.2f} billion"
