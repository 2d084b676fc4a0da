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

sent, received = map(Path, sys.argv[1:])


def wait_for(path):
    while not path.exists():
        time.sleep(0.01)


def send_half(connection, message):
    os.write(connection.fileno(), bytes(message)[: len(message) // 2])
    sent.touch()
    signal.pause()


def work(job):
    if job == "half":
        # Who sends holds the lock: the other process has to be done with its own message.
        wait_for(received)
        Connection._send = lambda connection, message: send_half(connection, message)
    return job


outcomes = in_processes(work, ["whole", "half"], 2, lambda job: f"lost {job}", lambda job: f"unfinished {job}")
print(next(outcomes))
received.touch()
wait_for(sent)
print(outcomes.throw(KeyboardInterrupt))
"""


@pytest.mark.skipif(sys.platform == "win32" or sys.version_info >= (3, 14), reason="the processes have to be forked")
def test_half_of_a_message_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "sent"), str(tmp_path / "received")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert run.stdout.splitlines() == ["whole", "unfinished half"], run.stderr
