"""The process that runs programs, and the command: limits, hostile programs, what is never executed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.verify.fixtures import run
from amplint.verify.fixtures.find import NotAFixture, find_fixtures
from amplint.verify.fixtures.output import as_json, as_table
from amplint.verify.fixtures.run import Row, Runner, row_of, verify
from tests import ROOT
from tests.conftest import Ran, own_workers

pytest.importorskip("torch")

Amplint = Callable[..., Ran]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="as Linux does it")

STEP = """\
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(64, 32)), torch.randint(10, (64,)))
    scaler.scale(loss).backward()
    STEP
    scaler.step(optimizer)
    scaler.update()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)"
BAD = STEP.replace("STEP", CLIP)
FIXED = STEP.replace("STEP", f"scaler.unscale_(optimizer); {CLIP}")


def fixture(folder: Path, bad: str, fixed: str = "pass", shows: str = "exception", more: str = "") -> Path:
    """Write a variant into a folder of its own."""
    folder.mkdir(parents=True)
    (folder / "bad.py").write_text(f"# amplint-fixture: fix=hand shows={shows}{more}\n{bad}\n")
    (folder / "fixed.py").write_text(f"{fixed}\n")
    return folder


LATE = 1  # second
# What a half does, and the row's words for it. Sorted by name, a good fixture is behind each.
ENDS = {
    "allocates": (
        "import torch; torch.empty(3 << 30, dtype=torch.uint8)",
        "out of memory: RuntimeError: [enforce fail",
    ),
    "mute": ("import sys; sys.stdout.close(); 1/0", "ZeroDivision"),
    "closes": ("import os; os.closerange(3, 64)", "died: exit status 1"),
    "dies": ("import os; print('last words', flush=True); os._exit(3)", "died: exit status 3"),
    "exits": ("import sys; sys.exit(4)", "exited: status 4"),
    "fills": ("x = bytearray(3 << 30)", "out of memory: MemoryError"),
    "loops": ("while True: pass", f"timed out: after {LATE} s"),
    "quits": ("raise SystemExit", "exited: status 0"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "died: signal SIGSEGV"),
    "threads": ("import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); 1/0", "ZeroDivision"),
}
FIXED_TOO = ("allocates", "dies", "exits", "quits")
# Programs that are right only if nothing of the others reaches them; "x" raises, so a row is confirmed.
CLEAN = {
    "alarm": "import signal; getattr(signal, 'setitimer', max)(getattr(signal, 'ITIMER_REAL', 0), 0.5)",
    "alarm_again": "import time; time.sleep(0.8)",
    "environment": "import os; assert not {'SECRET', 'PYTHONPATH'} & set(os.environ); os.environ['LEFT'] = 'x'",
    "environment_again": "import os; assert 'LEFT' not in os.environ",
    "folder": "import os; assert not os.listdir(); open('left', 'w').close(); assert os.getcwd() != 'FOLDER'",
    "folder_again": "import os; assert not os.listdir()",
    "forks": "import os; getattr(os, 'fork', int)()",
    "forks_and_exits": "import os, sys; getattr(os, 'fork', lambda: 1)() or sys.exit(3)",
    "modules": "import neighbour; assert neighbour.__file__.startswith('FOLDER')",
    "modules_again": "import neighbour; assert neighbour.__file__.startswith('FOLDER')",
    "name": "import sys; assert __name__ == '__main__' and sys.argv == [__file__]",
    "output": "import os; os.write(1, b'{\"observed\": 1}\\n' * 9999); print('on stdout')",
    "seeds": "import random, torch; assert (random.random(), torch.rand(1).item()) == SEEDS",
    "settings": "import torch; torch.autograd.set_detect_anomaly(True); torch.use_deterministic_algorithms(True)",
    "settings_again": (
        "import torch; assert not torch.is_anomaly_enabled() and not torch.are_deterministic_algorithms_enabled()"
    ),
    "state": "import torch; torch.autocast('cpu').__enter__(); torch.set_default_device('meta')",
    "state_again": "import torch; assert not torch.is_autocast_enabled('cpu') and torch.ones(1).item() == 1",
    "stdin": "import sys; assert sys.stdin.read() == ''",
}


