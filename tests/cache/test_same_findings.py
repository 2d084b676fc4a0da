"""Whatever is edited, and in whichever order: with what is kept from runs before, the same is found as without."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.base import paths
from amplint.base.paths import look_again
from amplint.cache import program
from amplint.cache.results import Results
from amplint.cli import main
from tests import some

TRAIN = """\
import torch
from {module} import {names}


def train(model, data):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = {scaler}("cuda")
    for x, y in data:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        {call}
        scaler.step(optimizer)
        scaler.update()
"""
CLIPS = (
    "import torch\n\n\ndef tidy(model, scaler, optimizer):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1)\n"
)
UNSCALES = CLIPS.replace("    torch", "    scaler.unscale_(optimizer)\n    torch")
PASSES_ON = "from torch.cuda.amp import GradScaler, autocast\nfrom common import tidy\n"
STARS = "from common import *\nfrom torch.amp import GradScaler\n"
SAVES = """\
import torch
import train


def save(path, model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def resume(path, model, optimizer):
    state = torch.load(path)
    optimizer.load_state_dict(state["optimizer"])
    train.train(model, [])
"""
CONFIGURED = """\
import torch
from config import DTYPE


def train(model, data):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in data:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=DTYPE):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
"""
HALF, BRAIN = (f"import torch\n\nDTYPE = torch.{each}\n" for each in ("float16", "bfloat16"))
PRECISION = "from precision import *\n"
ASKS = "from train import train\n\nif __name__ == '__main__':\n    train.scaler.update()\n"
BROKEN = "def autocast(:\n"
NOTEBOOK = (
    '{"cells": [{"cell_type": "code", "execution_count": null, "id": "a", "metadata": {}, "outputs": [], "source": '
    '["from common import tidy\\n", "import torch\\n", "with torch.cuda.amp.autocast():\\n", "    tidy(1, 2)\\n"]}], '
    '"metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
)


COARSE = paths._COARSE


def _train(module: str, names: str, scaler: str, call: str) -> str:
    return TRAIN.format(module=module, names=names, scaler=scaler, call=call)


TEXTS = (
    "",
    "x = 1\n",
    _train("common", "tidy", "torch.amp.GradScaler", "tidy(model, scaler, optimizer)"),
    _train("compat", "GradScaler, tidy", "GradScaler", "tidy(model, scaler, optimizer)"),
    _train("compat", "*", "GradScaler", "tidy(model, scaler, optimizer)"),
    _train("package.common", "tidy", "torch.cuda.amp.GradScaler", "tidy(model, scaler, optimizer)"),
    _train("common", "tidy", "torch.amp.GradScaler", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1)"),
    CLIPS,
    UNSCALES,
    PASSES_ON,
    STARS,
    SAVES,
    ASKS,
    BROKEN,
    "from .common import tidy\n",
    CONFIGURED,
    HALF,
    BRAIN,
    PRECISION,
)
PROGRAMS = (
    "config.py",
    "precision.py",
    "train.py",
    "common.py",
    "compat.py",
    "save.py",
    "package/__init__.py",
    "package/common.py",
    "common/__init__.py",
    "src/common.py",
    "build/common.py",
)
OTHERS = {
    "pyproject.toml": (
        "",
        '[tool.amplint]\nignore = ["AMP401"]\n',
        '[tool.amplint]\nsrc = ["build"]\n',
        '[tool.amplint]\ntarget-torch = "1.13"\n',
        '[tool.amplint.per-file-ignores]\n"train.py" = ["AMP4"]\n',
        '[project]\ndependencies = ["torch>=1.10"]\n',
    ),
    "requirements.txt": ("", "torch==1.12\n", "-r more.txt\n"),
    "more.txt": ("", "torch==2.1\n"),
    "package/setup.cfg": ("",),
    "notes.ipynb": (NOTEBOOK, "{"),
}
FILES = (*PROGRAMS, *OTHERS)


class Write(NamedTuple):
    """A file gets a text."""

    name: str
    text: str


class Delete(NamedTuple):
    """A file or a folder goes."""

    name: str


class Rename(NamedTuple):
    """A file, with all that is known of it but its place, goes where another was."""

    name: str
    to: str


class Link(NamedTuple):
    """A name leads to another file or folder."""

    name: str
    to: str


class Upgrade(NamedTuple):
    """Another amplint."""


Step = Write | Delete | Rename | Link | Upgrade
programs = st.builds(Write, st.sampled_from(PROGRAMS), st.sampled_from(TEXTS))
others = st.sampled_from(sorted(OTHERS)).flatmap(
    lambda name: st.builds(Write, st.just(name), st.sampled_from(OTHERS[name]))
)
steps = st.one_of(
    programs,
    programs,
    others,
    st.builds(Delete, st.sampled_from((*FILES, "package", "src"))),
    st.builds(Rename, st.sampled_from(PROGRAMS), st.sampled_from(PROGRAMS)),
    st.builds(Link, st.sampled_from(PROGRAMS), st.sampled_from((*PROGRAMS, "package"))),
    st.just(Upgrade()),
)
START = (
    Write("pyproject.toml", ""),
    Write("train.py", TEXTS[2]),
    Write("common.py", CLIPS),
    Write("compat.py", PASSES_ON),
    Write("save.py", SAVES),
)


def _do(step: Step, root: Path) -> None:
    if isinstance(step, Upgrade):
        program.identity.cache_clear()
        before = program.__version__
        program.__version__ = before + "+"  # type: ignore[attr-defined]
        return
    place = root / step.name
    try:
        if isinstance(step, (Write, Rename, Link)):
            (root / (step.to if isinstance(step, Rename) else step.name)).parent.mkdir(exist_ok=True)
        if isinstance(step, Write):
            place.write_text(step.text)
        elif isinstance(step, Rename):
            place.rename(root / step.to)
        elif isinstance(step, Link):
            place.symlink_to(root / step.to)
        elif place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink()
    except OSError:  # there is nothing, or something else, at a path
        pass


def _said(*arguments: str) -> tuple[int, str]:
    look_again()
    out = StringIO()
    with redirect_stdout(out):
        code = main(["--output-format", "json", "--select", "ALL", "--jobs", "1", *arguments])
    return code, out.getvalue()


@contextmanager
def _inside(folder: str) -> Iterator[Path]:
    before, version = os.getcwd(), program.__version__
    os.chdir(folder)
    try:
        yield Path(folder)
    finally:
        os.chdir(before)
        paths._COARSE = COARSE
        program.__version__ = version  # type: ignore[attr-defined]
        program.identity.cache_clear()


# Each is a chain of edits after which something else is found.
CHAINS: tuple[list[Step], ...] = (
    [Write("common.py", UNSCALES), Write("common.py", CLIPS)],
    [Write("common/__init__.py", UNSCALES), Delete("common/__init__.py")],
    [Delete("common.py"), Write("src/common.py", CLIPS), Rename("src/common.py", "common.py")],
    [Delete("common.py"), Write("build/common.py", CLIPS), Write("pyproject.toml", OTHERS["pyproject.toml"][2])],
    [Write("train.py", TEXTS[4]), Write("compat.py", STARS), Write("common.py", "from torch.amp import *\n")],
    [Write("requirements.txt", "-r more.txt\n"), Write("more.txt", "torch==2.1\n"), Write("more.txt", "")],
    [Write("notes.ipynb", NOTEBOOK), Write("common.py", BROKEN)],
    [Link("src/common.py", "common.py"), Delete("common.py"), Write("common.py", UNSCALES)],
    [Write("train.py", CONFIGURED), Write("config.py", BRAIN), Delete("config.py")],
    [
        Write("train.py", CONFIGURED),
        Write("config.py", PRECISION),
        Write("precision.py", BRAIN),
        Write("precision.py", HALF),
    ],
    [Write("train.py", CONFIGURED), Delete("save.py"), Write("save.py", SAVES), Write("save.py", "")],
)


@settings(max_examples=12)
@given(st.lists(steps, min_size=1, max_size=6), st.booleans())
def test_the_same_is_found(edits: list[Step], settled: bool) -> None:
    _compare(edits, settled)


@pytest.mark.parametrize(
    ("edits", "settled"),
    # Each settled or not; with AMPLINT_TEST_ALL=1 both.
    [one for edits in CHAINS for one in some([(edits, True), (edits, False)], 1)],
)
def test_the_same_is_found_after_a_chain(edits: list[Step], settled: bool) -> None:
    assert _compare(edits, settled) > 1


def _compare(edits: list[Step], settled: bool) -> int:
    """See that the same is found with and without what is kept; how many different things were found on the way.

    `settled`: what has just been written counts as unchanged as long as it looks the same, as it does after a while.
    """
    with tempfile.TemporaryDirectory() as folder, _inside(os.path.realpath(folder)) as root:
        paths._COARSE = 0 if settled else COARSE
        for step in START:
            _do(step, root)
        found = {_said()}
        for step in edits:
            _do(step, root)
            fresh = _said("--no-cache")
            assert _said() == fresh  # what was kept before the step
            assert _said() == fresh  # what was kept after it
            assert _said("train.py", "--cache-dir", str(root / ".amplint_cache")) == _said("train.py", "--no-cache")
            found.add(fresh)
        return len(found)


# A test of a constant is asked whether the file can be imported.
SWITCHED = """\
import torch

VERBOSE = False


def train(model, loader, optimizer, scaler):
    for inputs in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(inputs).mean()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if VERBOSE:
            print(loss)
"""


@pytest.mark.parametrize("given", ["scripts", ".", "scripts/one.py"])
def test_what_is_found_in_scripts_is_kept(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run reads what the first one has kept, whichever way the files are named."""
    kept = list[str]()
    write = Results._write
    monkeypatch.setattr(Results, "_write", lambda self, name, known: (kept.append(name), write(self, name, known)))
    with tempfile.TemporaryDirectory() as folder, _inside(os.path.realpath(folder)) as root:
        paths._COARSE = 0
        for name in ("pyproject.toml", "scripts/one.py", "scripts/two.py"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(SWITCHED if name.endswith(".py") else "[project]\nname = 'x'\n")
        first = _said(given)
        assert first[1].count('"AMP401"') == len(kept) == (1 if given.endswith(".py") else 2)
        kept.clear()
        assert _said(given) == first
        assert not kept
