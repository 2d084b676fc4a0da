"""What the fixes make of a program: the misuse they are for is gone, and none is new."""

from __future__ import annotations

import re
from typing import NamedTuple

from amplint import fix
from tests.differential.compare import SETTINGS
from tests.differential.ledger import UnsuitableError
from tests.differential.observe import Seen, observe
from tests.differential.program import FILENAME, Program


class Fixed(NamedTuple):
    """A program that fixes have changed."""

    program: Program
    text: str
    gone: list[str]
    new: list[str]  # with what the program does now that no code is about

    def __str__(self) -> str:
        head = f"--- seed {self.program.seed} ({self.program.family})"
        after = self.program._replace(text=self.text).numbered()
        told = "".join(f"\n  NEW {each}" for each in self.new) + "".join(f"\n  gone: {each}" for each in self.gone)
        return f"{head}\n{self.program.numbered()}\n  becomes\n{after}{told}"


def fixed(program: Program) -> Fixed | None:
    """A program with its fixes made, the unsafe ones too; None where nothing changes."""
    text = fix(program.text, FILENAME, SETTINGS, unsafe=True)
    if text == program.text:
        return None
    before = _told(program, observe(program))
    after_program = program._replace(text=text)
    try:
        seen = observe(after_program)
    except UnsuitableError as error:
        name = re.match("NameError: name '(.*)' is not defined", str(error))
        if name is not None and not re.search(rf"\b{name[1]} = ", program.text):
            return None  # what stood before it raised
        return Fixed(program, text, [], [f"unsuitable: {error}"])
    after = _told(after_program, seen)
    known = set().union(*before.values())
    # What an exception hid may come to light: it was seen behind it, and was secondary.
    new = [each for each in seen.observed if not each.secondary and not after[str(each)] & known]
    # In each iteration but the last, another update makes it good.
    new = [each for each in new if each.kind != "update owed at the end"]
    if any(code in ("AMP402", "AMP404", "AMP411") for code, _ in known):
        # That gradients are never cleared shows once the scaler unscales them in each iteration, at the call that does.
        new = [each for each in new if each.kind != "a sum of unscaled and scaled"]
    still = set().union(*after.values())
    return Fixed(program, text, [each for each, told in before.items() if not told & still], [*map(str, new)])


def _told(program: Program, seen: Seen) -> dict[str, set[tuple[str, str]]]:
    """What each observation allows to be found: codes, and the text of the line, since lines move."""
    lines = ["", *program.text.splitlines()]
    return {str(each): {(code, lines[line].strip()) for code, line in each.allowed()} for each in seen.observed}
