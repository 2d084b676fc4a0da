"""Runs programs of authors who didn't know the doctor, and compares what it says with what they wrote down.

`python -m tests.doctor.blind [--device DEVICE] [SET ...] [SET/PROGRAM ...]` prints a line for each program and a table
of the sets: the first run, before anything was mended for the set (`first_runs.csv`), and the run of now.

The programs were written for the CPU. With `--device cuda` each names that device where it named the CPU, and new
tensors are created there. A program that then ends with an error by itself is left out, and so is one whose fault
`cpu_alone` of its truth says to be of the CPU: on CUDA autocast computes sums and exponentials in float32.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests import ROOT

HERE = Path(__file__).parent
FIRST = HERE / "first_runs.csv"
EXACT, CAUSE, SILENT, WRONG = "exact", "cause only", "silent", "wrong"
LEFT_ALONE, ALARM = "left alone", "alarm"
LIMIT = 300  # seconds of a program


def programs(names: Sequence[str] = ()) -> list[Path]:
    """The folders of the programs that are named, or of all."""
    found = [path.parent for path in sorted(HERE.glob("*/*/truth.json"))]
    return [path for path in found if not names or path.parent.name in names or name_of(path) in names]


def name_of(folder: Path) -> str:
    """The set and the program."""
    return f"{folder.parent.name}/{folder.name}"


def truth_of(folder: Path) -> dict[str, Any]:
    """What the author has written down."""
    text = re.sub(r'//[^\n"]*\n', "\n", (folder / "truth.json").read_text("utf-8"))
    truth: dict[str, Any] = json.loads(text)
    return truth


def report_of(folder: Path, device: str = "cpu") -> dict[str, Any] | None:
    """What the doctor reports of a program, which is run in a copy of its folder; None where it can't be moved."""
    truth = truth_of(folder)
    if device != "cpu" and "cpu_alone" in truth:
        return None
    with tempfile.TemporaryDirectory() as temporary:
        copy, out = Path(temporary, "program"), Path(temporary, "report.json")
        shutil.copytree(folder, copy)
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}

        def run(*command: str) -> subprocess.CompletedProcess[bytes]:
            whole = [sys.executable, *command, *truth["run"]]
            return subprocess.run(whole, cwd=copy, env=env, capture_output=True, timeout=LIMIT, check=False)

        if device != "cpu":
            for path in copy.rglob("*.py"):
                path.write_text(moved_to(device, path.read_text("utf-8")), "utf-8")
            alone = run()
            if alone.returncode:
                return None
        seen = run("-m", "amplint", "run", "--report", str(out))
        if device != "cpu" and (seen.returncode, seen.stdout) != (alone.returncode, alone.stdout):
            print(
                f"{name_of(folder)}: OTHERWISE UNDER THE DOCTOR: exit {seen.returncode}, {seen.stderr[-500:].decode()}"
            )
        report: dict[str, Any] = json.loads(out.read_text("utf-8"))
        return report


def moved_to(device: str, text: str) -> str:
    """A program's text for another device; its lines keep their numbers."""
    named = re.sub(r"""(["'])cpu\1""", repr(device), text)
    lines = named.replace("torch.Generator()", f"torch.Generator({device!r})").splitlines(keepends=True)
    imports = (
        node.lineno
        for node in ast.parse(text).body
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__")
    )
    if first := next(imports, None):
        lines[first - 1] = f"import torch; torch.set_default_device({device!r}); {lines[first - 1]}"
    return "".join(lines)


def judged(truth: dict[str, Any], findings: Sequence[dict[str, Any]]) -> str:
    """How the findings compare with the truth: the first one counts."""
    if truth["healthy"]:
        return ALARM if findings else LEFT_ALONE
    if not findings or findings[0]["cause"] is None:
        return SILENT
    first = findings[0]
    if first["cause"] not in (truth["cause"], *truth.get("also", ())):  # `also`: causes that the author accepts as well
        return WRONG
    is_there = any((first["path"] or "").endswith(path) and first["line"] == line for path, line in truth["places"])
    return EXACT if is_there else CAUSE


def table(verdicts: dict[str, str], of: str) -> list[str]:
    """A row for each set: how many faulty programs of which verdict, and healthy ones."""
    rows = []
    for name in sorted({each.partition("/")[0][:-1] for each in verdicts}):
        counts = Counter(verdict for each, verdict in verdicts.items() if each.startswith(name))
        faulty = sum(counts[each] for each in (EXACT, CAUSE, SILENT, WRONG))
        healthy = counts[LEFT_ALONE] + counts[ALARM]
        rows.append(
            f"| {name} | {of} | {counts[EXACT]} of {faulty} | {counts[CAUSE]} | {counts[SILENT]} | {counts[WRONG]} "
            f"| {counts[ALARM]} of {healthy} |"
        )
    return rows


def first_runs() -> dict[str, str]:
    """The verdicts of the first runs."""
    with FIRST.open(encoding="utf-8", newline="") as file:
        return {row["program"]: row["verdict"] for row in csv.DictReader(file)}


def main() -> None:
    """Run what is named and print how it compares."""
    parser = argparse.ArgumentParser(prog="python -m tests.doctor.blind", description=(__doc__ or "").strip())
    parser.add_argument("names", nargs="*", metavar="name", help="only these sets or programs")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="at once [default: 2]")
    parser.add_argument("--device", default="cpu", help="run the programs there [default: %(default)s]")
    options = parser.parse_args()
    folders, now = programs(options.names), {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for folder, report in zip(folders, pool.map(partial(report_of, device=options.device), folders), strict=True):
            if report is None:
                print(f"{name_of(folder)}: left out on {options.device}", flush=True)
                continue
            findings, truth = report["findings"], truth_of(folder)
            now[name_of(folder)] = verdict = judged(truth, findings)
            print(f"{name_of(folder)}: {verdict} ({truth['cause'] or 'healthy'})", flush=True)
            if verdict not in (EXACT, LEFT_ALONE):
                for each in findings:
                    where = f"{each['path']}:{each['line']}"
                    print(f"    {each['cause']} {each['code']} {where} {each['message']} {each.get('details')}")
    print("\n| set | run | exact | cause only | silent or not shown | wrong | healthy alarmed |")
    print("|---|---|---|---|---|---|---|")
    first = {name: verdict for name, verdict in first_runs().items() if name in now}
    rows = sorted([*table(first, "first"), *table(now, "now")], key=lambda row: row.split("|")[1])
    print("\n".join(rows))


if __name__ == "__main__":
    main()
