"""What a start costs: nothing to do, a file without AMP, and one training script, as pre-commit hands it over."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import CHECK, Bench, Row, above

CLEAN = "import torch\n\nprint(torch.ones(3).mean())\n"
TRAINING = Path(__file__).with_name("samples") / "train.py"
# A process has to start a few times more often than one that works for seconds, to be told from noise.
MORE = 3
LIGHT = "import sys; from amplint.cli import main; main({}); sys.exit('libcst' in sys.modules)"
CASES = {
    "`amplint --version`": ["--version"],
    "one clean file": [*CHECK, "clean.py"],
}


def rows(bench: Bench) -> Iterator[Row]:
    """Processor time above that of Python alone, and of the import of libcst."""
    python, amplint = bench.amplint / "python", bench.amplint / "amplint"
    bare, libcst = "`python -c pass` (CPU)", "`import libcst` (CPU)"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "clean.py").write_text(CLEAN)
        (directory / "train.py").write_text(TRAINING.read_text())
        (directory / "clipped.py").write_text(TRAINING.read_text().replace("scaler.unscale_(optimizer)", "pass"))
        costs = Bench(bench.cache, MORE * bench.runs).processes(
            {
                bare: [python, "-c", "pass"],
                libcst: [python, "-c", "import libcst"],
                **{case: [amplint, *arguments] for case, arguments in CASES.items()},
                "train.py": [amplint, *CHECK, "train.py"],
                "clipped.py": [amplint, *CHECK, "clipped.py"],
            },
            directory,
        )
        light = {case: _is_light(python, directory, arguments) for case, arguments in CASES.items()}
    for case in CASES:
        row = above(case, costs[case].cpu, bare, costs[bare].cpu, 0.06)
        yield row._replace(bar=f"{row.bar}, no libcst", met=row.met and light[case])
    work = f"one AMP file of {len(TRAINING.read_text().splitlines())} lines"
    yield above(work, costs["train.py"].cpu, libcst, costs[libcst].cpu, 0.15)
    yield above(f"{work}, with a finding", costs["clipped.py"].cpu, libcst, costs[libcst].cpu, 0.15)


def _is_light(python: Path, directory: Path, arguments: list[str]) -> bool:
    """Whether a run leaves libcst alone."""
    command = [str(python), "-c", LIGHT.format(arguments)]
    return subprocess.run(command, cwd=directory, check=False, capture_output=True).returncode == 0
