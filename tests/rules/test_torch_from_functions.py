"""Rules where a function gives torch, or something else if torch isn't installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.config.settings import Settings

ONLY = Settings(frozenset({"AMP401"}), isolated=True)
TRAIN = """\
def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
FALLBACK = """\
try:
    import torch as real
    installed = True
except ImportError:
    installed = False

class Fake:
    pass

fake = Fake()

def get_torch():
    if installed:
        return real
    return fake
"""
INSIDE = """\
def get_torch():
    try:
        import torch
        return torch
    except ImportError:
        return None
"""
UNBOUND = """\
def get_torch():
    try:
        import torch
    except ImportError:
        torch = None
    return torch
"""
KEPT = """\
kept = None

def get_torch():
    global kept
    if kept is None:
        import torch as real
        kept = real
    return kept  # from now on
"""
LOADED = """\
import sys

def get_torch():
    found = sys.modules.get("torch")
    if found is not None:
        return found
    import torch
    return torch
"""
GIVERS = {"fallback": FALLBACK, "inside": INSIDE, "unbound": UNBOUND, "kept": KEPT, "loaded": LOADED}
# Twins that don't give torch.
OTHER = "def get_torch():\n    import jax\n    return jax\n"
MADE = "import torch as real\n\ndef get_torch():\n    made = real.zeros(2)\n    return made\n"
WRAPPED = "import torch as real\n\ndef get_torch():\n    return Careful(real)\n"
NOT_GIVERS = {"other": OTHER, "made": MADE, "wrapped": WRAPPED}


def found_in(text: str, path: str = "train.py") -> list[str]:
    return [each.code for each in check(text, path, ONLY)]


@pytest.mark.parametrize("giver", GIVERS.values(), ids=GIVERS)
def test_a_function_of_the_file(giver: str) -> None:
    assert found_in(f"{giver}\ntorch = get_torch()\n\n{TRAIN}") == ["AMP401"]


@pytest.mark.parametrize("giver", NOT_GIVERS.values(), ids=NOT_GIVERS)
def test_a_function_that_gives_something_else(giver: str) -> None:
    assert found_in(f"{giver}\ntorch = get_torch()\n\n{TRAIN}") == []


@pytest.mark.parametrize(
    "start", ["from lazy import get_torch\ntorch = get_torch()\n", "import lazy\ntorch = lazy.get_torch()\n"]
)
@pytest.mark.parametrize("giver", [*GIVERS.values(), *NOT_GIVERS.values()], ids=[*GIVERS, *NOT_GIVERS])
def test_a_function_of_another_file(giver: str, start: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "lazy.py").write_text(giver)
    train = tmp_path / "train.py"
    train.write_text(f"{start}\n{TRAIN}")
    expected = ["AMP401"] if giver in GIVERS.values() else []
    assert found_in(train.read_text(), str(train)) == expected


def test_a_function_that_is_called_in_another_function() -> None:
    text = TRAIN.replace("    scaler =", "    torch = get_torch()\n    scaler =")
    assert found_in(f"{INSIDE}\n{text}") == ["AMP401"]


@pytest.mark.parametrize(
    "value", ['__import__("torch")', 'pytest.importorskip("torch")', 'importlib.import_module("torch")']
)
def test_an_import_by_name(value: str) -> None:
    assert found_in(f"import importlib\nimport pytest\ntorch = {value}\n\n{TRAIN}") == ["AMP401"]
