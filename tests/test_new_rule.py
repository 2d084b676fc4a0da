"""A new rule is made by a command, and touches nothing but its own files and those that one command makes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.new_rule import PROMPT, files_of

COPIED = ("amplint", "fixtures", "tests", "docs", ".github", "README.md", "pyproject.toml")
CODE, NAME = "AMP399", "update-by-hand"
MODULE = f"amplint/rules/regions/{CODE.lower()}_update_by_hand.py"
FIXTURES = f"fixtures/{CODE}_update_by_hand"
WRONG = "scaler.update(1024.0)"


class Tree:
    """A copy of this repository, in which commands are run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
            else:
                shutil.copy(source, root / name)

    def run(self, *arguments: str) -> str:
        """What a module of Python's prints; it has to end well."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        # In front of what is installed, which is the tree that was copied.
        env |= {"PYTHONPATH": str(self.root), "NO_COLOR": "1"}
        # What one of the commands compiles is there for the next, and outside of the copy.
        env |= {"PYTHONPYCACHEPREFIX": str(self.root.with_name("compiled")), "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def replace(self, path: str, *pairs: tuple[str, str]) -> None:
        """Write other words into a file, as an author does."""
        text = (self.root / path).read_text("utf-8")
        for old, new in pairs:
            assert old in text, old
            text = text.replace(old, new)
        (self.root / path).write_text(text, "utf-8")

    def files(self) -> dict[str, bytes]:
        """All files that may be committed."""
        paths = (path for path in self.root.rglob("*") if path.is_file() and "_cache" not in str(path))
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in paths}


def test_a_rule_is_its_own_files_and_what_is_made_of_them(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "copy")
    before = tree.files()
    said = tree.run("tests.new_rule", CODE, NAME)
    made = tree.files().keys() - before
    assert made == {MODULE, *(f"{FIXTURES}/{each}" for each in ("loop/bad.py", "loop/fixed.py", "silent/right.py"))}
    assert all(f"made: {each}\n" in said for each in made)
    for each in made:
        compile((tree.root / each).read_bytes(), each, "exec")

    tree.replace(f"{FIXTURES}/loop/bad.py", ("scaler.update()", WRONG))
    tree.replace(
        MODULE,
        (f'"{PROMPT} what makes it wrong"', f'"{WRONG}"'),
        ("the reason for shows=none", "shows=none"),
        (f"# {PROMPT} a few lines that are wrong", WRONG),
        (f"# {PROMPT} the same lines, corrected", "scaler.update()"),
        (f"{PROMPT} ", ""),
    )
    pytest_ = ("pytest", "-p", "no:cacheprovider")
    tree.run(*pytest_, "tests/test_fixtures.py", "-k", f"fixer_makes and {CODE}", "--snapshot-update")
    tree.run("tests.generate")
    changed = {name for name, data in tree.files().items() if before.get(name) != data}
    assert changed - made == {
        "README.md",
        "amplint/config/schema.json",
        "amplint/guide/rules.md",
        f"tests/__snapshots__/test_fixtures/{CODE}.ambr",
    }

    page = tree.run("amplint", "rule", CODE)
    assert page.startswith(f"# {NAME} ({CODE})\n")
    bad = f"{FIXTURES}/loop/bad.py"
    found = tree.run("amplint", "--isolated", "--exit-zero", "--output-format=concise", bad)
    row = (tree.root / bad).read_text("utf-8").splitlines().index(f"        {WRONG}  # expect: {CODE}") + 1
    assert f"{bad}:{row}:9: {CODE} " in found
    others = ("tests/registry/test_registry.py", "tests/test_generated.py", "tests/guide/test_rule_pages.py")
    # The weights, which are no rule's, have just been made, and have not changed.
    chosen = f"({CODE} or each_rule_has_a_folder or test_registry or test_generated or test_rule_pages) and not weights"
    ran = tree.run(*pytest_, "-vv", "tests/test_fixtures.py", *others, "-k", chosen)
    assert len(re.findall(rf"test_fixtures\.py::\S*(?:{CODE}|each_rule_has_a_folder)\S* PASSED", ran)) >= 5


@pytest.mark.parametrize(
    ("code", "name", "said"),
    [
        ("AMP401", "another-name", "there is a rule AMP401 clip-without-unscale"),
        ("AMP399", "clip-without-unscale", "there is a rule AMP401 clip-without-unscale"),
        ("AMP999", "some-name", "no rule has a code like AMP9xx"),
        ("HSE101", "some-name", "'HSE101' is no code"),
        ("AMP399", "Some_name", "'Some_name' is no name"),
    ],
)
def test_what_can_not_be_a_rule(code: str, name: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        files_of(code, name)
