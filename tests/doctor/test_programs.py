"""Whole programs under the doctor: the faulty ones name their cause and line first, the healthy ones nothing.

A faulty program marks its fault: `# fault: CAUSE [CODE]` on the line that the doctor has to name.
"""

from __future__ import annotations

import re
import runpy
import sys
from contextlib import suppress
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from amplint.doctor import numbers, observe, readings, scale, sources  # noqa: E402
from amplint.doctor.findings import Report  # noqa: E402
from tests import some  # noqa: E402

PROGRAMS = Path(__file__).parent / "programs"
FAULTY, HEALTHY = (sorted((PROGRAMS / kind).glob("*.py")) for kind in ("faulty", "healthy"))
OF_NO_GPU = ("scaler_of_cuda", "scaler_switched_off", "half_table_and_region_of_cuda")
_FAULT = re.compile(r"# fault: (?P<cause>[\w-]+)(?: (?P<code>AMP\d+))?")


def watched(path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setattr(sys, "argv", [str(path)])
    with suppress(Exception, SystemExit), observe(quiet=True) as seen:
        runpy.run_path(str(path), run_name="__main__")
    assert seen.report is not None
    assert not seen.report.is_off, seen.report.notes
    return seen.report


@pytest.fixture(params=["cpu", "device"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers lie on the CPU; or as if they lay on a device, where a read waits for what was asked for before."""
    if request.param == "device":
        for module in (numbers, readings, scale, sources):
            monkeypatch.setattr(module, "is_readable", lambda tensor: False)


# Each program in one of the two places; with AMPLINT_TEST_ALL=1 in both.
PLACED = [each for path in FAULTY for each in some([(path, "cpu"), (path, "device")], 1)]


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize(
    ("path", "where"), PLACED, indirect=["where"], ids=[f"{path.stem}-{where}" for path, where in PLACED]
)
@pytest.mark.sampled(40)
def test_the_cause_of_a_fault_is_named_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if path.stem in OF_NO_GPU and torch.cuda.is_available():
        pytest.skip("its scaler for CUDA is on here")
    ((line, fault),) = [
        (number, match)
        for number, text in enumerate(path.read_text("utf-8").splitlines(), 1)
        if (match := _FAULT.search(text))
    ]
    report = watched(path, monkeypatch)
    assert report.findings, report
    first = report.findings[0]
    assert first.cause is not None
    assert (first.cause.value, first.code) == (fault["cause"], fault["code"])
    assert first.place is not None
    assert (first.place.path, first.place.line) == (str(path), line)


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
@pytest.mark.sampled(28)
def test_a_healthy_program_is_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(path, monkeypatch).findings == ()


READ_LATER = """\
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
total, more = 0, iter([1, 1, float("inf"), 1])
for step in range(4):
    x = torch.rand(8, 4)
    optimizer.zero_grad()
    loss = model(x).mean() + next(more)
    loss.backward()
    optimizer.step()
    {}
"""


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize(
    "read", ["print(loss.item())", "total += loss; print(total.item())", "print(float(loss)); torch.isfinite(loss)"]
)
def test_a_loss_that_is_read_after_its_step_is_one_problem(
    read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "train.py"
    program.write_text(READ_LATER.format(read), "utf-8")
    (finding,) = watched(program, monkeypatch).findings
    assert (finding.step, finding.place and finding.place.line) == (3, 10)


TWO_WRITERS = """\
import torch
from torch import nn

torch.manual_seed(0)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 3)
        self.out = nn.Linear(3, 2)

    def forward(self, words):
        return self.out(self.table(words))


model = Words()
model.table.weight.data[:2] = torch.randn(2, 3)
model.table.weight.data[2:] = torch.randn(0, 3).mean(0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.tensor([0, step])).mean()
    loss.backward()
    if step < 2:
        optimizer.step()
"""


def test_of_several_lines_that_write_to_bad_weights_all_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "train.py"
    program.write_text(TWO_WRITERS, "utf-8")
    first = watched(program, monkeypatch).findings[0]
    assert first.cause is not None
    assert (first.cause.value, first.place and first.place.line) == ("weights", 23)
    (told,) = first.details
    assert "train.py:18" in told
    assert "train.py:19" in told
