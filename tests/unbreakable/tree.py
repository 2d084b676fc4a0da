"""A tree of files to fix, and what is to be seen in it whenever a run of `--fix` ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from amplint.config.settings import Settings
from amplint.engine.file import fix_bytes
from amplint.registry import all_rules
from tests import ROOT

DEFAULT = Settings(frozenset(code for code, rule in all_rules().items() if rule.default), isolated=True)
COMMAND = [sys.executable, "-c", "import sys; from amplint.cli import main; sys.exit(main())", "--isolated", "--fix"]
_LITTER = re.compile(r"\.amplint-\w{8}\.tmp")
_FILES = 32
_OLD = "import torch\n\n\ndef run(model, x):\n    with torch.cuda.amp.autocast():\n        return model(x)\n"


class Tree(NamedTuple):
    """Files below a directory, as they are before and after the fixes."""

    root: Path
    before: dict[Path, bytes]
    after: dict[Path, bytes]

    def restore(self) -> None:
        """Make all files what they were, by writing anew: mode and links are as at first, too."""
        for path, data in self.before.items():
            path.write_bytes(data)

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """`amplint --fix` over the tree, as the leader of a process group."""
        return subprocess.Popen(
            [*COMMAND, *options, str(self.root)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def fixed(self) -> int:
        """How many files are fixed.

        Raises:
            AssertionError: a file is neither the old nor the new one.
        """
        count = 0
        for path, old in self.before.items():
            data = path.read_bytes()
            assert data in (old, self.after[path]), f"{path} is neither old nor new"
            count += data == self.after[path]
        return count

    def litter(self) -> list[str]:
        """The temporary files that were left.

        Raises:
            AssertionError: something else was left.
        """
        names = {name for _, _, files in os.walk(self.root) for name in files} - {path.name for path in self.before}
        assert all(map(_LITTER.fullmatch, names)), names
        return sorted(names)


def make(root: Path) -> Tree:
    """Write a tree: small files and large ones, in several directories and encodings."""
    before: dict[Path, bytes] = {}
    for number in range(_FILES):
        path = root / f"d{number % 4}" / f"f{number:02}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        rest = f"# {'ä' * number * 500}\n"
        text = f"{'# coding: latin-1' * (number % 3 == 0)}\n{_OLD}{rest}".replace("\n", "\r\n" if number % 2 else "\n")
        before[path] = text.encode("utf-8" if number % 3 else "latin-1")
        path.write_bytes(before[path])
    after = {path: fix_bytes(data, str(path), DEFAULT, unsafe=False).data for path, data in before.items()}
    assert all(after[path] != data for path, data in before.items())
    return Tree(root, before, after)
