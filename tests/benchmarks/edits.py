"""What an edit costs in an editor, from the change to its diagnostics: random ones in the functions of a script."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from amplint.integrations import lsp_server
from tests.benchmarks.measure import Bench, Row
from tests.editing import Editor, edited

SCRIPT = Path(__file__).with_name("samples") / "super_resolution.py"
EDITS, SEED = 200, 0
MEDIAN, MOST = 0.15, 0.4  # seconds of processor time, at the median and at the 95th percentile


def rows(bench: Bench) -> Iterator[Row]:
    """Processor time of all threads; the pause before a text is linted takes none."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / SCRIPT.name).write_text(SCRIPT.read_text())
        seconds = asyncio.run(_measured(Path(name)))
    work = f"an edit in a function of a script of {len(SCRIPT.read_text().splitlines())} lines"
    for said, took, bar in (("median", median(seconds), MEDIAN), ("95 %", quantiles(seconds, n=20)[-1], MOST)):
        yield Row(f"{work}, {said}", f"{1000 * took:.0f} ms", "", "", f"at most {1000 * bar:.0f} ms", took <= bar)


async def _measured(root: Path) -> list[float]:
    lsp_server.PAUSE = 0
    chance, text = random.Random(SEED), SCRIPT.read_text()
    editor = Editor(root)
    await editor.start()
    await editor.opened(SCRIPT.name, text)
    seconds = []
    for number in range(EDITS):
        text = edited(text, chance)
        started = time.process_time()
        await editor.changed(SCRIPT.name, text, number + 2)
        seconds.append(time.process_time() - started)
    return seconds