def rows_of(folder: Path) -> dict[str, Row]:
    """The rows of one run over all variants below a folder, by their names."""
    with own_workers(), tempfile.TemporaryDirectory() as temporary, Runner(temporary) as runner:
        # What never ends is waited for, and takes all of a processor.
        found = [
            row_of(each, runner, timeout=LATE if each.name == "end_loops" else 20, memory=1024)
            for each in find_fixtures([str(folder)])
        ]
    return {each.fixture.name: each for each in found}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process's memory")
@pytest.mark.usefixtures("own_worker")
def test_a_program_that_lifts_its_limit_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_ROOM", 64)
    lifts = "import resource; resource.setrlimit(resource.RLIMIT_AS, resource.getrlimit(resource.RLIMIT_AS)[1:] * 2)"
    fixture(
        tmp_path / "AMP900_hostile" / "lifts",
        f"{lifts}; x = bytearray(b'x') * (600 << 20); import time; time.sleep(600)",
    )
    (row,) = verify([tmp_path], timeout=300, memory=256)
    assert row.before.startswith("out of memory: more than")


@LINUX
def test_a_limit_of_a_program_on_the_cpu_is_lifted_for_one_on_cuda() -> None:
    """CUDA maps far more than it uses."""
    import resource

    from amplint.verify.worker import _limit

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # what limits itself
        try:
            for real_cuda in (False, True):
                _limit(60, 100, real_cuda=real_cuda)
                soft, hard = resource.getrlimit(resource.RLIMIT_AS)
                os.write(writing, b"lifted " if soft == hard else b"limited ")
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as said:
        assert said.read().split() == [b"limited", b"lifted"]


def test_hostile_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test for all of them: processes that share the tests would each run the programs."""
    import random

    import torch

    monkeypatch.setenv("SECRET", "1")
    folder = tmp_path / "AMP900_hostile"
    seeds = random.Random(0).random(), torch.rand(1, generator=torch.Generator().manual_seed(0)).item()
    for name, (program, _) in ENDS.items():
        fixture(folder / f"end_{name}", program)
        if name in FIXED_TOO:
            fixture(folder / f"end_{name}_fixed", "1/0", program)
    for name, program in CLEAN.items():
        own = folder / f"clean_{name}"
        fixture(own, "raise ValueError('x')", program.replace("FOLDER", str(own)).replace("SEEDS", repr(seeds)))
        (own / "neighbour.py").write_text("")
    rows = rows_of(folder)

    # A half that does not end well has a row that says so.
    for name, (_, said) in ENDS.items():
        bad = rows[f"end_{name}"]
        assert said in bad.before, name
        assert bad.verdict == ("confirmed" if "Zero" in bad.before else "refuted"), name
        if name in FIXED_TOO:
            fixed = rows[f"end_{name}_fixed"]
            assert said in fixed.after, name
            assert fixed.verdict == "refuted", name
    loops = rows["end_loops"].bad
    assert loops
    assert loops.seconds == LATE

    # Nothing reaches from one program to another.
    for name in CLEAN:
        row = rows[f"clean_{name}"]
        assert (row.verdict, row.before, row.after) == ("confirmed", "ValueError: x", "no exception"), name
    output = rows["clean_output"].fixed
    assert output
    assert output.output.endswith('{"observed": 1}\non stdout\n')
    assert len(output.output) <= 2000


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Rows of each kind: confirmed, refuted, dead, simulated."""
    folder = tmp_path_factory.mktemp("fixtures") / "AMP900_hostile"
    fixture(folder / "dies", ENDS["dies"][0])
    fixture(folder / "good", BAD, FIXED, "gradient")
    fixture(folder / "swapped", FIXED, BAD, "gradient")
    fixture(folder / "simulated", BAD.replace("cpu", "xpu"), FIXED.replace("cpu", "xpu"), "gradient", " device=xpu")
    return rows_of(folder)


