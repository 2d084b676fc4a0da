"""What can't be followed is said with --verbose, and silent without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplint import check
from tests.conftest import Ran
from tests.shapes import SHAPES

# Each flag unscales its own optimizer, so that no two paths are alike.
FLAGS = 12
BODY = "".join(f"        if flags.f{i}:\n            scaler.unscale_(optimizers.o{i})\n" for i in range(FLAGS))
TOO_MANY = f"""\
import torch


def train(loader, model, optimizers, flags):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(model(x)).backward()
{BODY}        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizers.o0)
        scaler.update()
"""


def test_a_function_with_too_many_paths_is_named(
    project: Callable[[dict[str, str | bytes]], Path], amplint: Callable[..., Ran]
) -> None:
    project({"many.py": TOO_MANY})
    ran = amplint("--verbose", "--isolated", "many.py")
    assert ran.err == "amplint: many.py: line 4: train has too many paths to follow\n"
    assert amplint("--isolated", "many.py").err == ""


@pytest.mark.parametrize("count", [1, 3])
def test_one_with_fewer_is_followed(count: int) -> None:
    kept = BODY.splitlines()[: 2 * count]
    text = TOO_MANY.replace(BODY, "".join(f"{line}\n" for line in kept))
    assert any(each.code.startswith("AMP4") for each in check(text))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("times", [1, 10])
def test_what_is_planted_in_a_long_function_is_found(name: str, times: int) -> None:
    make, size = SHAPES[name]
    assert "AMP401" in {each.code for each in check(make(size * times))}
