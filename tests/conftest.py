"""What several test modules share: a project in a temporary directory, and the command run in it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from amplint.cli import main
from amplint.paths import look_again

# How long an example takes says how busy the machine is.
settings.register_profile("amplint", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("amplint")

# A shell that starts the tests in the background has them ignore it, and what they start would ignore it, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

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


@pytest.fixture
def amplint(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Ran]:
    """Run the command in this process."""

    def run(*arguments: str | os.PathLike[str]) -> Ran:
        capfdbinary.readouterr()
        code = main([os.fspath(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return Ran(code, out.decode(), err.decode())

    return run
