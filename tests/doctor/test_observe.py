from __future__ import annotations

import ast
import contextlib
import importlib
import io
import linecache
import os
import pickle
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import amplint.doctor
from amplint.base.about import REPORT
from amplint.base.paths import shown
from amplint.doctor import observe, start
from amplint.doctor.findings import Cause, Evidence, Finding, Place, Report, Verdict
from amplint.doctor.options import Stopped
from amplint.doctor.places import place_of
from amplint.doctor.session import Session
from amplint.doctor.start import CannotWatch
from tests import ROOT

FOUND = Report((Finding(Cause.DATA, Evidence.SEEN, "the batch is not finite"),), steps=2)


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """Let all sessions find the same; what ended the blocks comes into the list."""
    errors: list[BaseException | None] = []

    def finish(_: Session, error: BaseException | None = None) -> Report:
        errors.append(error)
        return FOUND

    monkeypatch.setattr(Session, "install", lambda _: None)
    monkeypatch.setattr(Session, "finish", finish)
    return errors


def test_what_is_seen(finds: list[BaseException | None], capsys: pytest.CaptureFixture[str]) -> None:
    with observe() as seen:
        assert (seen.report, seen.findings) == (None, ())
        assert repr(seen) == "Seen(watching, [])"
    assert seen.report == FOUND
    assert [each.cause for each in seen.findings] == [Cause.DATA]
    assert repr(seen).startswith("Seen(problems, [Finding(")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "amplint: 1 problem, 2 steps, none skipped\n\ndata  the batch is not finite [seen]\n"
    assert finds == [None]


def test_quiet(finds: list[BaseException | None], capsys: pytest.CaptureFixture[str]) -> None:
    with observe(quiet=True) as seen:
        pass
    assert seen.findings
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt(), Stopped(3)])
def test_what_is_raised_comes_through(finds: list[BaseException | None], error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, observe(quiet=True) as seen:
        raise error
    assert caught.value is error
    assert finds == [error]
    assert seen.report == FOUND


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("torch.nn.Linear(2, 2).to('nowhere')", (0, 1)),
        ("torch.nn.Linear(2, 2)(torch.ones(3)).nothing()", (0, 1)),
        ("raise RuntimeError", (0, 0)),
    ],
)
def test_a_line_that_raises_is_no_forward_pass(line: str, counts: tuple[int, int], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "raises.py"
    path.write_text(f"import torch\n\n{line}\n", "utf-8")
    with contextlib.suppress(Exception), observe(quiet=True) as seen:
        runpy.run_path(str(path))
    assert seen.report is not None
    assert (seen.report.forwards, seen.report.statements) == counts


def test_one_at_a_time(finds: list[BaseException | None]) -> None:
    with observe(quiet=True) as seen:
        with pytest.raises(RuntimeError, match="amplint is watching already"), observe():
            pass
        with pytest.raises(CannotWatch), contextlib.ExitStack() as stack:
            stack.enter_context(observe())
        assert seen.report is None
    with observe(quiet=True) as again:
        pass
    assert seen.report == again.report == FOUND
    assert finds == [None, None]


def test_a_bug_of_ours_costs_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Session, "install", lambda _: 1 / 0)
    monkeypatch.setattr(Session, "finish", lambda *_: 1 / 0)
    with observe() as seen:
        pass
    assert seen.report is not None
    assert seen.report.is_off
    assert seen.findings == ()
    err = capsys.readouterr().err
    assert err.startswith(
        "amplint: amplint stopped watching because of a bug of its own: ZeroDivisionError: division by zero (test_"
    )
    monkeypatch.setattr("amplint.doctor.output.as_text", lambda *_, **__: 1 / 0)
    with observe():
        pass
    assert capsys.readouterr().err.count("ZeroDivisionError") == 2


