"""Runs accelerate, Lightning and transformers' Trainer under `amplint run`: `python -m tests.doctor.frameworks`.

They are unmodified: those that are installed here, or else those of PyPI, in a virtual environment in the cache folder
with the torch that is here. Each has a healthy program, of which the doctor must say so, and a faulty one whose line it
must name; all print what they print without it. They run in float16 where there is a GPU, else in bfloat16 on the CPU.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path
from typing import NamedTuple

from tests import ROOT

FRAMEWORKS = ("accelerate", "lightning", "transformers")
PROGRAMS = Path(__file__).parent / "programs" / "frameworks"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "amplint"
_TIMES = re.compile(rb"'\w+(runtime|per_second)': [^,}]*")  # which differ between any two runs
_FAULT = re.compile(r"# fault: (?P<cause>[\w-]+)")


class Outcome(NamedTuple):
    """What a program under the doctor has come to.

    Attributes:
        name: Of the program.
        wanted: The cause and the line that the doctor has to name; empty where all is well.
        said: What it has said first.
        is_same: Whether the program prints the same, and ends the same, as without it.
    """

    name: str
    wanted: str
    said: str
    is_same: bool

    @property
    def is_right(self) -> bool:
        """Whether all is as it should be."""
        return self.is_same and self.wanted == self.said


def environment() -> Path:
    """The Python that has the frameworks: this one, or that of a virtual environment, made if it isn't there."""
    if all(importlib.util.find_spec(each) for each in FRAMEWORKS):
        return Path(sys.executable)
    folder = CACHE / "frameworks"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "here.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    if subprocess.run([python, "-c", f"import {','.join(FRAMEWORKS)}"], capture_output=True, check=False).returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *FRAMEWORKS], check=True)
    return python


def versions(python: Path) -> str:
    """The versions of torch and the frameworks."""
    code = (
        "import importlib.metadata as m, sys, torch; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]), "
        "'on', torch.cuda.get_device_name() if torch.cuda.is_available() else 'the CPU')"
    )
    return subprocess.check_output([python, "-c", code, "torch", *FRAMEWORKS], text=True).strip()


def outcome(python: Path, program: Path) -> Outcome:
    """Run a program with and without the doctor."""
    here = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        ends = []
        for number, command in enumerate(([], ["-m", "amplint", "run", "--report", str(report)])):
            work = Path(folder) / str(number)
            work.mkdir()
            ends.append(
                subprocess.run([python, *command, program], cwd=work, env=here, capture_output=True, check=False)
            )
        plain, run = ends
        is_same = (plain.returncode, _TIMES.sub(b"", plain.stdout)) == (run.returncode, _TIMES.sub(b"", run.stdout))
        if not report.exists():
            return Outcome(program.stem, _wanted(program), run.stderr.decode()[-2000:], is_same)
        found = json.loads(report.read_text("utf-8"))
    if plain.returncode and not _wanted(program):
        return Outcome(program.stem, "", plain.stderr.decode()[-2000:], is_same)
    said = ""
    if found["findings"]:
        first = found["findings"][0]
        said = f"{first['cause']} {first['line']}"
        if said != _wanted(program):
            said += f" {first['path']}: {first['message']} {first.get('details')}"
    return Outcome(program.stem, _wanted(program), said, is_same)


def _wanted(program: Path) -> str:
    for number, line in enumerate(program.read_text("utf-8").splitlines(), 1):
        if fault := _FAULT.search(line):
            return f"{fault['cause']} {number}"
    return ""


def main() -> int:
    """Run all programs and print what came out; returns how many are not as they should be."""
    python = environment()
    print(versions(python))
    outcomes = [outcome(python, each) for each in sorted(PROGRAMS.glob("*.py"))]
    for each in outcomes:
        same = "its output is the same" if each.is_same else "ITS OUTPUT DIFFERS"
        right = "right" if each.is_right else "WRONG"
        print(f"{right}: {each.name}: wanted {each.wanted or 'healthy'}, said {each.said or 'healthy'}; {same}")
    return sum(not each.is_right for each in outcomes)


if __name__ == "__main__":
    sys.exit(main())
