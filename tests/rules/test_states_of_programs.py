"""AMP413 where what happens to the scaler's state is told by all files of a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Finding
from amplint.config.settings import Settings


def found(folder: Path, files: dict[str, str], path: str = "main.py") -> list[Finding]:
    (folder / "pyproject.toml").touch()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    settings = Settings(frozenset({"AMP413"}), isolated=True, suspicions=True)
    return check(files[path], str(folder / path), settings)


OPTIMIZER = """\
import torch


class Steps:
    def __init__(self, params):
        self._optimizer = torch.optim.SGD(params, lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self._optimizer)
        self.scaler.update()

    def state_dict(self):
        return self._optimizer.state_dict()

    def load_state_dict(self, state):
        self._optimizer.load_state_dict(state)
"""
LISTED = (
    "import glob\nfrom os.path import basename, dirname\n__all__ = [basename(each)[:-3] for each in glob.glob(dirname("
    '__file__) + "/*.py")]\n'
)


@pytest.mark.parametrize(("package", "count"), [(LISTED, 1), ('"""Nets."""\n', 0)])
def test_a_package_that_lists_its_modules_imports_them(tmp_path: Path, package: str, count: int) -> None:
    files = {
        "main.py": OPTIMIZER,
        "run.py": "from main import Steps\nfrom nets import *\n",
        "nets/__init__.py": package,
        "nets/plain.py": 'import torch\n\n\ndef run(net):\n    with torch.autocast("cuda"):\n        return net(1)\n',
    }
    assert len(found(tmp_path, files)) == count
