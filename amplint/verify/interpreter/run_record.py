"""What a run of a step has shown beside what its bench has measured."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from amplint.model.syntax import ir
from amplint.verify.interpreter.remade_scalers import Remade
from amplint.verify.interpreter.standins import Raised
from amplint.verify.program.program import Code


@dataclass
class RunRecord:
    """Remembers what is run; `code` is the file that is verified."""

    code: Code
    executed: set[ir.Value] = field(default_factory=set)  # calls that are events
    applied: set[int] = field(default_factory=set)  # functions that were run, by their ids
    # How tests of ifs came out, by their ids; None: by a choice.
    decided: dict[int, set[bool | None]] = field(default_factory=dict)
    # What was run, by its line and text, and what it was replaced by.
    notes: dict[tuple[int, str], str] = field(default_factory=dict)
    touched: set[tuple[str, int]] = field(default_factory=set)  # functions with such lines, run or only read, and lines
    unseen_effects: dict[str, str] = field(default_factory=dict)  # lines with calls that can do anything to training
    heard: list[warnings.WarningMessage] = field(default_factory=list)  # what torch warns of, as it is caught
    warned: dict[str, set[int]] = field(default_factory=dict)  # by warnings: the lines that have them
    caught: list[str] = field(default_factory=list)  # exceptions of torch's that the program has caught, with lines
    ended: Raised | None = None  # by an exception
    scalers: Remade = field(default_factory=Remade)
    busy: bool = False  # events have run in this iteration
    _noted: set[tuple[ir.Node, str]] = field(default_factory=set)

    def note(self, code: Code, node: ir.Node, what: str) -> None:
        """Remember what was run, or what it was replaced by."""
        self.busy = True
        if (node, what) in self._noted:
            return
        self._noted.add((node, what))
        if code is not self.code:
            key = 0, f"{code.where(node)}: {code.text(node)}"
        else:
            self.touched.add((code.known(_home, node), code.row(node)))
            if isinstance(node, ir.Value):
                self.read(code, node)
            key = code.row(node), code.text(node)
        if what or key not in self.notes:
            self.notes[key] = what

    def read(self, code: Code, value: ir.Value) -> None:
        """Remember that a run has taken something from code that isn't run, where that names a region or scaler."""
        for each in code.naming(value) if code is self.code else ():
            self.touched.add((code.known(_home, each), code.row(each)))


def _home(code: Code, node: ir.Node) -> str:
    """The function that a node stands in."""
    return code.name(ir.function_of(node))