def test_proofs_and_refutations(rows: dict[str, Row]) -> None:
    good = rows["good"]
    assert (good.verdict, good.reason) == ("confirmed", "")
    assert good.before.startswith("clip saw 65,5")
    assert good.after.startswith("clip saw 1.00 x the true norm, update off by ")
    assert rows["swapped"].verdict == "refuted"
    assert rows["swapped"].reason == "the bad half does not misbehave"


def test_table(rows: dict[str, Row]) -> None:
    some = [rows[name] for name in ("good", "swapped", "dies")]
    table = as_table(some, 120)
    lines = table.splitlines()
    assert lines[0] == "AMP900 hostile"
    assert lines[1].split() == ["shows", "before", "after", "verdict", "s"]
    assert lines[2].startswith("good ")
    assert "  refuted: the bad half does not misbehave" in lines
    assert lines[-1].startswith("1 confirmed, 2 refuted; ")
    assert max(map(len, lines)) <= 120
    assert as_table(some, 10), "too narrow for words"
    if rows["simulated"].simulated:
        table = as_table([rows["simulated"]])
        assert "gradient, xpu*" in table
        assert "* simulated on the CPU" in table
    assert rows["simulated"].verdict == "confirmed"


def test_json(rows: dict[str, Row]) -> None:
    (found,) = as_json([rows["good"]])
    assert list(found) == [
        *("schema_version", "rule", "variant", "path", "shows", "device", "simulated", "verdict", "reason"),
        *("before", "after", "seconds", "bad", "fixed"),
    ]
    assert (found["rule"], found["variant"], found["verdict"], found["reason"]) == ("AMP900", "good", "confirmed", None)
    assert found["bad"]["clip"]["factor"] > 60000
    rows["good"].fixed.update.error = float("inf")  # type: ignore[union-attr]
    assert as_json([rows["good"]])[0]["fixed"]["update"]["error"] is None


@LINUX
@pytest.mark.usefixtures("own_worker")
def test_a_program_s_own_processes_and_files_end_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid, temporary = tmp_path / "pid", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    start = "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    write = f"open({str(pid)!r}, 'w').write(str(child.pid)); 1/0"
    (row,) = verify([fixture(tmp_path / "it", f"{start}; {write}")])
    assert row.verdict == "confirmed"
    _wait_until_gone(int(pid.read_text()))
    assert not list(temporary.iterdir())


def _wait_until_gone(pid: int) -> None:
    end = time.monotonic() + 300  # only if it fails
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return  # dead; nobody has asked for its status
        except OSError:
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} goes on")


