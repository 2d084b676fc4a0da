"""What several test modules share: a project in a temporary directory, and the command run in it."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from amplint.base.paths import look_again
from amplint.cli import main
from amplint.runner import processors
from amplint.verify.fixtures import run
from tests import some

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

# As many processes as there are cores: threads of torch would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes says how busy the machine is.
settings.register_profile(
    "amplint",
    deadline=None,
    max_examples=100 if "AMPLINT_TEST_ALL" in os.environ else 20,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("amplint")

# A shell that starts the tests in the background has them ignore it, and what they start would ignore it, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let a process that has done its half take from the other's: the slow tests stand at the end, and in one place.

    Each process has neighbouring tests, which share what is made once for a module.
    """
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """With `-n auto`, three processes for two cores: many tests wait for what they have started."""
    cores = processors()
    return cores + -(-cores // 2)


def pytest_collection_finish() -> None:
    """Keep what was collected out of each later search for garbage: it stays, and is most of all objects."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Say what a mark of these tests means."""
    config.addinivalue_line("markers", "sampled(most): of its cases so many are run; with AMPLINT_TEST_ALL=1 all")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test that runs whole programs, and is marked so, take a sample of the cases that were asked for."""
    cases: dict[str, list[pytest.Item]] = {}
    for each in items:
        if each.get_closest_marker("sampled"):
            cases.setdefault(each.nodeid.partition("[")[0], []).append(each)
    left: set[pytest.Item] = set()
    for of_one in cases.values():
        mark = of_one[0].get_closest_marker("sampled")
        assert mark is not None
        left |= {*of_one} - {*some(of_one, *mark.args)}
    if left:
        config.hook.pytest_deselected(items=[each for each in items if each in left])
        items[:] = [each for each in items if each not in left]


def _limits() -> list[tuple[int, int]]:
    """What this process may use of memory, of the processor, and of disk."""
    if resource is None:
        return []
    return [resource.getrlimit(kind) for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)]


_STARTED_WITH = _limits()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Name the test that limits this process: one that comes much later would die of it, and nothing would say why."""
    assert _limits() == _STARTED_WITH, f"{item.nodeid} limits what the tests after it may use"


# It is tested where it is installed (test_plugins.py).
collect_ignore = ["example_plugin"]
# Always reported as AMP101, always with a safe fix.
LEGACY = "import torch\n\n\ndef run(model, x):\n    with torch.cuda.amp.autocast():\n        return model(x)\n"
MODERN = LEGACY.replace("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")')
# One finding with an unsafe fix.
UNSAFE = """\
import torch


def train(model, optimizer, batches, device):
    scaler = torch.amp.GradScaler()
    for x, y in batches:
        with torch.autocast(device_type=device.type, dtype=torch.float16):
            loss = (model(x) - y).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@contextmanager
def processor_time(at_most: float) -> Iterator[None]:
    """Fail where what is done takes more seconds of the processor, which the work of others doesn't use up.

    `at_most` is to be many times what it takes: this is for what would take minutes, or for ever.
    """
    started = time.process_time()
    yield
    assert time.process_time() - started < at_most


class Ran(NamedTuple):
    """A finished command."""

    code: int
    out: str
    err: str


# Tests that lint and verify texts. A text without a path is a file of the folder that a test is run in, and this
# repository has thousands of files, in which it could be imported.
_OF_TEXTS = ("model", "rules", "verify")


@pytest.fixture(scope="session")
def empty_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is a project's root, without files."""
    folder = tmp_path_factory.mktemp("empty")
    (folder / ".git").mkdir()
    return folder


@pytest.fixture(autouse=True)
def _in_an_empty_project(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the tests of texts in a folder without files."""
    if request.path.relative_to(Path(__file__).parent).parts[0] in _OF_TEXTS:
        monkeypatch.chdir(request.getfixturevalue("empty_project"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str | bytes]], Path]:
    """Write files below a fresh current directory."""
    monkeypatch.chdir(tmp_path)
    look_again()

    def write(files: dict[str, str | bytes]) -> Path:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        look_again()
        return tmp_path

    return write


_Worker = run._Worker


class KeptWorker:
    """A worker of `amplint verify` that is left to who wants the next one, unless it was lost or has said its last.

    It starts with torch, which takes longer than what most tests ask of it.
    """

    spare: ClassVar[list[_Worker]] = []
    number: ClassVar[int] = 0

    def __init__(self, _: str) -> None:
        self._ready = bool(self.spare)
        self._worker = self.spare.pop() if self._ready else _Worker(tempfile.gettempdir())
        self._usable = True
        KeptWorker.number += 1
        self._first = KeptWorker.number << 20

    def wait_until_ready(self) -> None:
        if not self._ready:
            self._usable = False
            self._worker.wait_until_ready()
            self._usable = True

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        usable, self._usable = self._usable, False
        # What it has seen of files is another's: that they may have changed since is what it is told.
        answer = self._worker.ask({**job, "changes": self._first + job["changes"]} if "changes" in job else job)
        self._usable = usable and ("ask" in job or answer.get("last") is False)
        return answer

    def kill(self) -> None:
        if self._usable:
            self.spare.append(self._worker)
        else:
            self._worker.kill()


@atexit.register
def _end_spare_workers() -> None:
    while KeptWorker.spare:
        KeptWorker.spare.pop().kill()


# What is verified in this process is run by a worker that others have used, and others will.
run._Worker = KeptWorker  # type: ignore[assignment, misc]


@contextmanager
def own_workers() -> Iterator[None]:
    """Have workers of one's own, which nobody has used and nobody will."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(run, "_Worker", _Worker)
        yield


@pytest.fixture
def own_worker() -> Iterator[None]:
    """Let a test have workers of its own."""
    with own_workers():
        yield


@pytest.fixture
def amplint(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Ran]:
    """Run the command in this process."""

    def run_command(*arguments: str | os.PathLike[str]) -> Ran:
        capfdbinary.readouterr()
        code = main([os.fspath(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return Ran(code, out.decode(), err.decode())

    return run_command
