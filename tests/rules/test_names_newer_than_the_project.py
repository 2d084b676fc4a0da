"""AMP107: names of torch.amp that no release has which the project admits."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check, settings_for

SCALER = "import torch\n\nscaler = torch.amp.GradScaler('cuda')\n"
IMPORTED = "import torch\nfrom torch.amp import GradScaler\n\nscaler = GradScaler('cuda')\n"
TRIED = """\
try:
    from torch.amp import GradScaler
except ImportError:
    from torch.cuda.amp import GradScaler

scaler = GradScaler()
"""
TESTED = """\
import torch

if hasattr(torch.amp, "GradScaler"):
    scaler = torch.amp.GradScaler("cuda")
else:
    scaler = torch.cuda.amp.GradScaler()
"""


def found(folder: Path, requirement: str, text: str) -> list[str]:
    (folder / ".git").mkdir()
    (folder / "requirements.txt").write_text(f"{requirement}\n", "utf-8")
    file = folder / "train.py"
    file.write_text(text, "utf-8")
    return [each.message for each in check(text, str(file), settings_for(file)) if each.code == "AMP107"]


@pytest.mark.parametrize("requirement", ["torch==2.0.1", "torch>=1.10,<2.2", "torch~=2.1.0"])
@pytest.mark.parametrize(("text", "error"), [(SCALER, "AttributeError"), (IMPORTED, "ImportError")])
def test_a_name_that_comes_later(tmp_path: Path, requirement: str, text: str, error: str) -> None:
    (message,) = found(tmp_path, requirement, text)
    assert message.startswith("`torch.amp.GradScaler` needs torch 2.3, and the project allows only older releases")
    assert f"{error}; use `torch.cuda.amp.GradScaler`, or require torch>=2.3" in message


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        ("torch==2.3.1", SCALER),
        ("torch>=1.10", SCALER),
        ("torch", SCALER),
        ("numpy", SCALER),
        ("torch==2.0.1", TRIED),
        ("torch==2.0.1", TESTED),
        ("torch==2.0.1", "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"),
    ],
)
def test_a_name_that_may_be_there(tmp_path: Path, requirement: str, text: str) -> None:
    assert found(tmp_path, requirement, text) == []
