"""Ctrl-C while a process sends what it has done."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys, time
from multiprocessing.connection import Connection
from pathlib import Path

from amplint.files.pool import in_processes

sent = Path(sys.argv[1])


def send_half(connection, message):
    os.write(connection.fileno(), bytes(message)[: len(message) // 2])
    sent.touch()
    signal.pause()


def work(job):
    if job == "half":
        Connection._send = lambda connection, message: send_half(connection, message)
    return job


outcomes = in_processes(work, ["whole", "half"], 2, lambda job: f"lost {job}", lambda job: f"unfinished {job}")
print(next(outcomes))
while not sent.exists():
    time.sleep(0.01)
print(outcomes.throw(KeyboardInterrupt))
"""


@pytest.mark.skipif(sys.platform == "win32" or sys.version_info >= (3, 14), reason="the processes have to be forked")
def test_half_of_a_message_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "sent")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert run.stdout.splitlines() == ["whole", "unfinished half"], run.stderr