@pytest.mark.parametrize("name", ["scale.ScaleLog.__init__", "watch.Watching.__init__"])
def test_a_doctor_that_is_off_calls_nothing_healthy(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    importlib.import_module("amplint.doctor.watch")
    monkeypatch.setattr(f"amplint.doctor.{name}", lambda *_, **__: 1 / 0)
    with observe() as seen:
        torch.amp.GradScaler("cpu")
    assert seen.report is not None
    assert (seen.verdict, seen.report.verdict, seen.report.is_off) == ("off", Verdict.OFF, True)
    assert repr(seen) == "Seen(off, [])"
    err = " ".join(capsys.readouterr().err.split())
    assert err.count("ZeroDivisionError: division by zero (test_observe.py:") == 2  # at once, and as a note
    assert err.count(f"; {REPORT}") == 2
    assert "amplint: amplint disabled itself" in err


def test_a_stream_that_is_closed(finds: list[BaseException | None], monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (None, io.StringIO(), io.TextIOWrapper(io.BytesIO(), "ascii")):
        monkeypatch.setattr(sys, "stderr", stream)
        with observe():
            if isinstance(stream, io.StringIO):
                stream.close()
    assert len(finds) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_is_silent(finds: list[BaseException | None], capfd: pytest.CaptureFixture[str]) -> None:
    pid = 1
    with contextlib.suppress(GeneratorExit), observe() as seen:
        pid = os.fork()
        if not pid:
            raise GeneratorExit
    if not pid:
        os._exit(0 if seen.report is None and not finds else 9)
    assert os.waitpid(pid, 0)[1] == 0
    assert capfd.readouterr().err.count("problem") == 1


def test_torch_that_is_missing_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start.importlib.metadata, "version", lambda _: "2.3.1+cu118")
    with pytest.raises(CannotWatch, match=r"needs torch 2\.4 or later, this is 2\.3\.1\+cu118: pip install"), observe():
        pass
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(start.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(CannotWatch, match="torch is not installed, which amplint run needs: pip install"), observe():
        pass


def test_its_import_costs_nothing() -> None:
    code = "import sys, amplint.doctor; print({'torch', 'libcst', 'amplint.doctor.start'} & {*sys.modules})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    assert amplint.doctor.__all__ == ["Seen", "observe"]


def test_causes_and_places_are_printed_and_kept() -> None:
    place = place_of(sys._getframe())
    assert place is not None
    assert place.span is not None or sys.version_info < (3, 11)
    assert (str(Cause.DATA), str(place)) == ("data", f"{shown(__file__)}:{place.line}")
    assert "code" not in repr(place)
    kept = pickle.loads(pickle.dumps(Finding(Cause.DATA, Evidence.SEEN, "message", place)))
    assert kept == Finding(Cause.DATA, Evidence.SEEN, "message", Place(*place.is_at))


CELL = """\
import contextlib
import torch
from amplint.doctor import observe
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.rand(8, 4) * 100
off = False
def watching():
    return observe(quiet=True)
ahead = observe(quiet=True)
{}
    for step in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x)
            loss = (out * out * 1000).mean()  # here
        loss.backward()
        optimizer.step()
{}"""


def run_cell(text: str, name: str = "<module>") -> amplint.doctor.Seen:
    """What `seen` is after a cell of a notebook: its statements run one by one, as code that has this name."""
    path, names = "<ipython-input-1-0123456789ab>", {"__name__": "__main__"}
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    for statement in ast.parse(text).body:
        code = compile(ast.Module([statement], []), path, "exec", dont_inherit=True)
        exec(code.replace(co_name=name), names)
    seen: amplint.doctor.Seen = names["seen"]  # type: ignore[assignment]
    return seen


def is_explained(seen: amplint.doctor.Seen, function: str) -> None:
    assert [(each.code, each.evidence) for each in seen.findings] == [("AMP510", Evidence.REPRODUCED)]
    place = seen.findings[0].place
    assert place is not None
    assert linecache.getline(place.path, place.line).endswith("# here\n")
    assert place.function == function


@pytest.mark.parametrize(
    "start",
    [
        "with observe(quiet=True) as seen:",
        "with ahead as seen:",
        "with watching() as seen:",
        "with contextlib.nullcontext() if off else observe(quiet=True) as seen:",
        "with contextlib.ExitStack() as stack, observe(quiet=True) as seen:",
    ],
)
@pytest.mark.parametrize("name", ["<module>", "<cell line: 12>"])
def test_a_block_at_the_top_level(start: str, name: str) -> None:
    pytest.importorskip("torch")
    is_explained(run_cell(CELL.format(start, ""), name), name)


@pytest.mark.parametrize(
    ("start", "end", "function"),
    [
        ("def fit():", "with observe(quiet=True) as seen:\n    fit()\n", "fit"),
        (
            "def outer():\n  def fit():",
            "  with observe(quiet=True) as seen:\n    fit()\n  return seen\nseen = outer()",
            "fit",
        ),
        ("def outer():\n  with observe(quiet=True) as seen:", "  return seen\nseen = outer()", "outer"),
    ],
)
def test_blocks_and_functions(start: str, end: str, function: str) -> None:
    pytest.importorskip("torch")
    is_explained(run_cell(CELL.format(start, end)), function)
