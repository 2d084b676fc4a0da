"""The picture in the README: what the command prints on a terminal. `python -m tests.picture` draws it."""

from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import ROOT

PICTURE = ROOT / ".github" / "terminal.svg"
COMMANDS = ("amplint train.py", "amplint --diff --quiet train.py")
PROGRAM = """\
import torch
from torch import nn


def train(model, optimizer, batches):
    scaler = torch.amp.GradScaler("cuda")
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(inputs), targets)
            scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
_WIDTH = 140


def printed(command: str, colour: bool) -> str:
    """What a command prints about the program."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": str(_WIDTH), "FORCE_COLOR": "1" if colour else ""}
    env.pop("NO_COLOR", None)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(PROGRAM)
        words = [sys.executable, "-m", *command.split()]
        return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False).stdout


def draw() -> str:
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    for command in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(printed(command, colour=True)))
    return console.export_svg(title="amplint", theme=MONOKAI, unique_id="amplint")


def words(svg: str) -> list[str]:
    """The words of a picture."""
    return html.unescape(re.sub(r"<[^>]+>", " ", svg.partition("</defs>")[2])).split()


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(), "utf-8")
