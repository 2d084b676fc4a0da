"""docs/from-apex.md: what it says that apex becomes is right, and trains as in float32."""

from __future__ import annotations

import ast
import re
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ran
from tests.shown import DOCS, files

Write = Callable[[dict[str, str | bytes]], Path]

PAGE = DOCS / "from-apex.md"
_DIFF = re.compile(r"^```diff\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _half(diff: str, sign: str) -> str:
    """The program before (`-`) or after (`+`) a diff."""
    return "".join(f"{line[1:]}\n" for line in diff.splitlines() if line[:1] in {"", " ", sign})


DIFFS = _DIFF.findall(PAGE.read_text("utf-8"))
LOOP, OPTION = (_half(each, "+") for each in DIFFS)
FILES = files(PAGE)


@pytest.mark.parametrize("diff", DIFFS, ids=("loop", "option"))
def test_apex_is_found_before_and_nothing_after(diff: str, project: Write, amplint: Callable[..., Ran]) -> None:
    before = _half(diff, "-")
    ast.parse(before)
    project({"before.py": before, "after.py": _half(diff, "+")})
    found = amplint("--output-format", "concise", "before.py").out.splitlines()
    assert [" AMP105 " in line for line in found] == [True, False]
    assert amplint("after.py").out == "All checks passed!\n"


@pytest.mark.parametrize("program", [LOOP, OPTION, FILES["accumulate.py"]], ids=("loop", "option", "accumulate"))
def test_a_run_shows_that_it_is_right(program: str, project: Write, amplint: Callable[..., Ran]) -> None:
    pytest.importorskip("torch")
    project({"train.py": program})
    ran = amplint("verify", "train.py")
    assert ran.code == 0
    assert "train: clean" in ran.out


def _made(program: str, name: str) -> Any:
    """What a program calls so, on the CPU."""
    names: dict[str, Any] = {}
    exec(compile(program.replace('"cuda"', '"cpu"'), name, "exec"), names)
    return names[name]


def _trained(program: str, **options: Any) -> Any:
    """How some steps change the parameters, from the same start with the same batches."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    start = [each.detach().clone() for each in model.parameters()]
    batches = [(torch.randn(32, 16), torch.randint(0, 4, (32,))) for _ in range(8)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    _made(program, "train")(Namespace(**options), model, optimizer, batches)
    return torch.cat([(each - was).detach().flatten() for each, was in zip(model.parameters(), start, strict=True)])


def _plain(program: str) -> str:
    """The same program in float32."""
    return program.replace("float16)", "float16, enabled=False)").replace('GradScaler("cuda"', 'GradScaler("cuda", 1.0')


def _off(found: Any, reference: Any) -> float:
    return float((found - reference).norm() / reference.norm())


def test_the_loop_trains_as_in_float32_and_resumes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    saved = tmp_path / "saved.pt"
    options = {"resume": None, "checkpoint": saved}
    found = _trained(LOOP, **options)
    state = torch.load(saved)
    assert state["scaler"]["scale"] == 65536.0
    assert state["scaler"]["_growth_tracker"] == 8
    _trained(LOOP, **options | {"resume": saved})
    assert torch.load(saved)["scaler"]["_growth_tracker"] == 16
    assert 0 < _off(found, _trained(_plain(LOOP), **options)) < 0.02


def test_the_option_switches_both() -> None:
    pytest.importorskip("torch")
    assert 0 < _off(_trained(OPTION, fp16=True), _trained(OPTION, fp16=False)) < 0.02


def test_accumulation_trains_as_in_float32() -> None:
    pytest.importorskip("torch")
    program = FILES["accumulate.py"]
    assert 0 < _off(_trained(program, k=2), _trained(_plain(program), k=2)) < 0.02


def test_validation_runs_in_float16() -> None:
    torch = pytest.importorskip("torch")
    dtypes = []
    model = torch.nn.Linear(16, 4)
    model.register_forward_hook(lambda module, given, output: dtypes.append(output.dtype))
    batches = [(torch.randn(32, 16), torch.randint(0, 4, (32,)))]
    assert 0 <= _made(FILES["validate.py"], "validate")(model, batches) <= 1
    assert dtypes == [torch.float16]
    assert model.training


def test_the_state_of_apex_is_refused_and_its_scale_can_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    state = {"loss_scaler0": {"loss_scale": 1024.0, "unskipped": 12}}
    torch.save({"amp": state}, "apex.pt")
    scaler = _made(FILES["resume.py"], "scaler")
    assert scaler.get_scale() == 1024.0
    with pytest.raises(KeyError):
        scaler.load_state_dict(state)


def test_a_disabled_scaler_has_no_state_and_an_enabled_one_refuses_it() -> None:
    torch = pytest.importorskip("torch")
    state = torch.amp.GradScaler("cpu", enabled=False).state_dict()
    assert state == {}
    with pytest.raises(RuntimeError, match="empty"):
        torch.amp.GradScaler("cpu").load_state_dict(state)


def test_float16_parameters_are_refused() -> None:
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.ones(2, dtype=torch.float16))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(parameter.sum()).backward()
    with pytest.raises(ValueError, match="FP16 gradients"):
        scaler.unscale_(torch.optim.SGD([parameter], lr=0.1))


@pytest.mark.parametrize(("target", "row"), [(">=2.3", 0), (">=1.10,<2.3", 1), (">=1.6,<1.10", 2)])
def test_the_advice_has_the_names_of_the_release(
    target: str, row: int, project: Write, amplint: Callable[..., Ran]
) -> None:
    project({"before.py": _half(DIFFS[0], "-")})
    said = amplint("--target-torch", target, "before.py").out
    rows = re.findall(r"^\| [\d.]+ [^|]*\| `([^`]+)` \| `([^`]+)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 3
    region, scaler = rows[row]
    assert f"`{scaler}`" in said
    assert f"`{region.replace(', dtype=torch.float16', '')}`" in said