@LINUX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left_behind(tmp_path: Path, number: int) -> None:
    pid, temporary = tmp_path / "pid", tmp_path / "temporary"
    temporary.mkdir()
    program = f"import os; open({str(pid)!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    fixture(tmp_path / "it", program)
    command = subprocess.Popen(
        [sys.executable, "-m", "amplint", "verify", "--run", str(tmp_path / "it")],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        end = time.monotonic() + 600
        while not (pid.exists() and pid.read_text()) and time.monotonic() < end:
            time.sleep(0.05)
        command.send_signal(number)
        _, said = command.communicate(timeout=600)
    finally:
        command.kill()
    _wait_until_gone(int(pid.read_text()))
    if number == signal.SIGINT:
        assert (command.returncode, said) == (130, "amplint: interrupted\n")
        assert not list(temporary.iterdir())


# --- what is not executed


TRACE = "open('TRACE', 'w').close()"


def _write(folder: Path, files: dict[str, str], trace: Path) -> None:
    folder.mkdir()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("RUN", TRACE).replace("TRACE", str(trace)))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"bad.py": "# amplint-fixture: fix=safe shows=update\nRUN"}, "no such file"),
        ({"bad.py": "# amplint-fixture: fix=safe shows=everything\nRUN", "fixed.py": "RUN"}, "is unknown"),
        ({"bad.py": "# amplint-fixture: shows=update device=tpu\nRUN", "fixed.py": "RUN"}, "is unknown"),
        ({"bad/main.py": "# amplint-fixture: shows=update\nRUN"}, "no such file"),
    ],
)
def test_a_broken_fixture_is_not_executed(amplint: Amplint, tmp_path: Path, files: dict[str, str], said: str) -> None:
    good = fixture(tmp_path / "good", TRACE.replace("TRACE", str(tmp_path / "trace")))
    _write(tmp_path / "folder", files, tmp_path / "trace")
    ran = amplint("verify", "--run", good, tmp_path / "folder")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    "files",
    [
        {"bad.py": "\n# amplint-fixture: fix=safe shows=update\nRUN", "fixed.py": "RUN"},
        {"bad.py": "RUN", "fixed.py": "RUN"},
        {"main.py": "# amplint-fixture: fix=safe shows=update\nRUN"},
        {"bad.py": " # amplint-fixture: shows=update\nRUN", "fixed.py": "RUN"},
        {"bad/main.py": "RUN", "fixed/main.py": "RUN"},
        {"a/b/c/bad.py": "# amplint-fixture: shows=update\nRUN", "a/b/c/fixed.py": "RUN"},
        {},
    ],
)
def test_what_is_no_fixture_is_not_executed(amplint: Amplint, tmp_path: Path, files: dict[str, str]) -> None:
    _write(tmp_path / "folder", files, tmp_path / "trace")
    ran = amplint("verify", "--run", tmp_path / "folder")
    empty = "" if files else f"amplint: warning: no Python files in {tmp_path}/folder\n"
    assert (ran.code, ran.err) == (0, empty)
    assert ran.out.startswith("nothing to check: ")
    assert not (tmp_path / "trace").exists()


def test_a_missing_path_and_other_files(tmp_path: Path) -> None:
    own = fixture(tmp_path / "AMP900_x" / "it", "1/0")
    for path in (tmp_path / "none", own / "fixed.py", tmp_path / "AMP900_x" / "bad.py"):
        with pytest.raises(NotAFixture) as raised:
            find_fixtures([str(path)])
        assert ("no such file" in str(raised.value)) is not path.exists()


