"""What a start costs: `python -m tests.benchmarks.startup [runs]`.

Processor time (user and system) of whole processes, the median of many, as installed: with compiled modules.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
FILES = {
    "clean.py": "import torch\n\nprint(torch.ones(3).mean())\n",
    "amp.py": 'import torch\n\nwith torch.autocast("cuda"):\n    pass\n',
}
START = "import sys; from amplint.cli import main; sys.exit(main({}))"
CASES = {
    "python -c pass": "pass",
    "python -c 'import argparse'": "import argparse",
    "amplint --version": START.format(["--version"]),
    "amplint clean.py": START.format(["clean.py"]),
    "amplint directory": START.format(["clean"]),
    "amplint amp.py": START.format(["amp.py"]),
}


def processor_time(code: str, directory: Path, environment: dict[str, str]) -> float:
    """Milliseconds of processor time that a fresh interpreter takes for `code`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=directory, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def main(runs: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "clean").mkdir()
        for file, text in FILES.items():
            (directory / file).write_text(text)
        (directory / "clean" / "clean.py").write_text(FILES["clean.py"])
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(directory / "compiled")}
        for code in CASES.values():
            processor_time(code, directory, environment)
        # In turns, so that what else the machine does falls on all alike.
        times: dict[str, list[float]] = {case: [] for case in CASES}
        for _ in range(runs):
            for case, code in CASES.items():
                times[case].append(processor_time(code, directory, environment))
    bare = median(times["python -c pass"])
    print(f"{'':28} {'median ms':>9} {'over pass':>9} {'ratio':>6}")
    for case, each in times.items():
        print(f"{case:28} {median(each):9.1f} {median(each) - bare:9.1f} {median(each) / bare:6.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