def test_progress_is_for_a_terminal(amplint: Amplint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    fixture(tmp_path / "AMP900_x" / "it", "1/0")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    ran = amplint("verify", "--run", tmp_path)
    assert "[1/1] AMP900 it" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert "1 confirmed" in ran.out


def test_every_kind_of_path(tmp_path: Path) -> None:
    own = fixture(tmp_path / "AMP900_x" / "it", "1/0")
    several = tmp_path / "AMP900_x" / "several"
    for half in ("bad", "fixed"):
        (several / half).mkdir(parents=True)
        (several / half / "main.py").write_text("")
        (several / half / "again.py").write_text("# amplint-fixture: fix=safe shows=none\n")
    upwards = own / "more" / ".."
    (own / "more").mkdir()
    for path in (tmp_path, tmp_path / "AMP900_x", own, own / "bad.py", upwards):
        found = find_fixtures([str(path), str(path)])
        assert (found[0].rule, found[0].name, found[0].bad) == ("AMP900", "it", own / "bad.py")
        assert len(found) == (2 if path in (tmp_path, tmp_path / "AMP900_x") else 1)
    for path in (several, several / "bad"):
        (found,) = find_fixtures([str(path)])
        assert (found.rule, found.name, found.bad) == ("AMP900", "several", several / "bad" / "main.py")
        assert found.folder == "AMP900_x"


# --- the command


def test_fixtures_are_run_for_those_only_who_ask_for_it(amplint: Amplint, tmp_path: Path) -> None:
    """A folder of somebody else's code may look like one."""
    fixture(tmp_path / "AMP900_x" / "it", TRACE.replace("TRACE", str(tmp_path / "trace")))
    for path in (tmp_path, tmp_path / "AMP900_x" / "it", tmp_path / "AMP900_x" / "it" / "bad.py"):
        ran = amplint("verify", path)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("nothing to check: ")
    assert not (tmp_path / "trace").exists()
    amplint("verify", "--run", tmp_path)
    assert (tmp_path / "trace").exists()


def test_what_is_not_run_is_neither_confirmed_nor_refuted(amplint: Amplint, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    fixture(tmp_path / "AMP900_x" / "it", TRACE.replace("TRACE", str(trace)), shows="none")
    ran = amplint("verify", "--run", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert "`amplint rule AMP900` says why" in ran.out
    assert ran.out.endswith("1 not executed; 0.0 s\n")
    assert not trace.exists()


def test_exit_codes_and_formats(amplint: Amplint, tmp_path: Path) -> None:
    for name in ("confirmed", "refuted"):
        fixture(tmp_path / name, "1/0" if name == "confirmed" else "pass")
    ran = amplint("verify", "--run", tmp_path / "confirmed", "--output-format", "json")
    assert (ran.code, ran.err) == (0, "")
    assert [each["verdict"] for each in json.loads(ran.out)] == ["confirmed"]
    ran = amplint("verify", "--run", tmp_path)
    assert ran.code == 1
    assert "1 confirmed, 1 refuted" in ran.out


@pytest.mark.parametrize(
    ("program", "device", "expected"),
    [
        ("import torch; raise ValueError(torch.amp.GradScaler('DEVICE').is_enabled())", "cuda", "ValueError: True"),
        ("import torch; raise ValueError(torch.autocast('DEVICE').fast_dtype)", "xpu", "ValueError: torch.float16"),
        ("import torch; raise ValueError(torch.zeros(1, device='DEVICE').sum().item())", "mps", "ValueError: 0.0"),
    ],
)
def test_devices_are_simulated_where_they_are_not(
    amplint: Amplint, tmp_path: Path, program: str, device: str, expected: str
) -> None:
    import torch

    if torch.cuda.is_available() or torch.xpu.is_available() or torch.backends.mps.is_available():
        pytest.skip("there is one")
    text = program.replace("DEVICE", device)
    fixture(tmp_path / "by_marker", text, more=f" device={device}")
    fixture(tmp_path / "by_option", text)
    ran = amplint("verify", "--run", tmp_path, "--device", device, "--output-format", "json")
    found = [(each["before"], each["device"], each["simulated"]) for each in json.loads(ran.out)]
    assert found == [(expected, device, True)] * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verify", ".", "--timeout", "0"], "--timeout"),
        (["verify", ".", "--timeout", "nan"], "--timeout"),
        (["verify", ".", "--timeout", "x"], "--timeout"),
        (["verify", ".", "--memory", "-1"], "--memory"),
        (["verify", ".", "--device", "tpu"], "--device"),
    ],
)
def test_mistakes_in_the_options(amplint: Amplint, arguments: list[str], said: str) -> None:
    ran = amplint(*arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_without_torch(amplint: Amplint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = fixture(tmp_path / "it", "1/0")
    how = 'pip install "amplint[verify] @ git+https://github.com/amplint/amplint"\n'
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.3.1")
    ran = amplint("verify", "--run", it)
    assert (ran.code, ran.err) == (2, f"amplint: error: verify needs torch 2.4 or later, this is 2.3.1: {how}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    ran = amplint("verify", "--run", it)
    assert (ran.code, ran.err) == (2, f"amplint: error: verify needs torch, which is not installed: {how}")


@pytest.mark.usefixtures("own_worker")
def test_a_torch_that_does_not_start(amplint: Amplint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken" / "torch").mkdir(parents=True)
    (tmp_path / "broken" / "torch" / "__init__.py").write_text("raise ImportError('libtorch.so: gone')")
    monkeypatch.syspath_prepend(str(tmp_path / "broken"))
    monkeypatch.delitem(sys.modules, "torch")
    ran = amplint("verify", "--run", fixture(tmp_path / "it", "1/0"))
    assert ran.code == 2
    assert ran.err == ("amplint: error: the process that imports torch did not start: ImportError: libtorch.so: gone\n")
